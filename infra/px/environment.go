package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/pxhost/pxhost/infra/local/statedir"
)

// environment is what a command sees of the outside.
type environment struct {
	lookup func(string) (string, bool)
	in     io.Reader
	out    io.Writer
	err    io.Writer

	state string
	url   string

	// asked are the flags and the usage of the command that ran last, for completion.
	asked *flag.FlagSet
	usage string
}

// flags starts a command's flag set with the flags that every command has.
// A flag that is not given takes PX_<NAME>, dashes as underscores, from the
// environment, then its default.
func (e *environment) flags(name, usage string) *flag.FlagSet {
	fs := flag.NewFlagSet("px "+name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&e.state, "state", ".local", "state `folder` of px local")
	fs.StringVar(&e.url, "url", "", "base `URL` of the host (default: where px local on the state folder listens)")
	e.asked, e.usage = fs, usage
	fs.Usage = func() {
		fmt.Fprintf(e.out, "usage: px %s %s\n\n%s\n\n", name, usage, exitsLine)
		fs.SetOutput(e.out)
		fs.PrintDefaults()
		fs.SetOutput(io.Discard)
	}
	return fs
}

// parse reads args: flag, then environment, then default. It refuses what is
// left over unless the command takes positional arguments.
func (e *environment) parse(fs *flag.FlagSet, args []string, positional bool) error {
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return usagef("%v", err)
	}
	if !positional && fs.NArg() > 0 {
		return usagef("unexpected argument %q", fs.Arg(0))
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	var err error
	fs.VisitAll(func(f *flag.Flag) {
		key := "PX_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if v, ok := e.lookup(key); ok && !given[f.Name] && err == nil {
			if e := fs.Set(f.Name, v); e != nil {
				err = usagef("%s: %v", key, e)
			}
		}
	})
	if err == nil && e.url != "" {
		// Said here, where nothing was sent: no try later finds a host by what is no address.
		if u, bad := url.Parse(e.url); bad != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
			err = usagef("--url (or PX_URL) is the address of a host, such as http://127.0.0.1:8787")
		}
	}
	return err
}

// parseMixed parses flags that may stand before, between and behind positional
// arguments, as people write them, and returns the latter.
func (e *environment) parseMixed(fs *flag.FlagSet, args []string) (positional []string, err error) {
	for rest := args; ; {
		if err := e.parse(fs, rest, true); err != nil {
			return nil, err
		}
		if fs.NArg() == 0 {
			return positional, nil
		}
		positional, rest = append(positional, fs.Arg(0)), fs.Args()[1:]
	}
}

// dir is the state folder, not locked.
func (e *environment) dir() *statedir.Dir { return statedir.At(e.state) }

// baseURL is --url, or where the last start of px local listened.
func (e *environment) baseURL() (string, error) {
	if e.url != "" {
		return strings.TrimRight(e.url, "/"), nil
	}
	h, err := e.dir().ReadHost()
	if errors.Is(err, statedir.ErrNotStarted) {
		return "", fmt.Errorf("%w: start px local first, or name a host with --url or PX_URL", err)
	}
	return h.URL, err
}
