package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/pxhost/pxhost/shared/tool"
)

// An Answer returns the reply to one line: one reply line, or nothing for a
// notification. The line is not blank, has no line end and is at most MaxLine
// bytes long.
type Answer func(ctx context.Context, line []byte) []byte

// Line returns the Answer that serves each line as a request of its own.
// requestID names the requests.
func (d *Dispatcher) Line(principal tool.Principal, requestID func() string) Answer {
	return func(ctx context.Context, line []byte) []byte {
		// The reply to a refused request is its error line, as over HTTP.
		reply, _ := d.Serve(ctx, Caller{principal, requestID()}, line)
		return reply
	}
}

// Stream is the dispatcher's form for stdio: it reads lines from in until it
// ends and writes each reply to out as soon as it and those before it are there.
// Each line is a request of its own, so there is no limit to their number, and
// each may use the reply bytes of a request with one line. At most SideBySide
// lines are held at a time.
//
// It returns the first error of in or out, or the end of ctx. A read of in that
// does not return is left behind: the caller ends the process.
func Stream(ctx context.Context, in io.Reader, out io.Writer, answer Answer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	replies := make(chan chan []byte, SideBySide-1) // in line order
	var failed error                                // set before replies is closed
	go func() {
		defer close(replies)
		failed = readLines(in, func(line []byte) bool {
			reply := make(chan []byte, 1)
			select {
			case replies <- reply:
			case <-ctx.Done():
				return false
			}
			if line == nil {
				reply <- faultLine(nil, lineTooLong)
				return true
			}
			go func() { reply <- answer(ctx, line) }()
			return true
		})
	}()
	for {
		select {
		case reply, more := <-replies:
			if !more {
				return failed
			}
			select {
			case line := <-reply:
				if _, err := out.Write(line); err != nil {
					return err
				}
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// readLines calls each with every line that is not blank, a copy, until it
// returns false. A line that is too long is skipped, whatever its length, and
// given as nil.
func readLines(in io.Reader, each func(line []byte) bool) error {
	reader := bufio.NewReaderSize(in, 64<<10)
	var line []byte
	tooLong := false
	for {
		part, err := reader.ReadSlice('\n')
		if end := len(part) - 1; end >= 0 && part[end] == '\n' {
			part = part[:end]
		}
		if tooLong = tooLong || len(line)+len(part) > MaxLine; tooLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && err != io.EOF {
			return err // what was read of the line is not all of it
		}
		if tooLong || !blank(line) {
			if !each(bytes.Clone(line)) {
				return nil
			}
		}
		line, tooLong = line[:0], false
		if err == io.EOF {
			return nil
		}
	}
}
