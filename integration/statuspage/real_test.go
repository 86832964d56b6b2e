package statuspage

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/reaper"
	"github.com/holdfast-io/holdfast/reaper/status"
)

// runReaper runs a reaper that sweeps each hour, and returns its monitor.
func runReaper(t *testing.T, ensemble *locktest.Ensemble, owner string) *reaper.Monitor {
	t.Helper()
	silent := zerolog.Nop()
	d, err := reaper.NewDaemon(func(ctx context.Context) (*lock.Client, error) {
		return lock.Dial(ctx, ensemble.Servers(), lock.WithDialer(ensemble.Dialer(owner)), lock.WithOwner(owner), lock.WithLogger(silent), lock.WithTTL(20*time.Second))
	}, reaper.Options{Schedule: "@hourly", Log: &silent, Monitor: reaper.NewMonitor(reaper.About{Root: "/locks", Servers: ensemble.Servers()})})
	iferr.Fatal(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		iferr.Error(t, <-ended)
	})
	return d.Monitor()
}

// servePage serves the page of a monitor, and returns its URL.
func servePage(t *testing.T, m status.Monitor) string {
	t.Helper()
	return serverOf(t, m).URL
}

func serverOf(t *testing.T, m status.Monitor) *httptest.Server {
	t.Helper()
	s, err := status.New(status.Options{Roots: []status.Root{{Monitor: m, Lock: reaper.DefaultLock}}})
	iferr.Fatal(t, err)
	t.Cleanup(s.Close)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server
}

// TestBeforeTheFirstSweep: the page of a real reaper shows the locks before its first sweep: of one
// that is active, of one that stands by, and of one that has no session yet.
func TestBeforeTheFirstSweep(t *testing.T) {
	ensemble := locktest.Start(t, locktest.Options{})
	iferr.Fatal(t, take(t.Context(), dial(t, ensemble), 1))
	first := runReaper(t, ensemble, "first")
	b := look(t, servePage(t, first), "light", 1280)
	b.Until(`tile("Role") === "active" && tile("Locks") === "1"`)
	b.Expect(`document.querySelectorAll("#table button.open").length === 1`)

	b = look(t, servePage(t, runReaper(t, ensemble, "second")), "light", 1280)
	b.Until(`tile("Role") === "standby" && tile("Locks") === "1"`)
	b.Expect(`document.querySelectorAll("#table button.open").length === 1`)

	b = look(t, servePage(t, reaper.NewMonitor(reaper.About{Root: "/locks"})), "light", 1280)
	b.Until(`document.body.dataset.ready === "yes" && tile("Session") === "lost"`)
	b.Expect(unknownLocks)
}

// unknownLocks is true if the page states nothing about the locks.
const unknownLocks = `["Locks", "Held", "Waiting", "Blocked"].every((t) => tile(t) === "\u2013") && document.getElementById("updated").textContent === "locks not read yet" && document.getElementById("none").textContent === "The locks are not known."`

// TestOpenedDuringAnOutage: a page that is opened during an outage does not call the locks none, or read
// just now, if they were never read. If they were read, it shows them with the time of that read.
func TestOpenedDuringAnOutage(t *testing.T) {
	ensemble := locktest.Start(t, locktest.Options{})
	iferr.Fatal(t, take(t.Context(), dial(t, ensemble), 1))
	unread, read := servePage(t, runReaper(t, ensemble, "unread")), servePage(t, runReaper(t, ensemble, "read"))
	look(t, read, "light", 1280).Until(`tile("Locks") === "1"`)
	for _, label := range []string{"unread", "read"} {
		iferr.Fatal(t, ensemble.Partition(label))
		t.Cleanup(func() { ensemble.Heal(label) })
	}
	b := look(t, unread, "light", 1280)
	b.Until(`tile("Session") === "lost"`)
	b.Expect(unknownLocks)
	b.Picture("unread")
	b.Expect(`document.getElementById("headline").textContent === "No session with ZooKeeper: this reaper cleans up nothing"`) // another may
	b = look(t, read, "light", 1280)
	b.Until(`tile("Session") === "lost" && tile("Locks") === "1" && tile("Held") === "1"`)
	b.Expect(`/^locks read ([4-9]|\d\d)/.test(document.getElementById("updated").textContent)`)
}

// TestActiveReaperIsNamed: the pages of the active reaper and of one that stands by name the active one.
func TestActiveReaperIsNamed(t *testing.T) {
	ensemble := locktest.Start(t, locktest.Options{})
	first := look(t, servePage(t, runReaper(t, ensemble, "first")), "light", 1280)
	const active = `[...document.querySelectorAll("#healths dl div")].find((d) => d.firstChild.textContent === "Active reaper").lastChild.textContent`
	first.Until(`tile("Role") === "active" && /^first \(host .+, pid \d+\), this one$/.test(` + active + `)`)
	second := look(t, servePage(t, runReaper(t, ensemble, "second")), "light", 1280)
	second.Until(`tile("Role") === "standby" && /^first \(host .+, pid \d+\)$/.test(` + active + `)`)
	iferr.Fatal(t, take(t.Context(), dial(t, ensemble), 1))
	second.Until(`/^All is well: standing by; first \(host .+, pid \d+\) is active and has not finished a sweep yet$/.test(document.getElementById("headline").innerText)`)
	first.Until(`document.getElementById("healths").innerText.includes("Reapers standing by\n1")`)
}

// TestTableAndVerdictAgree: a root that was missing is not called one without locks above a table of
// locks, although no sweep has seen them yet.
func TestTableAndVerdictAgree(t *testing.T) {
	ensemble := locktest.Start(t, locktest.Options{})
	b := look(t, servePage(t, runReaper(t, ensemble, "first")), "light", 1280)
	b.Until(`document.getElementById("problems").innerText.includes("no lock was seen below it")`)
	iferr.Fatal(t, take(t.Context(), dial(t, ensemble), 1))
	b.Until(`tile("Locks") === "1" && document.getElementById("headline").innerText === "All is well"`)
}
