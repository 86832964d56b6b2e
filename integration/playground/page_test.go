package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
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
)

// patience is for how long a test waits for what should come in a minute.
const patience = 5 * time.Minute

// TestPage goes on the tour in a browser: with zk.Lock two are inside at once, with
// Holdfast never; and elsewhere clicks on each button. The page has no error, asks nobody
// else, and is no wider than the window.
func TestPage(t *testing.T) {
	handler, err := build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	for _, scheme := range []string{"light", "dark"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel() // they mostly wait
			b := open(t, server.URL, scheme)
			b.until(`inside("zk.Lock") === 1 && inside("Holdfast") === 1`)
			b.picture("begin-" + scheme)
			b.click("tour")
			b.until(`inside("zk.Lock") === 2`)
			b.picture("two-" + scheme)
			b.until(`document.body.dataset.tour === "done"`)
			b.picture("done-" + scheme)
			b.expect(`overlaps("zk.Lock") >= 2`, `overlaps("Holdfast") === 0`)

			for _, width := range []int64{390, 1280} {
				b.run(chromedp.EmulateViewport(width, 900))
				b.expect(`document.documentElement.scrollWidth <= innerWidth`)
				b.picture(fmt.Sprintf("done-%s-%d", scheme, width))
			}
			b.run(chromedp.Click("#reset"))
			b.until(`overlaps("zk.Lock") === 0 && inside("zk.Lock") === 1`)
		})
	}
	t.Run("buttons", func(t *testing.T) {
		t.Parallel()
		b := open(t, server.URL, "light")
		for _, button := range []struct{ action, said string }{
			{"end", "ends while it works"}, {"pause", "is paused"}, {"cut", "is cut"}, {"kill", "is killed"},
			{"forward", "set by +10 min"}, {"backward", "set by −10 min"}, {"elect", "its clock is +5 min"},
		} {
			said := fmt.Sprintf(`said("zk.Lock", %[1]q) && said("Holdfast", %[1]q)`, button.said)
			for there := false; !there; there = b.is(said) { // a holder may leave just before the click
				b.until(`ready()`)
				b.click(button.action)
				b.until(said + ` || said("zk.Lock", "nobody is inside") || said("Holdfast", "nobody is inside")`)
			}
			b.picture("button-" + button.action)
		}
		b.until(`ready()`)
		b.expect(`overlaps("zk.Lock") >= 1`, `overlaps("Holdfast") === 0`)
	})
}

// tab is a tab of a browser that has the page open.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	errors []string
}

// open opens the page in a browser of its own.
func open(t *testing.T, url, scheme string) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser(t)), chromedp.WSURLReadTimeout(patience))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
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
		if len(b.errors) > 0 {
			t.Errorf("the browser tells of errors:\n%s", strings.Join(b.errors, "\n"))
		}
	})
	b.run(chromedp.ActionFunc(func(ctx context.Context) error {
		features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
		return emulation.SetEmulatedMedia().WithFeatures(features).Do(ctx)
	}), log.Enable(), runtime.Enable(), network.Enable(),
		chromedp.EmulateViewport(1280, 900),
		chromedp.Navigate(url),
		chromedp.Evaluate(helpers, nil))
	return b
}

// helpers are what tests ask the page with.
const helpers = `
window.part = (side, selector) => document.querySelector('[data-side="' + side + '"] ' + selector);
window.inside = (side) => Number(document.querySelector('[data-side="' + side + '"]')?.dataset.inside);
window.said = (side, text) => part(side, ".log").innerText.includes(text);
window.ready = () => ["zk.Lock", "Holdfast"].every((side) => inside(side) === 1 &&
	[...document.querySelectorAll('[data-side="' + side + '"] .workers li')].every((w) => /^(works|waits|rests|unlocks)$/.test(w.dataset.state)));
window.overlaps = (side) => Number(document.querySelector('[data-side="' + side + '"]')?.dataset.overlaps);
`

func (b *tab) note(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errors = append(b.errors, text)
}

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.t.Fatalf("%v\n%s", err, strings.Join(b.errors, "\n"))
	}
}

// until waits until an expression is true.
func (b *tab) until(expression string) {
	b.t.Helper()
	var ok bool
	err := chromedp.Run(b.ctx, chromedp.Poll("!!("+expression+")", &ok, chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(patience)))
	if err != nil {
		b.picture("failed-" + strings.ReplaceAll(b.t.Name(), "/", "-"))
		b.t.Fatalf("waited in vain for %s: %v; the page says:\n%s", expression, err, b.text("document.body.innerText"))
	}
}

func (b *tab) is(expression string) (ok bool) {
	b.t.Helper()
	b.run(chromedp.Evaluate("!!("+expression+")", &ok))
	return ok
}

// expect looks whether expressions are true.
func (b *tab) expect(expressions ...string) {
	b.t.Helper()
	for _, expression := range expressions {
		if !b.is(expression) {
			b.t.Errorf("%s is not true; the page says:\n%s", expression, b.text("document.body.innerText"))
		}
	}
}

func (b *tab) text(expression string) (s string) {
	b.t.Helper()
	b.run(chromedp.Evaluate(expression, &s))
	return s
}

// click clicks on a button.
func (b *tab) click(action string) {
	b.t.Helper()
	b.run(chromedp.Click(fmt.Sprintf(`[data-do=%s]`, action)))
}

// picture leaves a picture of the whole page, if pictures are wanted.
func (b *tab) picture(name string) {
	b.t.Helper()
	folder := os.Getenv("HOLDFAST_PICTURES")
	if folder == "" {
		return
	}
	var png []byte
	b.run(chromedp.FullScreenshot(&png, 100))
	if err := os.WriteFile(filepath.Join(folder, name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
