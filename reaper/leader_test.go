package reaper_test

import (
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/reaper"
)

// TestLeaderIsKnown: the active reaper and one that stands by both tell which one is active, how old its
// lease is, when its last sweep began, and how many stand by. If the active one dies, both tell that
// its lease is not renewed, after a third of the TTL and before the lease has ended. After the take-over,
// and after an outage, neither tells what it has read before.
func TestLeaderIsKnown(t *testing.T) {
	simulate(t, func(w *world) {
		first := w.reaper("first", reaper.Options{})
		defer w.run(first)()
		time.Sleep(time.Second)
		second := w.reaper("second", reaper.Options{})
		defer w.run(second)()
		time.Sleep(5 * time.Second)
		both := map[string]*reaper.Monitor{"first": first.Monitor(), "second": second.Monitor()}
		for name, m := range both {
			if l := m.Status().Leader; l == nil || l.Swept || l.Standbys != 1 {
				t.Errorf("%s, before the first sweep: %+v", name, l)
			}
		}
		for range 150 { // two and a half minutes, with a sweep each minute
			time.Sleep(time.Second)
			for name, m := range both {
				if l := m.Status().Leader; l.Late || l.Owner != "first" || l.Self != (name == "first") || l.LeaseAge > l.TTL/2 {
					t.Fatalf("%s: %+v", name, l)
				}
			}
		}
		for name, m := range both {
			if l := m.Status().Leader; !l.Swept || l.SweptAgo < 25 || l.SweptAgo > 45 {
				t.Errorf("%s, half a minute after a sweep: %+v", name, l)
			}
		}
		if err := w.Partition("first"); err != nil {
			t.Fatal(err)
		}
		died := time.Now()
		for name, m := range both {
			for !m.Status().Leader.Late {
				time.Sleep(time.Second)
			}
			if l := m.Status().Leader; l.Owner != "first" || time.Since(died).Seconds() > l.TTL/2 {
				t.Errorf("%s, told %v after its death: %+v", name, time.Since(died), l)
			}
		}
		for second.Monitor().Status().State != reaper.Active {
			time.Sleep(10 * time.Millisecond)
		}
		if l := second.Monitor().Status().Leader; l != nil && !l.Self {
			t.Errorf("the active reaper takes another one for active: %+v", l)
		}
		time.Sleep(5 * time.Second)
		if l := second.Monitor().Status().Leader; !l.Self || l.Late || l.Standbys != 0 {
			t.Errorf("after the take-over: %+v", l)
		}
		w.Heal("first")
		for range 200 { // it has a session again, but not yet a new look at the lock
			time.Sleep(50 * time.Millisecond)
			if s := first.Monitor().Status(); s.Session.Connected && s.Leader != nil && (s.Leader.Late || s.Leader.Owner != "second") {
				t.Fatalf("after the outage: %+v, %v", s.Leader, s.State)
			}
		}
	})
}
