// Command outside stands, in tests alone, for the functions that call services outside:
// capability_api, adapter_http_json and adapter_mcp_http. It wires what they wire, but
// for one thing: its client reaches the hosts that a file beside the program names.
//
// The functions of the product have no such exceptions and no way to get any: they are
// other programs. A variable that switched exceptions on would be one that could be set
// where it must not be.
package main

import (
	"context"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/pxhost/pxhost/infra/acceptance/outside/standin"
	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/plugins"
	"github.com/pxhost/pxhost/shared/capability/door"
	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/outbound"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	out := boot.Must(client())
	h := plugins.New(env)
	var serve lambda.Handler
	switch name := env.Need("AWS_LAMBDA_FUNCTION_NAME"); {
	case strings.HasSuffix(name, "-adapter_http_json"):
		serve = h.HTTPJSON(out)
	case strings.HasSuffix(name, "-adapter_mcp_http"):
		serve = h.MCPHTTP(out)
	case strings.HasSuffix(name, "-capability_api"):
		accept := identity.Config{Issuer: env.Need("PX_ISSUER"), Audience: env.Need("PX_AUDIENCE"), KeysURL: env.Get("PX_KEYS_URL")}
		parts := door.Host{Rows: h.Store(), Workspaces: h.Reader(), Executions: h.Desk(), Plugins: h.Manager(), Connections: h.Connections(out)}
		serve = door.New(boot.Must(identity.New(accept)), h.Frame(), parts)
	default:
		boot.Check(errors.New("outside: it stands for no such function"))
	}
	boot.Check(env.Err())
	boot.Start(serve)
}

// client is one with the exceptions of the file beside the program.
func client() (*outbound.Client, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(program), standin.File))
	if err != nil {
		return nil, err
	}
	var c standin.Configuration
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(c.Roots) {
		return nil, errors.New("outside: nobody vouches for the hosts")
	}
	n := &names{of: c.Names, asked: map[string]int{}}
	return outbound.NewWith(outbound.Exceptions{Hosts: c.Hosts, Roots: roots}, &net.Resolver{PreferGo: true, Dial: n.dial}), nil
}

// names is a DNS server within the process.
type names struct {
	mu    sync.Mutex
	of    map[string][]string
	asked map[string]int
}

func (n *names) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go n.serve(ours)
	return theirs, nil
}

// serve answers questions as over TCP, each message behind its length: with an A record
// for a name that is known, and with nothing for all others.
func (n *names) serve(conn net.Conn) {
	defer conn.Close()
	for {
		var size uint16
		if binary.Read(conn, binary.BigEndian, &size) != nil {
			return
		}
		query := make([]byte, size)
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		var labels []string
		at := 12
		for query[at] != 0 {
			labels = append(labels, string(query[at+1:at+1+int(query[at])]))
			at += 1 + int(query[at])
		}
		answer := append([]byte{}, query[:at+5]...)
		answer[2], answer[3] = 0x84, 0x80
		copy(answer[6:12], make([]byte, 6))
		if address := n.next(strings.Join(labels, ".")); address.Is4() && binary.BigEndian.Uint16(query[at+1:]) == 1 {
			answer[7] = 1
			answer = append(append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4), address.AsSlice()...)
		} else if address.Is6() && binary.BigEndian.Uint16(query[at+1:]) == 28 {
			answer[7] = 1
			answer = append(append(answer, 0xc0, 12, 0, 28, 0, 1, 0, 0, 0, 0, 0, 16), address.AsSlice()...)
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

// next is what a name resolves to now. A name is asked for twice each time, once a
// family.
func (n *names) next(name string) netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.of[strings.TrimSuffix(name, ".")]
	if len(all) == 0 {
		return netip.Addr{}
	}
	n.asked[name]++
	address, _ := netip.ParseAddr(all[min((n.asked[name]-1)/2, len(all)-1)])
	return address
}
