package statuspage

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
	"github.com/chromedp/chromedp/kb"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/reaper"
	"github.com/holdfast-io/holdfast/reaper/status"
)

// patience is for how long a test waits for what should come at once.
const patience = 2 * time.Minute

// TestPage looks at the page with no locks, with a few and with many, in light and in
// dark: it shows them, has no error, asks nobody else, and is no wider than the window.
func TestPage(t *testing.T) {
	for _, locks := range []int{0, 10, 5000} {
		t.Run(fmt.Sprint(locks), func(t *testing.T) {
			url := serve(t, locks, newMonitor())
			for _, scheme := range []string{"light", "dark"} {
				for _, width := range []int64{1280, 390} {
					b := open(t, url, scheme, width)
					b.until(fmt.Sprintf(`document.body.dataset.ready === "yes" && tile("Locks") === %q`, thousands(locks)))
					b.until(fmt.Sprintf(`document.querySelectorAll("#table tbody button.open").length === %d`, min(locks, 100)))
					b.picture(fmt.Sprintf("%d-%s-%d", locks, scheme, width))
					took := b.number(ready)
					if wide := b.number(`document.documentElement.scrollWidth - innerWidth`); wide > 0 {
						t.Errorf("%s, %d wide: the page is %v px wider than the window", scheme, width, wide)
					}
					if high := b.number(`Math.max(0, ...[...document.querySelectorAll("#table tbody tr")].map((r) => r.offsetHeight))`); high > 110 {
						t.Errorf("%s, %d wide: a row is %v px high", scheme, width, high)
					}
					for range 4 { // the quickest of five: the machine may be busy
						took = min(took, b.reload())
					}
					t.Logf("%s, %d wide: its data stood there %v ms after the navigation began", scheme, width, took)
				}
			}
		})
	}
}

// TestKeyboard finds a lock, looks at its queue and goes through the pages without a mouse.
func TestKeyboard(t *testing.T) {
	b := open(t, serve(t, 250, newMonitor()), "light", 1280)
	b.until(`document.body.dataset.ready === "yes" && tile("Locks") === "250"`)
	b.keys("/")
	b.until(`document.activeElement.id === "search"`)
	b.keys("item-0042")
	b.until(`document.querySelectorAll("#table button.open").length === 1`)
	b.tabUntil(`document.activeElement.matches("button.open")`)
	b.keys(kb.Enter)
	b.until(`document.querySelector("tr.detail table")?.tBodies[0].rows.length > 0`)
	b.keys(kb.Escape)
	b.until(`!document.querySelector("tr.detail") && document.activeElement.matches("button.open")`)
	b.keys("/")
	b.keys(kb.Escape)
	b.until(`document.querySelectorAll("#table button.open").length === 100`)
	b.tabUntil(`document.activeElement.matches("button.open")`)
	b.keys(kb.ArrowDown)
	b.until(`document.activeElement === document.querySelectorAll("#table button.open")[1]`)
	b.tabUntil(`document.activeElement.id === "next"`)
	b.keys(kb.Enter)
	b.until(`document.getElementById("range").textContent.startsWith("101")`)
}

// TestStrangers has locks, owners and metadata that would like to be more than text.
func TestStrangers(t *testing.T) {
	ensemble := locktest.Start(t, locktest.Options{})
	owner := "<img src=x onerror=alert(1)> \u202eevil\u202c"
	locks := dial(t, ensemble, lock.WithOwner(owner))
	name := `<script>alert(2)</script>&"'` + strings.Repeat("é", 150)
	name = strings.ReplaceAll(name, "/", "-")
	if _, err := locks.Mutex(name, lock.WithMetadata(map[string]string{"password": "hunter2"})).Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := newMonitor()
	m.locks = locks
	b := open(t, served(t, m), "light", 1280)
	b.until(`document.querySelectorAll("#table button.open").length === 1`)
	b.tabUntil(`document.activeElement.matches("button.open")`)
	b.keys(kb.Enter)
	b.until(`document.querySelector("tr.detail table")?.tBodies[0].rows.length === 1`)
	if found := b.number(`document.querySelectorAll("img, td script").length`); found != 0 {
		t.Errorf("%v elements came of a name", found)
	}
	text := b.text(`document.body.innerText`)
	for _, want := range []string{"<img src=x onerror=alert(1)> \\u{202e}evil\\u{202c}", `<script>alert(2)<-script>&"'`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	if strings.Contains(b.text(`document.documentElement.outerHTML`), "hunter2") {
		t.Error("metadata is on the page")
	}
	b.picture("strangers")
}

// TestTrouble has the page say first what is wrong, and that nobody answers any more.
func TestTrouble(t *testing.T) {
	m := newMonitor()
	m.trouble()
	server := serveMonitor(t, 10, m)
	b := open(t, server.URL, "light", 1280)
	b.expectErrors = true // a browser logs each request that fails
	b.until(`document.getElementById("verdict").dataset.level === "bad"`)
	for _, want := range []string{"overdue", "no session with ZooKeeper", "denied", "damaged", "not reloaded"} {
		b.until(fmt.Sprintf(`document.getElementById("problems").innerText.includes(%q)`, want))
	}
	b.picture("trouble")
	d := open(t, server.URL, "dark", 1280)
	d.expectErrors = true
	d.until(`document.getElementById("verdict").dataset.level === "bad"`)
	d.picture("trouble-dark")
	server.Close()
	b.until(`document.getElementById("headline").innerText.startsWith("The reaper does not answer")`)
	b.picture("gone")
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// dial returns a client of the ensemble.
func dial(t *testing.T, ensemble *locktest.Ensemble, opts ...lock.Option) *lock.Client {
	t.Helper()
	set, err := policy.NewSet(
		policy.Policy{Name: "imports", Match: policy.MustPattern("imports/**"), Policy: lock.Policy{TTL: 5 * time.Minute}},
		policy.Policy{Name: "orders", Match: policy.MustPattern("orders/**"), Policy: lock.Policy{TTL: time.Minute}},
	)
	if err != nil {
		t.Fatal(err)
	}
	opts = append(opts, lock.WithDialer(ensemble.Dial), lock.WithPolicies(set))
	locks, err := lock.Dial(t.Context(), ensemble.Servers(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := locks.Close(); err != nil {
			t.Error(err)
		}
	})
	return locks
}

// serve serves the page of so many locks, and returns where.
func serve(t *testing.T, n int, m *monitor) string { return serveMonitor(t, n, m).URL }

func serveMonitor(t *testing.T, n int, m *monitor) *httptest.Server {
	t.Helper()
	ensemble := locktest.Start(t, locktest.Options{})
	m.locks = dial(t, ensemble, lock.WithOwner("shop-7f9c4d"))
	queue := make(chan int)
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for i := range queue {
				if err := take(t.Context(), m.locks, i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		queue <- i
	}
	close(queue)
	workers.Wait()
	return served2(t, m)
}

// take takes a lock, and waits in vain for some of them.
func take(ctx context.Context, locks *lock.Client, i int) error {
	name := []string{"orders/item-%04d", "imports/item-%04d", "catalog/part/item-%04d"}[i%3]
	name = fmt.Sprintf(name, i)
	if i%25 == 7 {
		_, err := locks.RWMutex(name).RLock(ctx)
		return err
	}
	if _, err := locks.Mutex(name).Lock(ctx); err != nil {
		return err
	}
	return nil
}

func served(t *testing.T, m *monitor) string { return served2(t, m).URL }

func served2(t *testing.T, m *monitor) *httptest.Server {
	t.Helper()
	s, err := status.New(status.Options{Roots: []status.Root{{Monitor: m, Lock: reaper.DefaultLock}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	m.report()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server
}

// tab is a tab of a browser that has the page open.
type tab struct {
	t            *testing.T
	ctx          context.Context
	expectErrors bool

	mu     sync.Mutex
	errors []string
}

// open opens the page in a browser of its own.
func open(t *testing.T, url, scheme string, width int64) *tab {
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
		if !b.expectErrors && len(b.errors) > 0 {
			t.Errorf("the browser tells of errors:\n%s", strings.Join(b.errors, "\n"))
		}
	})
	b.run(chromedp.ActionFunc(func(ctx context.Context) error {
		features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
		return emulation.SetEmulatedMedia().WithFeatures(features).Do(ctx)
	}), log.Enable(), runtime.Enable(), network.Enable(),
		chromedp.EmulateViewport(width, 900),
		chromedp.Navigate(url),
		chromedp.Evaluate(helpers, nil))
	return b
}

// ready is how many milliseconds after the navigation began the data stood there.
const ready = `Math.round(performance.getEntriesByName("ready")[0].startTime)`

// reload loads the page again, and returns what ready tells.
func (b *tab) reload() float64 {
	b.t.Helper()
	b.run(chromedp.Reload(), chromedp.Evaluate(helpers, nil))
	b.until(`document.body.dataset.ready === "yes"`)
	return b.number(ready)
}

// helpers are what tests ask the page with.
const helpers = `
window.tile = (title) => [...document.querySelectorAll("#tiles div")].find((d) => d.children[0].textContent === title)?.children[1].textContent;
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

func (b *tab) number(expression string) (n float64) {
	b.t.Helper()
	b.run(chromedp.Evaluate(expression, &n))
	return n
}

func (b *tab) text(expression string) (s string) {
	b.t.Helper()
	b.run(chromedp.Evaluate(expression, &s))
	return s
}

func (b *tab) keys(keys string) {
	b.t.Helper()
	b.run(chromedp.KeyEvent(keys))
}

// tabUntil goes on with the tabulator until an expression is true.
func (b *tab) tabUntil(expression string) {
	b.t.Helper()
	for range 400 {
		b.keys(kb.Tab)
		var there bool
		b.run(chromedp.Evaluate(expression, &there))
		if there {
			return
		}
	}
	b.t.Fatalf("the tabulator does not get to %s", expression)
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

// clickOn clicks on a lock.
func clickOn(name string) chromedp.Action {
	return chromedp.Evaluate(fmt.Sprintf(`[...document.querySelectorAll("button.open")].find((b) => b.innerText === %q).click()`, name), nil)
}
