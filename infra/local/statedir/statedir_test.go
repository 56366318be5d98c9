package statedir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// covers: H4
func TestOneHostAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, ErrLocked) {
		t.Errorf("second: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(path)
	if err != nil {
		t.Fatalf("after it closed: %v", err)
	}
	again.Close()
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", st.Mode(), err)
	}
}

func TestSecretsStayAndAreTheOwnersAlone(t *testing.T) {
	d := At(t.TempDir())
	if _, err := d.ReadOperator(); !errors.Is(err, ErrNotStarted) {
		t.Errorf("before the first start: %v", err)
	}
	if _, err := d.ReadHost(); !errors.Is(err, ErrNotStarted) {
		t.Errorf("before the first start: %v", err)
	}
	a, err := d.Operator()
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Operator()
	if err != nil || a != b || len(a.SecretAccessKey) < 40 {
		t.Errorf("%+v, %+v, %v", a, b, err)
	}
	other, _ := At(t.TempDir()).Operator()
	if other == a {
		t.Error("two folders have one key")
	}
	if err := d.WriteHost(Host{URL: "u", AWSEndpoint: "e"}); err != nil {
		t.Fatal(err)
	}
	if h, err := d.ReadHost(); err != nil || h.URL != "u" || h.AWSEndpoint != "e" {
		t.Errorf("%+v, %v", h, err)
	}
	entries, _ := os.ReadDir(d.Root())
	for _, e := range entries {
		if st, _ := e.Info(); st.Mode().Perm() != 0o600 {
			t.Errorf("%s has %v", e.Name(), st.Mode())
		}
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s is left over", e.Name())
		}
	}
	os.WriteFile(d.Path(operatorFile), []byte("{"), 0o600)
	if _, err := d.Operator(); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("damaged: %v", err)
	}
}
