//go:build linux

// Package command is the worker as a program: its arguments, its environment, and the
// wiring of drivers, probe, pool, broker and loop.
package command

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pxhost/pxhost/infra/worker/broker"
	"github.com/pxhost/pxhost/infra/worker/job"
	"github.com/pxhost/pxhost/infra/worker/prepare"
	"github.com/pxhost/pxhost/infra/worker/probe"
	"github.com/pxhost/pxhost/infra/worker/rootless"
	"github.com/pxhost/pxhost/infra/worker/sandbox"
	"github.com/pxhost/pxhost/infra/worker/work"
)

// Exit codes that a starter can tell apart.
const (
	Done     = 0
	Failed   = 1 // something that another start may cure
	Usage    = 2 // arguments or environment
	Unfit    = 3 // this machine does not isolate
	NoPython = 4 // no usable python3
)

// A Driver makes a driver of the binary: state is an empty folder of this process.
type Driver func(c Config, state string) (sandbox.Driver, error)

// Main runs the program and returns its exit code. drivers are what the binary has
// beside rootless.
func Main(args []string, m prepare.Module, drivers map[string]Driver) int {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	name := "work"
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	var err error
	switch name {
	case "work":
		err = serve(ctx, m, drivers)
	case "probe":
		err = probeOnly(ctx, m, drivers)
	case "prepare":
		err = prepareOnly(ctx, m, args)
	default:
		err = fmt.Errorf("%w: %s is no command: work, probe, prepare", errUsage, name)
	}
	var unfit *probe.Failure
	switch {
	case err == nil:
		return Done
	case errors.As(err, &unfit):
		slog.Error("this machine does not isolate: no job is taken", "check", unfit.Check, "cause", unfit.Cause.Error())
		return Unfit
	case errors.Is(err, errUsage):
		slog.Error("the worker cannot start", "cause", err.Error())
		return Usage
	default:
		slog.Error("the worker ends", "cause", err.Error())
		return exitCode(err)
	}
}

// prepareOnly prints progress, one line each, and as the last line a JSON object with
// the paths.
func prepareOnly(ctx context.Context, m prepare.Module, args []string) error {
	flags := flag.NewFlagSet("prepare", flag.ContinueOnError)
	cache := flags.String("cache", "", "`folder` that keeps what is built (default: pxhost in the user's cache folder)")
	python := flags.String("python", "python3", "the `command` whose Python Functions run on")
	only := flags.Bool("rootfs-only", false, "make the rootfs, and build no runsc")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		return fmt.Errorf("%w: prepare", errUsage)
	}
	if *only {
		m = prepare.Module{}
	}
	parts, err := prepared(ctx, m, *cache, *python, func(line string) { fmt.Println(line) })
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(parts)
}

func prepared(ctx context.Context, m prepare.Module, cache, python string, progress func(string)) (prepare.Parts, error) {
	if cache == "" {
		var err error
		if cache, err = prepare.DefaultCache(); err != nil {
			return prepare.Parts{}, err
		}
	}
	return prepare.All(ctx, cache, m, python, progress)
}

// start brings a driver up and probes it. The state that it returns is to be closed at
// the end.
func start(ctx context.Context, m prepare.Module, drivers map[string]Driver, c Config) (d sandbox.Driver, python string, own state, err error) {
	if err = sandbox.Own(); err != nil {
		return nil, "", own, err
	}
	if own, err = newState(ctx, c.State); err != nil {
		return nil, "", own, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, own.Close())
		}
	}()
	switch make, known := drivers[c.Driver]; {
	case known:
		d, err = make(c, own.path)
	case c.Driver == "rootless":
		if c.Runsc == "" || c.Rootfs == "" {
			parts, err := prepared(ctx, m, c.Cache, c.Python, func(line string) { slog.InfoContext(ctx, line) })
			if err != nil {
				return nil, "", own, err
			}
			c.Runsc, c.Rootfs = parts.Runsc, parts.Rootfs
		}
		d, err = rootless.New(c.Runsc, c.Rootfs, own.path)
	default:
		err = fmt.Errorf("%w: this binary has no driver %s", errUsage, c.Driver)
	}
	if err != nil {
		return nil, "", own, err
	}
	began := time.Now()
	if python, err = probe.Run(ctx, d, own.path); err != nil {
		return nil, "", own, errors.Join(err, closed(d))
	}
	slog.InfoContext(ctx, "this machine isolates", "driver", d.Name(), "gvisor", d.GVisor(), "python", python, "milliseconds", time.Since(began).Milliseconds())
	return d, python, own, nil
}

func probeOnly(ctx context.Context, m prepare.Module, drivers map[string]Driver) error {
	c, err := configFrom(os.Getenv)
	if err != nil {
		return err
	}
	d, _, own, err := start(ctx, m, drivers, c)
	if err != nil {
		return err
	}
	return errors.Join(closed(d), own.Close())
}

func serve(ctx context.Context, m prepare.Module, drivers map[string]Driver) error {
	c, err := configFrom(os.Getenv)
	if err != nil {
		return err
	}
	if err := c.forWork(); err != nil {
		return err
	}
	client, err := lambdaClient(os.Getenv)
	if err != nil {
		return err
	}
	b := broker.Broker{Lambda: client, Function: c.Broker, Worker: c.Worker}
	d, python, own, err := start(ctx, m, drivers, c)
	if err != nil {
		return errors.Join(err, tellUnfit(ctx, b, err))
	}
	defer own.Close()
	pool := sandbox.NewPool(d, c.Pool)
	w := &work.Worker{Broker: b, Runner: runner{pool}, Key: c.Key, Idle: c.Idle,
		Is: broker.Claim{Slots: c.Slots, Python: python, GVisor: d.GVisor(), Driver: d.Name(), Tenant: c.Tenant}}
	err = w.Run(ctx)
	if errors.Is(err, work.ErrCold) {
		err = errors.Join(err, b.Unfit(ctx, probe.Starts))
	}
	return errors.Join(err, pool.Close(), closed(d))
}

// closed lets a driver that keeps files of its own remove them.
func closed(d sandbox.Driver) error {
	if c, ok := d.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// tellUnfit lets the broker know that this worker is none, so that queued jobs are
// told and not left waiting for it.
func tellUnfit(ctx context.Context, b broker.Broker, why error) error {
	check := "worker_failed"
	var unfit *probe.Failure
	switch {
	case errors.As(why, &unfit):
		check = unfit.Check
	case exitCode(why) == NoPython:
		check = "python_missing"
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer stop()
	return b.Unfit(ctx, check)
}

type runner struct{ *sandbox.Pool }

func (r runner) Run(ctx context.Context, spec job.Spec, text []byte) (job.Result, error) {
	return sandbox.Run(ctx, r.Pool, spec, text)
}

// A Config is what the environment says.
type Config struct {
	Worker string            // PX_WORKER: its reference, wrk_…; made up if there is none
	Broker string            // PX_BROKER: name or ARN of the broker's function
	Key    ed25519.PublicKey // PX_JOB_KEY: base64
	Driver string            // PX_DRIVER: rootless (default) or task
	Runsc  string            // PX_RUNSC and
	Rootfs string            // PX_ROOTFS: a folder, for rootless; both are prepared where one is left out
	Image  string            // PX_IMAGE: the same folder as an EROFS image, for task
	Jail   string            // PX_JAIL: folder for the jails of task, writable and executable; default PX_STATE
	Cache  string            // PX_CACHE: what was prepared
	Python string            // PX_PYTHON: whose Python, where a rootfs is prepared; default python3
	State  string            // PX_STATE: folder for this process's files; default the temporary one
	Slots  int               // PX_SLOTS: jobs at once; default 2
	Pool   int               // PX_POOL: sandboxes that are kept warm; default slots + 1
	Idle   time.Duration     // PX_IDLE: how long without a job until it ends, as 10m; 0 or left out: never
	Tenant string            // PX_TENANT: whose jobs alone it takes: a workspace, or workspace/instance of a plugin
}

var errUsage = errors.New("configuration")

func configFrom(env func(string) string) (Config, error) {
	c := Config{Worker: env("PX_WORKER"), Broker: env("PX_BROKER"), Driver: env("PX_DRIVER"), Runsc: env("PX_RUNSC"), Rootfs: env("PX_ROOTFS"), Image: env("PX_IMAGE"),
		Jail: env("PX_JAIL"), Cache: env("PX_CACHE"), Python: env("PX_PYTHON"), State: env("PX_STATE"), Tenant: env("PX_TENANT"), Slots: 2}
	if c.Driver == "" {
		c.Driver = "rootless"
	}
	if c.Python == "" {
		c.Python = "python3"
	}
	if c.Worker == "" {
		c.Worker = "wrk_" + rand.Text()
	}
	var err error
	count := func(name string, n *int, most int) {
		text := env(name)
		if text == "" || err != nil {
			return
		}
		if *n, err = strconv.Atoi(text); err != nil || *n < 1 || *n > most {
			err = fmt.Errorf("%w: %s is a number from 1 to %d", errUsage, name, most)
		}
	}
	count("PX_SLOTS", &c.Slots, 64)
	c.Pool = c.Slots + 1
	count("PX_POOL", &c.Pool, 128)
	if text := env("PX_IDLE"); text != "" && err == nil {
		if c.Idle, err = time.ParseDuration(text); err != nil || c.Idle < 0 {
			err = fmt.Errorf("%w: PX_IDLE is a duration such as 10m", errUsage)
		}
	}
	if text := env("PX_JOB_KEY"); text != "" && err == nil {
		key, wrong := base64.StdEncoding.DecodeString(text)
		if wrong != nil || len(key) != ed25519.PublicKeySize {
			err = fmt.Errorf("%w: PX_JOB_KEY is no Ed25519 public key in base64", errUsage)
		}
		c.Key = key
	}
	return c, err
}

// forWork holds what only a worker that takes jobs needs.
func (c Config) forWork() error {
	var missing []string
	if c.Broker == "" {
		missing = append(missing, "PX_BROKER")
	}
	if c.Key == nil {
		missing = append(missing, "PX_JOB_KEY")
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: %s must be set", errUsage, strings.Join(missing, " and "))
	}
	return nil
}
