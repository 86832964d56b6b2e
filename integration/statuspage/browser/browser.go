// Package browser runs pages in headless Chromium for tests. A failing script, a message of the
// browser, or a request to another host fails the test.
package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// Patience is the limit of every wait. On a busy machine a wait may take a minute.
const Patience = 5 * time.Minute

// find returns the path of Chromium. It skips the test if there is none.
func find(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("HOLDFAST_BROWSER"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	zkserver.NotRun(t, "needs Chromium (apt-get install chromium, or its path in HOLDFAST_BROWSER)")
	return ""
}

// Tab is a tab of a browser with an open page.
type Tab struct {
	ExpectErrors bool // messages of the browser, such as those about failed requests, do not fail the test

	t       *testing.T
	ctx     context.Context
	helpers string

	mu     sync.Mutex
	errors []string
}

// Open opens the page in a new browser, in the light or the dark scheme, in a window of the given
// width. helpers is a script with functions for the test. The browser is closed at the end of the
// test.
func Open(t *testing.T, url, scheme string, width int64, helpers string) *Tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(find(t)), chromedp.WSURLReadTimeout(Patience))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	b := &Tab{t: t, ctx: ctx, helpers: helpers}
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.note(e.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			if e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning {
				b.note(e.Entry.Text + " " + e.Entry.URL)
			}
		case *runtime.EventConsoleAPICalled:
			for _, arg := range e.Args {
				b.note(fmt.Sprintf("console.%s: %s", e.Type, arg.Value))
			}
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, url) {
				b.note("asked elsewhere: " + e.Request.URL)
			}
		}
	})
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.ExpectErrors && len(b.errors) > 0 {
			t.Errorf("the browser tells of errors:\n%s", strings.Join(b.errors, "\n"))
		}
	})
	b.Run(chromedp.ActionFunc(func(ctx context.Context) error {
		features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
		return emulation.SetEmulatedMedia().WithFeatures(features).Do(ctx)
	}), log.Enable(), runtime.Enable(), network.Enable(),
		chromedp.EmulateViewport(width, 900),
		chromedp.Navigate(url),
		chromedp.Evaluate(helpers, nil))
	return b
}

func (b *Tab) note(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errors = append(b.errors, text)
}

// Run runs actions in the browser. An error ends the test.
func (b *Tab) Run(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.t.Fatalf("%v\n%s", err, strings.Join(b.errors, "\n"))
	}
}

// Until waits until a JavaScript expression is true. If the expression is still false after
// [Patience], Until saves a picture and ends the test with an error.
func (b *Tab) Until(expression string) {
	b.t.Helper()
	var ok bool
	err := chromedp.Run(b.ctx, chromedp.Poll("!!("+expression+")", &ok, chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(Patience)))
	if err != nil {
		b.Picture("failed-" + strings.ReplaceAll(b.t.Name(), "/", "-"))
		b.t.Fatalf("waited in vain for %s: %v; the page says:\n%s", expression, err, b.Text("document.body.innerText"))
	}
}

// Is reports whether a JavaScript expression is true.
func (b *Tab) Is(expression string) bool {
	b.t.Helper()
	return evaluate[bool](b, "!!("+expression+")")
}

// Number returns the value of a JavaScript expression that is a number.
func (b *Tab) Number(expression string) float64 {
	b.t.Helper()
	return evaluate[float64](b, expression)
}

// Text returns the value of a JavaScript expression that is a text.
func (b *Tab) Text(expression string) string { b.t.Helper(); return evaluate[string](b, expression) }

func evaluate[T any](b *Tab, expression string) (value T) {
	b.t.Helper()
	b.Run(chromedp.Evaluate(expression, &value))
	return value
}

// Expect fails the test for each JavaScript expression that is false.
func (b *Tab) Expect(expressions ...string) {
	b.t.Helper()
	for _, expression := range expressions {
		if !b.Is(expression) {
			b.t.Errorf("%s is not true; the page says:\n%s", expression, b.Text("document.body.innerText"))
		}
	}
}

// Reload loads the page and the helpers again.
func (b *Tab) Reload() {
	b.t.Helper()
	b.Run(chromedp.Reload(), chromedp.Evaluate(b.helpers, nil))
}

// Keys sends key presses to the page: characters, or the constants of chromedp's package kb.
func (b *Tab) Keys(keys string) {
	b.t.Helper()
	b.Run(chromedp.KeyEvent(keys))
}

// TabUntil presses the Tab key until a JavaScript expression is true. After 400 presses it ends the
// test with an error.
func (b *Tab) TabUntil(expression string) {
	b.t.Helper()
	for range 400 {
		b.Keys(kb.Tab)
		if b.Is(expression) {
			return
		}
	}
	b.t.Fatalf("the tabulator does not get to %s", expression)
}

// Picture saves a picture of the whole page, if HOLDFAST_PICTURES names a folder.
func (b *Tab) Picture(name string) {
	b.t.Helper()
	folder := os.Getenv("HOLDFAST_PICTURES")
	if folder == "" {
		return
	}
	var png []byte
	b.Run(chromedp.FullScreenshot(&png, 100))
	iferr.Fatal(b.t, os.WriteFile(filepath.Join(folder, name+".png"), png, 0o644))
}
