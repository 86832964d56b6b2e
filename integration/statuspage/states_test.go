package statuspage

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/shard"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestStates: the page shows locks of each state, and a queue.
func TestStates(t *testing.T) {
	ensemble := locktest.Start(t, locktest.Options{})
	locks := dial(t, ensemble, lock.WithOwner("shop-7f9c4d"))
	others := dial(t, ensemble, lock.WithOwner("billing-一号机-with-a-rather-long-name-of-its-own-0123456789"))
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		iferr.Fatal(t, err)
	}
	for i := range 3 {
		_, err := others.Mutex(fmt.Sprintf("orders/%d/ship", i)).Lock(ctx)
		must(err)
	}
	for range 4 { // one client each, because contenders of one client can share an entry
		c := dial(t, ensemble, lock.WithOwner("shop-7f9c4d"))
		_, err := c.RWMutex("catalog/readers").RLock(ctx)
		must(err)
		go c.Mutex("orders/1/ship").Lock(ctx) // waits until the client is closed
	}
	_, err := locks.Semaphore("gpu", 8).Acquire(ctx, 3)
	must(err)
	dead, err := others.Mutex("imports/crashed", lock.WithTTL(lock.MinTTL)).Lock(ctx)
	must(err)
	_, err = dead.Detach(ctx, lock.MinTTL)
	must(err)
	z, _, err := zk.Connect(ensemble.Servers(), time.Minute, zk.WithDialer(ensemble.Dial), zk.WithLogInfo(false))
	must(err)
	t.Cleanup(z.Close)
	create := func(path string, data []byte, flags int32) {
		_, err := z.Create(path, data, flags, zk.WorldACL(zk.PermAll))
		must(err)
	}
	create("/locks/kazoo", nil, 0)
	create("/locks/kazoo/1b4f0e98519719981b4f0e9851971998__lock__", nil, zk.FlagSequence|zk.FlagEphemeral)
	create("/locks/broken", znode.Parent{Kind: znode.Mutex}.Encode(), 0)
	for range 2 {
		create("/locks/broken/9f86d081884c7d65-lock-", []byte("{}"), zk.FlagSequence)
	}
	create("/locks/idle", znode.Parent{Kind: znode.Mutex}.Encode(), 0)

	m := newMonitor()
	m.locks = locks
	url := served(t, m)
	for _, scheme := range []string{"light", "dark"} {
		b := look(t, url, scheme, 1280)
		for _, state := range []string{"held", "expired", "foreign", "damaged", "free"} {
			b.Until(fmt.Sprintf(`document.querySelector('#table .badge[data-state=%s]')`, state))
		}
		b.Until(`document.getElementById("problems").innerText.includes("1 lock blocked")`)
		b.Until(`[...document.querySelectorAll("#table tbody tr")].some((r) => r.children[0].innerText === "orders/1/ship" && r.children[3].innerText === "4")`)
		b.Run(clickOn("orders/1/ship"))
		b.Until(`document.querySelector("tr.detail table")?.tBodies[0].rows.length === 5`)
		b.Picture("states-" + scheme)
		b.Run(chromedp.EmulateViewport(390, 900)) // on a narrow page a queue keeps its columns, and scrolls in its own place
		b.Until(`document.querySelector("tr.detail table")?.tBodies[0].rows[1].offsetHeight < 40`)
		b.Expect(`document.documentElement.scrollWidth <= innerWidth`)
		b.Expect(`[...document.querySelectorAll("#table tbody tr")].some((r) => r.innerText.startsWith("gpu") && r.innerText.includes("shop-7f9c4d"))`) // the holder
		b.Expect(`[...document.querySelectorAll("#table .badge")].every((b) => b.offsetHeight < 25 && b.getBoundingClientRect().right <= b.parentElement.getBoundingClientRect().right)`)
		b.Picture("states-390-" + scheme)
	}
}

// acquired observes a client, and has an event for each lock that the client acquires.
type acquired chan lock.Event

func (a acquired) Observe(_ context.Context, e lock.Event) {
	if e.Kind == lock.EventAcquired {
		a <- e
	}
}

// TestShards: after a sweep the page shows the groups of shards; without one it has no such section.
func TestShards(t *testing.T) {
	ensemble := locktest.Start(t, locktest.Options{})
	m := newMonitor()
	taken := make(acquired, 100)
	m.locks = dial(t, ensemble, lock.WithObserver(taken))
	b := look(t, served(t, m), "light", 1280)
	b.Until(`document.body.dataset.ready === "yes"`)
	b.Expect(`document.getElementById("sharing").hidden`)

	g, err := shard.Join(t.Context(), m.locks, "orders/partitions", 8, shard.Options{})
	iferr.Fatal(t, err)
	for range 9 { // the shards, and the lead of the group
		select {
		case <-taken:
		case <-time.After(time.Minute):
			t.Fatalf("%+v", m.locks.Stats())
		}
	}
	m.groups = []string{"orders/partitions"}
	b = look(t, served(t, m), "light", 390)
	b.Until(`!document.getElementById("sharing").hidden`)
	b.Expect(`[...document.querySelectorAll("#shard-table tbody td")].slice(0, 5).map((td) => td.textContent).join() === "orders/partitions,8,1,0,0"`)
	b.Expect(`/^\d.* ago$/.test(document.querySelector("#shard-table tbody td:last-child").textContent)`)
	if wide := b.Number(`document.documentElement.scrollWidth - innerWidth`); wide > 0 {
		t.Errorf("the page is %v px wider than the window", wide)
	}
	iferr.Error(t, g.Leave(t.Context()))
}
