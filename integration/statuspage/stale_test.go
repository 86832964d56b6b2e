package statuspage

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/reaper"
)

// later serves the answers of a handler, as if the locks had been read earlier by age.
func later(t *testing.T, from http.Handler, age time.Duration) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/locks" {
			from.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		from.ServeHTTP(answer, r)
		var locks map[string]any
		if err := json.Unmarshal(answer.Body.Bytes(), &locks); err != nil {
			t.Error(err)
			return
		}
		older := func(m map[string]any) { m["age_ms"] = m["age_ms"].(float64) + float64(age.Milliseconds()) }
		older(locks)
		for _, l := range locks["locks"].([]any) {
			older(l.(map[string]any))
		}
		iferr.Error(t, json.NewEncoder(w).Encode(locks))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestStale: locks that were read a while ago are marked and dated, and their leases do not count
// down. During an outage the page still shows the last sweep.
func TestStale(t *testing.T) {
	m := newMonitor()
	m.status.State, m.status.Schedules = reaper.Disconnected, []reaper.Schedule{}
	// wall clock: a time in the past, which the page shows
	m.status.Session = reaper.Session{Since: time.Now().Add(-21 * time.Second), Losses: 3, Away: 58}
	server := serveMonitor(t, 10, m)
	for _, test := range []struct {
		age   time.Duration
		stale bool
	}{{0, false}, {21 * time.Second, true}} {
		b := look(t, later(t, server.Config.Handler, test.age), "light", 1280)
		b.Until(`document.querySelectorAll("#table tbody tr[data-key] .badge[data-state=held]").length === 10`)
		b.Run(clickOnID("pause"))
		b.Until(`document.getElementById("updated").textContent === "paused"`)
		const rows, leases = `[...document.querySelectorAll("#table tbody tr:not(.group)")]`, `.map((r) => r.querySelector(".lease span").textContent).join()`
		if !test.stale {
			if n := b.Number(rows + `.filter((r) => r.classList.contains("stale")).length`); n != 0 {
				t.Errorf("%v of the locks that were read just now are stale", n)
			}
			b.Until(`(window.seen ??= ` + rows + leases + `) !== ` + rows + leases) // the leases count down
			continue
		}
		b.Until(rows + `.every((r) => r.classList.contains("stale"))`)
		before := b.Text(rows + leases)
		b.Until(`(window.looks = (window.looks || 0) + 1) > 10`)
		if after := b.Text(rows + leases); after != before {
			t.Errorf("leases run: from %s to %s", before, after)
		}
		b.Until(`/as they were at \d\d:\d\d:\d\d UTC, ([2-9]\d|1\d\d) s ago|UTC, \d+ min ago/.test(document.getElementById("stale").innerText)`)
		for _, tile := range []string{"Locks", "Held", "Waiting", "Blocked"} {
			b.Until(`[...document.querySelectorAll("#tiles div")].find((d) => d.children[0].textContent === "` + tile + `").dataset.level === "stale"`)
		}
		b.Until(`getComputedStyle(document.querySelector("#table .badge")).color === getComputedStyle(document.getElementById("stale")).color`)
		if last := b.Text(`tile("Last sweep")`); last == "none yet" {
			t.Errorf("the last sweep: %s", last)
		}
		b.Picture("stale")
	}
}

// TestWrongRoot: the page does not call a root healthy if no lock was seen below it.
func TestWrongRoot(t *testing.T) {
	m := newMonitor()
	m.locks = dial(t, locktest.Start(t, locktest.Options{}))
	m.status.LocksSeen = false
	b := look(t, served(t, m), "light", 1280)
	b.Until(`document.getElementById("headline").innerText === "No lock was seen below /locks so far"`)
	b.Until(`document.getElementById("verdict").dataset.level === "none"`)
	b.Until(`[...document.querySelectorAll("#tiles div")].find((d) => d.children[0].textContent === "Locks").children[2].textContent === "3 policies"`)
}

// TestUnknownState: the page ignores an unknown state in its address, and uses the rest of the
// address.
func TestUnknownState(t *testing.T) {
	b := look(t, serve(t, 3, newMonitor()), "light", 1280)
	b.Until(`document.querySelectorAll("#table button.open").length === 3`)
	b.Run(chromedp.Evaluate(`location.hash = "#state=bogus&q=item-0001"`, nil))
	b.Until(`document.querySelectorAll("#table button.open").length === 1`)
}
