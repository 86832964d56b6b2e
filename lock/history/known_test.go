package history

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestSnapshotOfAnEndedHold: an entry whose record shows the grant was a hold, although its lease had ended
// when the log begins.
func TestSnapshotOfAnEndedHold(t *testing.T) {
	l := newTape()
	l.join(2, "l", "y", 1).after(time.Second).do(1, del(e("l", 0))...)
	m, events := l.play(Options{At: []Asked{{Zxid: 1<<32 + 1}}}, node(lockPath("l"), parent(znode.Mutex), 1, -time.Hour),
		node(anchorPath("l"), znode.AnchorData{}.Encode(), 1, -time.Hour), node(e("l", 0), l.record("x", l.granted), 1, -time.Minute))
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
	anchor := lockPath("l") + "/" + znode.Anchor("0123456789abcdef")
	entry := lockPath("l") + "/" + znode.Predict(znode.Prefix("0123456789abcdef", znode.Exclusive), 0)
	l := newTape()
	l.take(1, "l", "x").after(time.Second).do(1, del(e("l", 0), anchorPath("l"), lockPath("l"))...)
	l.after(time.Second).do(2, create(lockPath("l"), now), create(anchor, znode.AnchorData{}.Encode()), create(entry, l.record("y")), set(lockPath("l"), now))
	l.after(time.Second).join(3, "l", "z", 1)
	m, events := l.play(Options{})
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
	a.Apply(&txnlog.Txn{Zxid: 1 << 32, Time: epoch0, Session: 1, Ops: []txnlog.Op{create("/locks", nil)}})
	for i := range l.txns {
		a.Apply(&l.txns[i])
	}
	if r := a.Report(); len(r.Violations) > 0 || !slices.Equal(r.Restored, []int64{l.zxid}) {
		t.Errorf("violations %v, restored at %#x", r.Violations, r.Restored)
	}
}
