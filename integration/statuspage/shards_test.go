package statuspage

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/shard"
)

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
	if err != nil {
		t.Fatal(err)
	}
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
	if err := g.Leave(t.Context()); err != nil {
		t.Error(err)
	}
}
