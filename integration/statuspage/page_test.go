package statuspage

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/statuspage/browser"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/policy"
)

// TestPage: with no locks, a few and many, in light and in dark, the page shows the locks and is no
// wider than the window.
func TestPage(t *testing.T) {
	for _, locks := range []int{0, 10, 5000} {
		t.Run(fmt.Sprint(locks), func(t *testing.T) {
			url := serve(t, locks, newMonitor())
			for _, scheme := range []string{"light", "dark"} {
				for _, width := range []int64{1280, 390} {
					b := look(t, url, scheme, width)
					b.Until(fmt.Sprintf(`document.body.dataset.ready === "yes" && tile("Locks") === %q`, thousands(locks)))
					b.Until(fmt.Sprintf(`document.querySelectorAll("#table tbody button.open").length === %d`, min(locks, 100)))
					b.Picture(fmt.Sprintf("%d-%s-%d", locks, scheme, width))
					took := b.Number(ready)
					checkWork(t, b, locks)
					if wide := b.Number(`document.documentElement.scrollWidth - innerWidth`); wide > 0 {
						t.Errorf("%s, %d wide: the page is %v px wider than the window", scheme, width, wide)
					}
					if high := b.Number(`Math.max(0, ...[...document.querySelectorAll("#table tbody tr")].map((r) => r.offsetHeight))`); high > 110 {
						t.Errorf("%s, %d wide: a row is %v px high", scheme, width, high)
					}
					for range 4 { // log the quickest of five loads, because the machine may be busy
						b.Reload()
						b.Until(`document.body.dataset.ready === "yes"`)
						took = min(took, b.Number(ready))
					}
					t.Logf("%s, %d wide: its data stood there %v ms after the navigation began", scheme, width, took)
				}
			}
		})
	}
}

// checkWork limits the work until the data is shown: the page's requests, their bytes, and its
// elements. They may depend only on the number of locks that are shown, a hundred at most. It
// measures no time.
func checkWork(t *testing.T, b *browser.Tab, locks int) {
	t.Helper()
	shown := float64(min(locks, 100))
	const until = `performance.getEntriesByType("resource").filter((r) => r.responseEnd <= performance.getEntriesByName("ready")[0].startTime)`
	for _, work := range []struct {
		what, expression string
		most             float64
	}{
		{"requests for data", until + `.filter((r) => r.name.includes("/api/")).length`, 2},
		{"requests for files", until + `.filter((r) => !r.name.includes("/api/")).length`, 6},
		{"bytes of data", until + `.filter((r) => r.name.includes("/api/")).reduce((n, r) => n + r.decodedBodySize, 0)`, 34_000 + 500*shown},
		{"bytes of files", until + `.filter((r) => !r.name.includes("/api/")).reduce((n, r) => n + r.decodedBodySize, 0)`, 48_000},
		{"elements", `document.querySelectorAll("*").length`, 600 + 15*shown},
	} {
		did := b.Number(work.expression)
		t.Logf("%s: %v, at most %v", work.what, did, work.most)
		if did > work.most {
			t.Errorf("%s: %v, want at most %v", work.what, did, work.most)
		}
	}
}

// TestKeyboard: a user without a mouse can find a lock, open its queue, and turn the pages.
func TestKeyboard(t *testing.T) {
	b := look(t, serve(t, 250, newMonitor()), "light", 1280)
	b.Until(`document.body.dataset.ready === "yes" && tile("Locks") === "250"`)
	b.Keys("/")
	b.Until(`document.activeElement.id === "search"`)
	b.Keys("item-0042")
	b.Until(`document.querySelectorAll("#table button.open").length === 1`)
	b.TabUntil(`document.activeElement.matches("button.open")`)
	b.Keys(kb.Enter)
	b.Until(`document.querySelector("tr.detail table")?.tBodies[0].rows.length > 0`)
	b.Keys(kb.Escape)
	b.Until(`!document.querySelector("tr.detail") && document.activeElement.matches("button.open")`)
	b.Keys("/")
	b.Keys(kb.Escape)
	b.Until(`document.querySelectorAll("#table button.open").length === 100`)
	b.TabUntil(`document.activeElement.matches("button.open")`)
	b.Keys(kb.ArrowDown)
	b.Until(`document.activeElement === document.querySelectorAll("#table button.open")[1]`)
	b.TabUntil(`document.activeElement.id === "next"`)
	b.Keys(kb.Enter)
	b.Until(`document.getElementById("range").textContent.startsWith("101")`)
}

// TestRootWithASpace: the queue of a lock opens also if the root's name has a space.
func TestRootWithASpace(t *testing.T) {
	m := newMonitor()
	m.status.Name = "team a"
	b := look(t, serve(t, 10, m), "light", 1280)
	b.Until(`document.body.dataset.ready === "yes" && tile("Locks") === "10"`)
	b.TabUntil(`document.activeElement.matches("button.open")`)
	b.Keys(kb.Enter)
	b.Until(`document.querySelector("tr.detail table")?.tBodies[0].rows.length > 0`)
}

// TestStrangers: markup in names and owners appears as text, and metadata does not appear.
func TestStrangers(t *testing.T) {
	ensemble := locktest.Start(t, locktest.Options{})
	owner := "<img src=x onerror=alert(1)> \u202eevil\u202c"
	locks := dial(t, ensemble, lock.WithOwner(owner))
	name := `<script>alert(2)</script>&"'` + strings.Repeat("é", 150)
	name = strings.ReplaceAll(name, "/", "-")
	iferr.Fatal(t, iferr.Of(locks.Mutex(name, lock.WithMetadata(map[string]string{"password": "hunter2"})).Lock(t.Context())))
	m := newMonitor()
	m.locks = locks
	b := look(t, served(t, m), "light", 1280)
	b.Until(`document.querySelectorAll("#table button.open").length === 1`)
	b.TabUntil(`document.activeElement.matches("button.open")`)
	b.Keys(kb.Enter)
	b.Until(`document.querySelector("tr.detail table")?.tBodies[0].rows.length === 1`)
	if found := b.Number(`document.querySelectorAll("img, td script").length`); found != 0 {
		t.Errorf("%v elements came of a name", found)
	}
	text := b.Text(`document.body.innerText`)
	for _, want := range []string{"<img src=x onerror=alert(1)> \\u{202e}evil\\u{202c}", `<script>alert(2)<-script>&"'`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	if strings.Contains(b.Text(`document.documentElement.outerHTML`), "hunter2") {
		t.Error("metadata is on the page")
	}
	b.Picture("strangers")
}

// TestTrouble: the page lists what is wrong, and that the reaper no longer answers.
func TestTrouble(t *testing.T) {
	m := newMonitor()
	m.trouble()
	server := serveMonitor(t, 10, m)
	b := look(t, server.URL, "light", 1280)
	b.ExpectErrors = true // a browser logs each request that fails
	b.Until(`document.getElementById("verdict").dataset.level === "bad"`)
	for _, want := range []string{"overdue", "no session with ZooKeeper", "denied", "damaged", "not reloaded"} {
		b.Until(fmt.Sprintf(`document.getElementById("problems").innerText.includes(%q)`, want))
	}
	b.Picture("trouble")
	d := look(t, server.URL, "dark", 1280)
	d.ExpectErrors = true
	d.Until(`document.getElementById("verdict").dataset.level === "bad"`)
	d.Picture("trouble-dark")
	b.Run(chromedp.Evaluate(`[...document.querySelectorAll("#problems li")].find((li) => li.innerText.includes("damaged")).querySelector("button").click()`, nil))
	b.Until(`[...document.querySelectorAll("#table button.open")].map((b) => b.innerText).join() === "catalog/part/item-0002"`)
	server.Close()
	b.Until(`document.body.classList.contains("silent")`)
	b.Expect(`/^No data from the reaper since \d\d:\d\d:\d\d UTC$/.test(document.getElementById("headline").innerText)`,
		`document.getElementById("problems").innerText.includes(location.host + " cannot be reached")`,
		`[...document.querySelectorAll("#tiles dd:first-of-type")].every((d) => getComputedStyle(d).color === getComputedStyle(document.getElementById("updated")).color)`)
	b.Picture("gone")
	d.Run(chromedp.EmulateViewport(390, 900))
	d.Until(`document.body.classList.contains("silent")`)
	d.Until(`document.querySelector("tr.group th").colSpan === 4`)
	d.Picture("gone-dark-390")
}

// TestNoData: the page reports an answer that is not its data.
func TestNoData(t *testing.T) {
	for _, test := range []struct{ name, answer, want string }{
		{"a proxy", "<html>Bad Gateway</html>", "answered 502 Bad Gateway, but not as a reaper does"},
		{"the reaper", `{"error": "64 requests are under way: come again"}`, "64 requests are under way: come again"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newMonitor()
			page := serveMonitor(t, 0, m).Config.Handler
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasPrefix(r.URL.Path, "/api/") {
					page.ServeHTTP(w, r)
					return
				}
				w.WriteHeader(http.StatusBadGateway)
				fmt.Fprint(w, test.answer)
			}))
			t.Cleanup(server.Close)
			b := look(t, server.URL, "light", 1280)
			b.ExpectErrors = true
			b.Until(fmt.Sprintf(`document.getElementById("problems").innerText.includes(%q)`, test.want))
			b.Expect(`document.getElementById("headline").innerText.startsWith("No data from the reaper since ")`)
		})
	}
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// dial returns a client of the ensemble, which is closed at the end of the test.
func dial(t *testing.T, ensemble *locktest.Ensemble, opts ...lock.Option) *lock.Client {
	t.Helper()
	set, err := policy.NewSet(
		policy.Rule{Match: policy.MustPattern("imports/**"), Policy: lock.Policy{Name: "imports", TTL: 5 * time.Minute}},
		policy.Rule{Match: policy.MustPattern("orders/**"), Policy: lock.Policy{Name: "orders", TTL: time.Minute}},
	)
	iferr.Fatal(t, err)
	opts = append(opts, lock.WithDialer(ensemble.Dial), lock.WithPolicies(set))
	locks, err := lock.Dial(t.Context(), ensemble.Servers(), opts...)
	iferr.Fatal(t, err)
	t.Cleanup(func() {
		iferr.Error(t, locks.Close())
	})
	return locks
}

// serve serves the page with n locks, and returns its URL.
func serve(t *testing.T, n int, m *monitor) string { return serveMonitor(t, n, m).URL }

func serveMonitor(t *testing.T, n int, m *monitor) *httptest.Server {
	t.Helper()
	ensemble := locktest.Start(t, locktest.Options{})
	m.locks = dial(t, ensemble, lock.WithOwner("shop-7f9c4d"))
	var opts []lock.LockOption
	if n > 1000 { // a busy machine may not renew so many in time
		opts = append(opts, lock.WithTTL(10*time.Minute))
	}
	queue := make(chan int)
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for i := range queue {
				iferr.Error(t, take(t.Context(), m.locks, i, opts...))
			}
		})
	}
	for i := range n {
		queue <- i
	}
	close(queue)
	workers.Wait()
	return reported(t, m)
}

// take takes the i-th lock: a read lock or a mutex.
func take(ctx context.Context, locks *lock.Client, i int, opts ...lock.LockOption) error {
	name := []string{"orders/item-%04d", "imports/item-%04d", "catalog/part/item-%04d"}[i%3]
	name = fmt.Sprintf(name, i)
	if i%25 == 7 {
		_, err := locks.RWMutex(name, opts...).RLock(ctx)
		return err
	}
	_, err := locks.Mutex(name, opts...).Lock(ctx)
	return err
}

func served(t *testing.T, m *monitor) string { return reported(t, m).URL }

// reported serves the page of a monitor, with the report of a sweep.
func reported(t *testing.T, m *monitor) *httptest.Server {
	t.Helper()
	server := serverOf(t, m)
	m.report()
	return server
}

// look opens the page in a new browser.
func look(t *testing.T, url, scheme string, width int64) *browser.Tab {
	t.Helper()
	return browser.Open(t, url, scheme, width, helpers)
}

// ready is an expression: milliseconds from the start of the navigation until the data was shown.
const ready = `Math.round(performance.getEntriesByName("ready")[0].startTime)`

// helpers has the JavaScript functions of the tests.
const helpers = `
window.tile = (title) => [...document.querySelectorAll("#tiles div")].find((d) => d.children[0].textContent === title)?.children[1].textContent;
`

// clickOn clicks on the lock with the name.
func clickOn(name string) chromedp.Action {
	return chromedp.Evaluate(fmt.Sprintf(`[...document.querySelectorAll("button.open")].find((b) => b.innerText === %q).click()`, name), nil)
}

// clickOnID clicks on the element with the id.
func clickOnID(id string) chromedp.Action {
	return chromedp.Evaluate(fmt.Sprintf(`document.getElementById(%q).click()`, id), nil)
}
