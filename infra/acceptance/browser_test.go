package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// A tab is a page of a headless browser of its own, without anything of another test.
type tab struct {
	t   *testing.T
	ctx context.Context
	h   *host

	mu       sync.Mutex
	problems []string // that the page told: refused by its policy, or a script that failed
}

// chromium is the browser's program. Only machines without one skip; CI is none of them.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "headless-shell"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const why = "there is no Chromium on this machine"
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
	return ""
}

// browse opens a browser. The size is that of its window, in CSS pixels.
func (h *host) browse(t *testing.T, width, height int64) *tab {
	t.Helper()
	allocated, closeAll := chromedp.NewExecAllocator(t.Context(), chromedp.ExecPath(chromium(t)), chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.Headless, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("force-color-profile", "srgb"), chromedp.WindowSize(int(width), int(height)))
	ctx, closeTab := chromedp.NewContext(allocated)
	b := &tab{t: t, ctx: ctx, h: h}
	t.Cleanup(func() { closeTab(); closeAll() })
	err := chromedp.Listen(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch event := event.(type) {
		case *runtime.EventExceptionThrown:
			b.problems = append(b.problems, event.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			if event.Entry.Level == log.EntryLevelError && event.Entry.Source != log.EntrySourceNetwork {
				b.problems = append(b.problems, event.Entry.Text)
			}
		}
	})
	if err == nil {
		_, err = chromedp.Call(ctx, log.Enable, cdp.Empty{})
	}
	if err != nil {
		t.Fatalf("browser: %v", err)
	}
	b.size(width, height)
	return b
}

// size sets the size of the window.
func (b *tab) size(width, height int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

// withoutScripts switches the scripts of pages off.
func (b *tab) withoutScripts() {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		b.t.Fatal(err)
	}
}

// limit is how long one step in the browser may take.
const limit = time.Minute

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, over := context.WithTimeout(b.ctx, limit)
	defer over()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("browser: %v\n%s", err, b.where())
	}
}

// where is the page's address and the beginning of its text, for who reads of a failure.
func (b *tab) where() string {
	ctx, over := context.WithTimeout(b.ctx, 2*time.Second)
	defer over()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + "\n" + (document.body?.innerText ?? "")`))
	return fmt.Sprintf("%.1500s", text)
}

// signIn signs a sample principal in, as a person does: by the first page of the console.
func (b *tab) signIn(as string) {
	b.t.Helper()
	code := strings.TrimSpace(b.h.operate(b.t, "token", "--sign-in"))
	b.do(chromedp.Navigate(b.h.URL+"/console"), chromedp.Click(chromedp.CSS("a.button")),
		chromedp.SendKeys(chromedp.CSS(`input[name=code]`), code), chromedp.Click(chromedp.CSS(`button[value="`+as+`"]`)))
	b.sees("main", "Projects")
}

// open opens an address of the host.
func (b *tab) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.h.URL + path))
}

// text is the text of an element as it is seen; "" where there is none.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return evaluate[string](b, textOf(selector))
}

func textOf(selector string) string {
	return `document.querySelector(` + quoted(selector) + `)?.innerText ?? ""`
}

func quoted(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// evaluate is the value of an expression in the page.
func evaluate[T any](b *tab, script string) T {
	b.t.Helper()
	ctx, over := context.WithTimeout(b.ctx, limit)
	defer over()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[T](`(async () => (`+script+`))()`, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("browser: %.200s: %v\n%s", script, err, b.where())
	}
	return out
}

// sees waits until an element has a text.
func (b *tab) sees(selector string, texts ...string) {
	b.t.Helper()
	b.seesWithin(time.Minute, selector, texts...)
}

func (b *tab) seesWithin(limit time.Duration, selector string, texts ...string) {
	b.t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		// The page may be another one at this very moment.
		is, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](textOf(selector)))
		missing := ""
		if err != nil {
			missing = err.Error()
		}
		for _, text := range texts {
			if !strings.Contains(is, text) {
				missing = text
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%s does not show %q but:\n%.3000s\n%s", selector, missing, is, b.where())
		}
	}
}

// fits holds that the page is no wider than its window.
func (b *tab) fits() {
	b.t.Helper()
	wide := evaluate[int](b, `document.documentElement.scrollWidth - document.documentElement.clientWidth`)
	if wide > 0 {
		which := evaluate[string](b, `[...document.querySelectorAll("main *, header *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll, .figure-scroll")).map(e => e.outerHTML.slice(0, 120)).slice(0, 5).join("\n")`)
		b.t.Errorf("the page is %d pixels wider than its window\n%s\n%s", wide, which, b.where())
	}
}

// quiet holds that nothing was refused by the page's policy, and that no script failed.
func (b *tab) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		b.t.Errorf("the browser told: %s", p)
	}
	b.problems = nil
}

// shoot keeps a picture of the whole page in the folder that PX_SCREENSHOTS names; without
// one it does nothing.
func (b *tab) shoot(name string) {
	b.t.Helper()
	dir := os.Getenv("PX_SCREENSHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
