package local

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"time"
)

// The URL is the issuer of every principal: at another one, a Project that was made
// before is nobody's. Who starts there is told, before wondering where it is.
func TestAStartAtAnotherAddressTellsWhoseTheProjectsAre(t *testing.T) {
	state := t.TempDir()
	start := func(addr string) (url, said string, err error) {
		t.Helper()
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		var lines bytes.Buffer
		cfg := Config{State: state, Addr: addr, Template: "../../template.yaml", ServicesOnly: true, Out: &lines}
		cfg.Ready = func(_ context.Context, run Running) error {
			url = run.URL
			stop()
			return nil
		}
		err = Run(ctx, cfg)
		return url, lines.String(), err
	}
	first, said, err := start("127.0.0.1:0")
	if err != nil || first == "" || strings.Contains(said, "theirs alone") {
		t.Fatalf("first at %q: %v\n%s", first, err, said)
	}
	// The same port again, unless another process took it meanwhile.
	again, said, err := start("127.0.0.1:0")
	if err != nil || strings.Contains(said, "theirs alone") != (again != first) {
		t.Fatalf("again at %q, first at %q: %v\n%s", again, first, err, said)
	}
	if taken, err := net.Listen("tcp", strings.TrimPrefix(again, "http://")); err == nil {
		defer taken.Close()
	}
	if _, _, err := start(strings.TrimPrefix(again, "http://")); err == nil || !strings.Contains(err.Error(), "--state: what principals of "+again) {
		t.Errorf("at an address that is taken: %v", err)
	}
	if other, said, err := start("127.0.0.1:0"); err != nil || other == again || !strings.Contains(said, "the last start was at "+again+", this one is at "+other) {
		t.Errorf("at another: %q %v\n%s", other, err, said)
	}
}
