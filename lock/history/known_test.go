package history

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/history/internal/tape"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestSnapshotOfAnEndedHold: an entry whose record shows the grant was a hold, although its lease had ended
// when the log begins.
func TestSnapshotOfAnEndedHold(t *testing.T) {
	l := tape.New()
	l.Join(2, "l", "y", 1).After(time.Second).Do(1, tape.Delete(tape.Entry("l", 0))...)
	m, events := play(l, Options{At: []Asked{{Zxid: 1<<32 + 1}}}, tape.Node(tape.Lock("l"), tape.Parent(znode.Mutex), 1, -time.Hour),
		tape.Node(tape.Anchor("l"), znode.AnchorData{}.Encode(), 1, -time.Hour), tape.Node(tape.Entry("l", 0), l.Record("x", l.Granted), 1, -time.Minute))
	if got, want := told(m.Moments()[0]), "0 within l=[x]:y"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, e := range events {
		if e.Zxid == 1<<32+2 && e.Entry != "" && e.Who.Owner == "x" && !e.In {
			t.Errorf("told as of a waiter: %s", brief(e))
		}
	}
}

// TestRestoredParent: a join of a lock's earlier node, which was deleted and made anew since, shows that the
// data was replaced. The hold of the later node has gone then.
func TestRestoredParent(t *testing.T) {
	now := znode.Parent{Kind: znode.Mutex, Generation: "0123456789abcdef"}.Encode()
	anchor := tape.Lock("l") + "/" + znode.Anchor("0123456789abcdef")
	entry := tape.Lock("l") + "/" + znode.Predict(znode.Prefix("0123456789abcdef", znode.Exclusive), 0)
	l := tape.New()
	l.Take(1, "l", "x").After(time.Second).Do(1, tape.Delete(tape.Entry("l", 0), tape.Anchor("l"), tape.Lock("l"))...)
	l.After(time.Second).Do(2, tape.Create(tape.Lock("l"), now), tape.Create(anchor, znode.AnchorData{}.Encode()), tape.Create(entry, l.Record("y")), tape.Set(tape.Lock("l"), now))
	l.After(time.Second).Join(3, "l", "z", 1)
	m, events := play(l, Options{})
	want := []string{"3s restored l", "3s vanished l y", "3s joined l z"}
	if got := briefs(events[len(events)-3:]); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := told(m.Now()); !strings.Contains(got, "l=?z") {
		t.Errorf("at the end %s", got)
	}
	a := audit.New(audit.Options{})
	if err := a.Begin(0, nil); err != nil {
		t.Fatal(err)
	}
	a.Apply(&txnlog.Txn{Zxid: 1 << 32, Time: tape.Epoch0, Session: 1, Ops: []txnlog.Op{tape.Create("/locks", nil)}})
	for i := range l.Txns {
		a.Apply(&l.Txns[i])
	}
	if r := a.Report(); len(r.Violations) > 0 || !slices.Equal(r.Restored, []int64{l.Zxid}) {
		t.Errorf("violations %v, restored at %#x", r.Violations, r.Restored)
	}
}
