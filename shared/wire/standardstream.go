package wire

import (
	"context"
	"encoding/base64"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// maxWaiting is how many requests of a stream are held at a time. SideBySide of them are
// answered, the others wait; behind them, the stream is not read.
const maxWaiting = 64

// StreamStandard is the stdio transport of ordinary MCP clients, of both eras: a message a
// line, read from in until it ends. Each request is handed to answer, which returns its
// reply on one line, as a Post of the HTTP transport: with the headers that a request of
// the modern version repeats itself in. Replies are written to out as they come, in any
// order; clients tell them by their ids.
//
// Nothing is kept between requests, and so a notification means nothing, but for the one
// that cancels a request: its context ends, and it gets no reply. What is no message gets
// its error, a batch too. A request that was cancelled may have been done all the same.
//
// It returns the first error of in or out, or the end of ctx, and at the end of in only
// when all is answered. A read of in that does not return is left behind: the caller ends
// the process.
func StreamStandard(ctx context.Context, in io.Reader, out io.Writer, answer func(context.Context, Post) []byte) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &standardStream{out: out, fail: cancel, under: map[string][]*under{}}
	waiting, slots := make(chan struct{}, maxWaiting), make(chan struct{}, SideBySide)
	var all sync.WaitGroup
	ended := make(chan error, 1)
	go func() {
		err := readLines(in, func(line []byte) bool {
			if line == nil {
				s.write(faultLine(nil, lineTooLong))
				return ctx.Err() == nil
			}
			m, f := readMessage(line)
			switch {
			case f != nil:
				s.write(faultLine(m.id, f))
				return ctx.Err() == nil
			case m.id == nil:
				if m.method == "notifications/cancelled" {
					s.cancel(m.params)
				}
				return ctx.Err() == nil
			}
			headers, f := headersOf(m)
			if f != nil {
				s.write(faultLine(m.id, f))
				return ctx.Err() == nil
			}
			select {
			case waiting <- struct{}{}:
			case <-ctx.Done():
				return false
			}
			one, done := s.begin(ctx, m.id)
			all.Go(func() {
				defer func() { <-waiting }()
				select {
				case slots <- struct{}{}:
				case <-one.Done():
					done(nil)
					return
				}
				var reply []byte
				if one.Err() == nil { // not cancelled while it waited
					reply = answer(one, Post{headers, line})
				}
				<-slots
				done(reply)
			})
			return true
		})
		all.Wait()
		ended <- err
	}()
	select {
	case err := <-ended:
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A standardStream is what the requests of one stream share.
type standardStream struct {
	fail context.CancelCauseFunc

	mu    sync.Mutex // of all below
	out   io.Writer
	under map[string][]*under // requests under way, by their ids as they were written
}

type under struct {
	stop      context.CancelFunc
	cancelled bool
}

func (s *standardStream) write(line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.out.Write(line); err != nil {
		s.fail(err)
	}
}

// begin returns the context of a request, and what ends it with its reply.
func (s *standardStream) begin(ctx context.Context, id jsontext.Value) (context.Context, func(reply []byte)) {
	one, stop := context.WithCancel(ctx)
	u, key := &under{stop: stop}, string(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.under[key] = append(s.under[key], u)
	return one, func(reply []byte) {
		stop()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.under[key] = slices.DeleteFunc(s.under[key], func(other *under) bool { return other == u })
		if len(s.under[key]) == 0 {
			delete(s.under, key)
		}
		if len(reply) == 0 || u.cancelled || ctx.Err() != nil {
			return
		}
		if _, err := s.out.Write(reply); err != nil {
			s.fail(err)
		}
	}
}

// cancel ends the request that the params of notifications/cancelled name. One that there
// is not has been answered already.
func (s *standardStream) cancel(params jsontext.Value) {
	all, _ := members(params)
	for _, one := range all {
		if one.name != "requestId" {
			continue
		}
		s.mu.Lock()
		for _, u := range s.under[string(one.value)] {
			u.cancelled = true
			u.stop()
		}
		s.mu.Unlock()
	}
}

// headersOf are the headers in which the HTTP transport repeats a request of the modern
// version; one of another version has none. A fault is of what no header can repeat.
func headersOf(m message) (map[string]string, *fault) {
	meta, f := readStandardMeta(m.params)
	if f != nil || meta.version == "" {
		return nil, f
	}
	switch {
	case !plain.MatchString(meta.version):
		return nil, refuse(codeInvalidParams, versionKey+" must be a version of the protocol")
	case !visible(m.method):
		return nil, refuse(codeNoMethod, "the methods are server/discover, tools/list and tools/call")
	}
	headers := map[string]string{"mcp-protocol-version": meta.version, "mcp-method": m.method}
	if m.method == "tools/call" {
		all, _ := members(m.params)
		for _, one := range all {
			if name := text(one.value); one.name == "name" && name != "" {
				headers["mcp-name"] = encodeHeader(name)
			}
		}
	}
	return headers, nil
}

// visible reports whether a text can stand in a header as it is.
func visible(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return s != ""
}

// encodeHeader writes a header value, in the transport's own base64 form where it must.
func encodeHeader(value string) string {
	if visible(value) && !strings.HasPrefix(value, "=?base64?") {
		return value
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(value)) + "?="
}
