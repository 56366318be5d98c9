package outbound_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/outbound"
)

// covers: A3
func TestOnlyAnHTTPSURLOfAPublicNameIsAURL(t *testing.T) {
	for text, want := range map[string]outbound.Rule{
		"https://api.github.com/search/repositories?per_page=2&sort=stars": "",
		"https://api.github.com":                       "",
		"https://API.GitHub.com:443/x":                 "",
		"https://xn--bcher-kva.de/":                    "",
		"http://api.github.com/":                       outbound.NotHTTPS,
		"ftp://api.github.com/":                        outbound.NotHTTPS,
		"file:///etc/passwd":                           outbound.NotURL,
		"//api.github.com/":                            outbound.NotHTTPS,
		"api.github.com":                               outbound.NotHTTPS,
		"":                                             outbound.NotHTTPS,
		"https:":                                       outbound.NotURL,
		"https:api.github.com":                         outbound.NotURL,
		"https://":                                     outbound.NotURL,
		"https:///x":                                   outbound.NotURL,
		"https://user@api.github.com/":                 outbound.HasUser,
		"https://api.github.com@127.0.0.1/":            outbound.HasUser,
		"https://api.github.com:x@evil.com/":           outbound.HasUser,
		"https://@api.github.com/":                     outbound.HasUser,
		"https://api.github.com\\@evil.com/":           outbound.NotURL,
		"https://api.github.com/a b":                   outbound.NotURL,
		"https://api.github.com/a\n":                   outbound.NotURL,
		"https://api.github.com/#x":                    outbound.HasFragment,
		"https://api.github.com/#":                     outbound.HasFragment,
		"https://api.github.com:22/":                   outbound.WrongPort,
		"https://api.github.com:8443/":                 outbound.WrongPort,
		"https://api.github.com:/":                     outbound.WrongPort,
		"https://127.0.0.1/":                           outbound.NotName,
		"https://0/":                                   outbound.NotName,
		"https://2130706433/":                          outbound.NotName,
		"https://0x7f.1/":                              outbound.NotName,
		"https://0x7f000001/":                          outbound.NotName,
		"https://127.1/":                               outbound.NotName,
		"https://0177.0.0.1/":                          outbound.NotName,
		"https://1.2.3.4.0x/":                          outbound.NotName,
		"https://8.8.8.8/":                             outbound.NotName,
		"https://127.0.0.1./":                          outbound.NotName,
		"https://[::1]/":                               outbound.NotName,
		"https://[::ffff:169.254.169.254]/":            outbound.NotName,
		"https://[64:ff9b::7f00:1]/":                   outbound.NotName,
		"https://[2606:4700:4700::1111]/":              outbound.NotName,
		"https://api.github.com./":                     outbound.NotName,
		"https://localhost/":                           outbound.NotName,
		"https://intranet/":                            outbound.NotName,
		"https://gіthub.com/":                          outbound.NotName, // a Cyrillic і
		"https://ⓖithub.com/":                          outbound.NotName,
		"https://１２７.0.0.1/":                           outbound.NotName,
		"https://api。github.com/":                      outbound.NotName,
		"https://api..github.com/":                     outbound.NotName,
		"https://-api.github.com/":                     outbound.NotName,
		"https://api_x.github.com/":                    outbound.NotName,
		"https://a.localhost/":                         outbound.NotPublic,
		"https://metadata.google.internal/":            outbound.NotPublic,
		"https://printer.local/":                       outbound.NotPublic,
		"https://x.home.arpa/":                         outbound.NotPublic,
		"https://www.example/":                         outbound.NotPublic,
		"https://" + strings.Repeat("a.", 130) + "com": outbound.NotName,
	} {
		u, err := outbound.CheckURL(text)
		var got outbound.Rule
		if refused := (*outbound.URLError)(nil); errors.As(err, &refused) {
			got = refused.Rule
		}
		if got != want || (err == nil) != (u != nil) {
			t.Errorf("%.60q: %q, want %q", text, got, want)
		}
		if err != nil && len(text) > 12 && strings.Contains(err.Error(), text[8:]) {
			t.Errorf("%q is quoted: %v", text, err)
		}
	}
}

// covers: A3
func TestOnlyPublicAddressesArePublic(t *testing.T) {
	for _, text := range []string{"8.8.8.8", "140.82.121.6", "::ffff:8.8.8.8", "2606:4700:4700::1111", "2a00:1450:4001::200e", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1"} {
		if !outbound.Public(netip.MustParseAddr(text)) {
			t.Errorf("%s is public", text)
		}
	}
	for _, text := range []string{
		"0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.255.255.255", "169.254.169.254", "169.254.170.2", "172.16.0.1", "172.31.255.255", "192.0.0.170", "192.0.2.1",
		"192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::8.8.8.8", "64:ff9b:1::1", "100::1", "fc00::1", "fd00:ec2::254",
		"fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "2001::1", "2001:0:7f00:1::", "2001:10::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::1", "3fff::1", "5f00::1", "2606:4700:4700::1111%eth0",
	} {
		if outbound.Public(netip.MustParseAddr(text)) {
			t.Errorf("%s is not public", text)
		}
	}
}

// A names is a DNS server that answers questions by a list, one after another.
type names struct {
	mu   sync.Mutex
	of   map[string][]string // host → addresses, one answer each
	seen int
}

func (n *names) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, StrictErrors: false, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go n.serve(ours)
		return theirs, nil
	}}
}

// serve answers the messages of one connection, as over TCP: each behind its length.
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
		kind := binary.BigEndian.Uint16(query[at+1:])
		answer := bytes.Clone(query[:at+5])
		answer[2], answer[3] = 0x84, 0x80
		copy(answer[6:12], make([]byte, 6))
		if kind == 1 {
			n.mu.Lock()
			all := n.of[strings.Join(labels, ".")]
			if len(all) > 0 {
				n.seen++
				for _, one := range strings.Split(all[min(n.seen, len(all))-1], ",") {
					answer[7]++
					answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
					answer = append(answer, netip.MustParseAddr(one).AsSlice()...)
				}
			}
			n.mu.Unlock()
		}
		conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, stop := context.WithTimeout(t.Context(), d)
	t.Cleanup(stop)
	return ctx
}

// A name is judged by the address that is dialled, not by one that it had before.
//
// covers: A3
func TestANameThatLeadsToAnAddressThatIsNotPublicIsNotDialled(t *testing.T) {
	n := &names{of: map[string][]string{
		"inside.pxhost.dev":   {"127.0.0.1"},
		"metadata.pxhost.dev": {"169.254.169.254"},
		"both.pxhost.dev":     {"10.0.0.1,127.0.0.1"},
	}}
	c := outbound.NewWith(outbound.Exceptions{}, n.resolver())
	for host := range n.of {
		_, err := c.Send(within(t, 5*time.Second), outbound.Request{Method: "GET", URL: "https://" + host + "/?secret=1"})
		failed := (*outbound.Error)(nil)
		if !errors.As(err, &failed) || failed.Kind != outbound.Blocked || failed.Written {
			t.Errorf("%s: %v", host, err)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Error(err)
		}
	}
	if n.seen != 3 {
		t.Errorf("%d names were resolved", n.seen)
	}
}

// covers: A3
func TestAnAddressIsJudgedEachTime(t *testing.T) {
	n := &names{of: map[string][]string{"rebound.pxhost.dev": {"203.0.113.7", "127.0.0.1"}}}
	c := outbound.NewWith(outbound.Exceptions{}, n.resolver())
	for range 2 {
		_, err := c.Send(within(t, 5*time.Second), outbound.Request{Method: "GET", URL: "https://rebound.pxhost.dev/"})
		failed := (*outbound.Error)(nil)
		if !errors.As(err, &failed) || failed.Kind != outbound.Blocked {
			t.Error(err)
		}
	}
	if n.seen != 2 {
		t.Errorf("%d names were resolved: the first answer was kept", n.seen)
	}
}

// A site is a host that tests reach.
type site struct {
	*outbound.Client
	conns atomic.Int32
}

func open(t *testing.T, handle http.HandlerFunc) *site {
	s := new(site)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A server sees that a client has left when it has read all of the request.
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		handle(w, r)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.conns.Add(1)
		}
	}
	server.Config.ErrorLog = nil
	// The certificate of httptest is of example.com.
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	s.Client = outbound.NewWith(outbound.Exceptions{Hosts: map[string]string{"example.com": server.Listener.Addr().String()}, Roots: roots}, nil)
	return s
}

const there = "https://example.com/x?secret=1"

func TestARequestIsSentAsItIs(t *testing.T) {
	s := open(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s %s %d %s", r.Method, r.Host, r.URL, r.Header.Get("X-A"), body, r.ContentLength, r.Header.Get("Accept-Encoding"))
	})
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	for q, want := range map[*outbound.Request]string{
		{Method: "GET", URL: there, Header: http.Header{"X-A": {"1"}}}: "GET example.com /x?secret=1 1  0 identity",
		{Method: "POST", URL: there, Body: []byte("{}")}:               "POST example.com /x?secret=1  {} 2 identity",
	} {
		answer, err := s.Send(within(t, 5*time.Second), *q)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := answer.ReadAll(); err != nil || string(got) != want {
			t.Errorf("%q %v, want %q", got, err, want)
		}
	}
	if s.conns.Load() != 2 {
		t.Errorf("%d connections for two requests", s.conns.Load())
	}
}

// covers: A3
func TestARedirectIsAnAnswer(t *testing.T) {
	asked := 0
	s := open(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, "https://example.com/other", http.StatusFound)
	})
	answer, err := s.Send(within(t, 5*time.Second), outbound.Request{Method: "GET", URL: there})
	if err != nil || answer.Status != 302 || asked != 1 {
		t.Fatalf("%v %v, asked %d times", answer, err, asked)
	}
	answer.Body.Close()
}

func TestABodyMayHave2MiBAndNoByteMore(t *testing.T) {
	if outbound.MaxBody != 2<<20 {
		t.Fatal(outbound.MaxBody)
	}
	for _, more := range []int{0, 1, 100 << 20} {
		for _, chunked := range []bool{false, true} {
			s := open(t, func(w http.ResponseWriter, r *http.Request) {
				if !chunked {
					w.Header().Set("Content-Length", fmt.Sprint(outbound.MaxBody+more))
				}
				part := make([]byte, 64<<10)
				for left := outbound.MaxBody + more; left > 0; left -= len(part) {
					if _, err := w.Write(part[:min(left, len(part))]); err != nil {
						return
					}
				}
			})
			answer, err := s.Send(within(t, 10*time.Second), outbound.Request{Method: "GET", URL: there})
			size := 0
			if err == nil {
				var body []byte
				body, err = answer.ReadAll()
				size = len(body)
				if _, again := answer.Body.Read(make([]byte, 1)); more > 0 && again == nil {
					t.Error("it is read on")
				}
			}
			failed := (*outbound.Error)(nil)
			if more == 0 && (err != nil || size != outbound.MaxBody) || more > 0 && (!errors.As(err, &failed) || failed.Kind != outbound.TooLarge) || size > outbound.MaxBody {
				t.Errorf("%d more, chunked %v: %d bytes, %v", more, chunked, size, err)
			}
		}
	}
}

// Where it is not known that nothing was written, it was (A9).
//
// covers: A9
func TestWhatFailsIsToldByItsKindAndByWhetherAnythingWasWritten(t *testing.T) {
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	wait := func(r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}
	hijack := func(w http.ResponseWriter, text string) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			io.WriteString(conn, text)
			conn.Close()
		}
	}
	for name, c := range map[string]struct {
		handle  http.HandlerFunc
		kind    outbound.Kind
		seconds float64
	}{
		"it takes the request and hangs": {func(w http.ResponseWriter, r *http.Request) { wait(r) }, outbound.TimedOut, 0.3},
		"it takes the request and ends":  {func(w http.ResponseWriter, r *http.Request) { hijack(w, "") }, outbound.Broken, 5},
		"it says what is no HTTP":        {func(w http.ResponseWriter, r *http.Request) { hijack(w, "220 smtp\r\n") }, outbound.Broken, 5},
		"half a head":                    {func(w http.ResponseWriter, r *http.Request) { hijack(w, "HTTP/1.1 200 OK\r\nContent-Le") }, outbound.Broken, 5},
		"half a body": {func(w http.ResponseWriter, r *http.Request) {
			hijack(w, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")
		}, outbound.Broken, 5},
		"half a chunk": {func(w http.ResponseWriter, r *http.Request) {
			hijack(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{")
		}, outbound.Broken, 5},
		"a head without an end": {func(w http.ResponseWriter, r *http.Request) {
			hijack(w, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 1<<20))
		}, outbound.TooLarge, 5},
		"another protocol": {func(w http.ResponseWriter, r *http.Request) {
			hijack(w, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
		}, outbound.Broken, 5},
		"a body that trickles without an end": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				w.Write([]byte(" "))
				w.(http.Flusher).Flush()
				time.Sleep(time.Millisecond)
			}
		}, outbound.TimedOut, 0.3},
		"gzip that nobody asked for": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			gzip.NewWriter(w).Close()
		}, outbound.Encoded, 5},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, c.handle)
			answer, err := s.Send(within(t, time.Duration(c.seconds*float64(time.Second))), outbound.Request{Method: "POST", URL: there, Body: []byte("{}")})
			if err == nil {
				_, err = answer.ReadAll()
			}
			failed := (*outbound.Error)(nil)
			if !errors.As(err, &failed) || failed.Kind != c.kind || !failed.Written {
				t.Errorf("%+v, want %s, written", err, c.kind)
			}
			if strings.Contains(fmt.Sprint(err), "secret") {
				t.Error(err)
			}
		})
	}

	raw := func(t *testing.T, serve func(net.Conn)) *outbound.Client {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go serve(conn)
			}
		}()
		return outbound.NewWith(outbound.Exceptions{Hosts: map[string]string{"example.com": l.Addr().String()}}, nil)
	}
	closed := func() *outbound.Client {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		return outbound.NewWith(outbound.Exceptions{Hosts: map[string]string{"example.com": l.Addr().String()}}, nil)
	}
	stranger := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(stranger.Close)
	old := httptest.NewUnstartedServer(http.NotFoundHandler())
	old.TLS = &tls.Config{MaxVersion: tls.VersionTLS11}
	old.StartTLS()
	t.Cleanup(old.Close)
	for name, c := range map[string]struct {
		client  *outbound.Client
		kind    outbound.Kind
		seconds float64
	}{
		"nobody listens":            {closed(), outbound.Unreachable, 5},
		"it ends at once":           {raw(t, func(c net.Conn) { c.Close() }), outbound.Unreachable, 5},
		"it speaks no TLS":          {raw(t, func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n"); c.Close() }), outbound.Untrusted, 5},
		"it hangs before TLS":       {raw(t, func(c net.Conn) { <-hang; c.Close() }), outbound.TimedOut, 0.3},
		"nobody vouches for it":     {outbound.NewWith(outbound.Exceptions{Hosts: map[string]string{"example.com": stranger.Listener.Addr().String()}}, nil), outbound.Untrusted, 5},
		"it speaks an old TLS":      {outbound.NewWith(outbound.Exceptions{Hosts: map[string]string{"example.com": old.Listener.Addr().String()}}, nil), outbound.Unreachable, 5},
		"its name is not to be had": {outbound.NewWith(outbound.Exceptions{}, (&names{}).resolver()), outbound.Unreachable, 5},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.client.Send(within(t, time.Duration(c.seconds*float64(time.Second))), outbound.Request{Method: "POST", URL: there, Body: []byte("{}")})
			failed := (*outbound.Error)(nil)
			if !errors.As(err, &failed) || failed.Kind != c.kind || failed.Written {
				t.Errorf("%+v, want %s, nothing written", err, c.kind)
			}
		})
	}
}

func TestOnlyGETAndPOSTWithADeadlineAreRequests(t *testing.T) {
	asked := false
	s := open(t, func(http.ResponseWriter, *http.Request) { asked = true })
	for _, q := range []outbound.Request{{Method: "PUT", URL: there}, {Method: "get", URL: there}, {URL: there}, {Method: "GET", URL: there, Body: []byte("x")}} {
		if _, err := s.Send(within(t, 5*time.Second), q); err == nil {
			t.Errorf("%s was sent", q.Method)
		}
	}
	if _, err := s.Send(context.Background(), outbound.Request{Method: "GET", URL: there}); err == nil || asked {
		t.Error("it was sent without a deadline")
	}
}
