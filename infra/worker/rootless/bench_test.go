//go:build linux

package rootless

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/pxhost/pxhost/infra/worker/rootfs"
	"github.com/pxhost/pxhost/infra/worker/sandbox"
	"github.com/pxhost/pxhost/infra/worker/sandboxtest"
)

// twenty is a Function of twenty lines, as an engineer writes them.
const twenty = `import math

import px

PHI = 0.9


@px.function(key="resistance", version=1, description="Bending resistance", inputs={"moment": px.number(unit="kN*m"), "span": px.number(unit="m")}, results={"y": px.number(unit="1")}, capabilities=[])
def f(moment, span):
    section, yield_strength = 2.1e-3, 355e3
    slenderness = span / 0.072 / math.pi * math.sqrt(yield_strength / 210e6)
    if slenderness < 0.4:
        reduction = 1.0
    else:
        phi = 0.5 * (1 + 0.34 * (slenderness - 0.4) + 0.75 * slenderness**2)
        reduction = min(1.0, 1 / (phi + math.sqrt(phi**2 - 0.75 * slenderness**2)))
    resistance = PHI * reduction * section * yield_strength
    return {"y": moment / resistance}
`

// BenchmarkWarmCall is the time from a job at the worker to its result, with a warm
// sandbox each, beside the start of a plain Python. Medians, in milliseconds.
func BenchmarkWarmCall(b *testing.B) {
	pool := sandbox.NewPool(driver(b), 2)
	defer pool.Close()
	spec, text := sandboxtest.Spec(b, sandboxtest.Limits, sandboxtest.Function{Source: twenty, Results: sandboxtest.Y, Parameters: []sandboxtest.Parameter{
		{Key: "moment", Contract: sandboxtest.Number, Value: "812.5"}, {Key: "span", Contract: sandboxtest.Number, Value: "24"}}})
	// Not python3 itself, which may be a script that looks for one.
	plain, err := rootfs.Find(b.Context(), "python3", false)
	if err != nil {
		b.Fatal(err)
	}
	var calls, pythons []time.Duration
	for b.Loop() {
		for pool.Warm() < 2 {
			time.Sleep(5 * time.Millisecond)
		}
		began := time.Now()
		result, err := sandbox.Run(b.Context(), pool, spec, text)
		calls = append(calls, time.Since(began))
		if err != nil || result.Results[0].Error != nil {
			b.Fatal(result, err)
		}
		for pool.Warm() < 2 {
			time.Sleep(5 * time.Millisecond)
		}
		began = time.Now()
		if err := exec.Command(plain.Executable, "-I", "-S", "-c", "pass").Run(); err != nil {
			b.Fatal(err)
		}
		pythons = append(pythons, time.Since(began))
	}
	call, python := median(calls), median(pythons)
	b.ReportMetric(call.Seconds()*1e3, "ms/warm-call")
	b.ReportMetric(python.Seconds()*1e3, "ms/python-start")
	b.ReportMetric(call.Seconds()/python.Seconds(), "ratio")
}

// BenchmarkStart is how long a sandbox takes until it is warm, and what it then uses
// beside two others, as in a worker of two slots: they share the pages of the binary.
func BenchmarkStart(b *testing.B) {
	d := driver(b)
	for range 2 {
		other, err := sandbox.Warm(b.Context(), d)
		if err != nil {
			b.Fatal(err)
		}
		defer other.Kill()
	}
	var took []time.Duration
	var use sandbox.Use
	for b.Loop() {
		s, err := sandbox.Warm(b.Context(), d)
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, s.Started)
		use = s.Process().Use()
		if err := s.Kill(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(median(took).Seconds()*1e3, "ms/start")
	b.ReportMetric(float64(use.MemoryBytes)/1e6, "MB-pss/warm")
}

// BenchmarkSixCalls is a job of six calls, as a stage of six Nodes gives one.
func BenchmarkSixCalls(b *testing.B) {
	pool := sandbox.NewPool(driver(b), 2)
	defer pool.Close()
	var six []sandboxtest.Function
	for range 6 {
		six = append(six, sandboxtest.Function{Source: twenty, Results: sandboxtest.Y, Parameters: []sandboxtest.Parameter{
			{Key: "moment", Contract: sandboxtest.Number, Value: "812.5"}, {Key: "span", Contract: sandboxtest.Number, Value: "24"}}})
	}
	spec, text := sandboxtest.Spec(b, sandboxtest.Limits, six...)
	var took []time.Duration
	for b.Loop() {
		for pool.Warm() < 2 {
			time.Sleep(5 * time.Millisecond)
		}
		began := time.Now()
		if _, err := sandbox.Run(b.Context(), pool, spec, text); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	b.ReportMetric(median(took).Seconds()*1e3, "ms/job")
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
