package history

import (
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestSnapshot: the log continues where a snapshot ends. Nodes that later transactions create are
// taken from the log.
func TestSnapshot(t *testing.T) {
	l := newTape()
	l.zxid += 10
	l.join(2, "l", "y", 1).after(5*time.Second).renew(1, "l", "x", 0).after(time.Second).do(1, del(e("l", 0))...)
	begin := []txnlog.Node{
		node(lockPath("l"), parent(znode.Mutex), 1, -time.Hour),
		node(anchorPath("l"), znode.AnchorData{}.Encode(), 1, -time.Hour),
		node(e("l", 0), l.record("x"), 1, -5*time.Second),
		node(e("l", 1), l.record("y"), 1<<32+11, 0), // created later than the snapshot
		node(e("n", 0), l.record("z"), 1<<32+12, 0), // created later than the snapshot
		node("/elsewhere", nil, 1, 0),
	}
	m, events := l.play(Options{At: append(ask(2*time.Second, -time.Second), Asked{Zxid: 1<<32 + 5})}, begin...)
	want := []string{"0s joined l y", "5s renewed l x", "6s released l x", "6s granted l y"}
	if got := briefs(events); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if got, want := told(m.Moments()[1])+"; "+told(m.Moments()[2]), "1 before, others unknown; 2 within l=x"; got != want {
		t.Errorf("at the beginning: %q, want %q", got, want)
	}
	s := m.Moments()[0].Locks[0]
	if h := s.Holders[0]; h.Client.Owner != "x" || !h.Since.IsZero() || h.Left != 23*time.Second || len(s.Waiters) != 1 {
		t.Errorf("%+v", s)
	}
}

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

// TestWithoutSnapshot: an entry whose join is not in the log has events from its first write on.
func TestWithoutSnapshot(t *testing.T) {
	l := newTape()
	l.renew(1, "l", "x", 0, l.granted).renew(2, "l", "y", 1).after(time.Second).do(1, del(e("l", 0))...).do(2, del(e("m", 0))...).do(2, del(e("l", 1))...)
	var events []Event
	m := New(Options{Root: "/locks", At: []Asked{{Zxid: 1<<32 + 2}, {Zxid: 1<<32 + 3}, {Zxid: 5}}}, func(e Event) { events = append(events, e) })
	m.Gap()
	for i := range l.txns {
		m.Apply(&l.txns[i])
	}
	m.End()
	want := []string{"0s renewed l x", "0s renewed l y", "1s released l x", "1s ended l y: " + byOwner}
	if got := briefs(events); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	got := toldAll(m)
	if want := []string{"0 within, others unknown l=x?y", "1 within, others unknown l=?y", "2 before, others unknown"}; !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestGap: after a gap, an entry without a write vanishes when its lease has ended. An entry that is
// written stays.
func TestGap(t *testing.T) {
	l := newTape()
	l.take(1, "l", "x").join(2, "l", "y", 1)
	gap := len(l.txns)
	l.after(20*time.Second).renew(2, "l", "y", 1, l.granted).after(20*time.Second).renew(2, "l", "y", 1, l.granted)
	var events []Event
	m := New(Options{Root: "/locks"}, func(e Event) { events = append(events, e) })
	for i := range l.txns {
		if i == gap {
			m.Gap()
		}
		m.Apply(&l.txns[i])
	}
	want := []string{"20s renewed l y", "20s recorded l y", "35s at_risk l y", "40s renewed l y", "40s vanished l x"}
	if got := briefs(events); !slices.Equal(got[4:], want) {
		t.Errorf("got %q\nwant %q", got[4:], want)
	}
}

// TestBegin: after a gap, a snapshot shows which entries have vanished, which are new, and which
// were renewed. What was between is not known.
func TestBegin(t *testing.T) {
	l := newTape()
	l.take(1, "l", "x").join(2, "l", "y", 1).take(3, "gone", "z")
	gap := len(l.txns)
	l.zxid += 100
	l.after(40*time.Second).renew(2, "l", "y", 1).after(time.Second).do(4, del(e("l", 2))...)
	var events []Event
	at := append(ask(20*time.Second, 40*time.Second), Asked{Zxid: 1<<32 + 50}, Asked{Zxid: 1<<32 + 79}, Asked{Zxid: 1<<32 + 80})
	m := New(Options{Root: "/locks", At: at}, func(e Event) { events = append(events, e) })
	for i := range l.txns {
		if i == gap {
			m.Gap()
			snapshot := []txnlog.Node{node(lockPath("l"), parent(znode.Mutex), 1<<32+1, 0), node(e("l", 1), l.record("y"), 1<<32+2, 30*time.Second),
				node(e("l", 2), l.record("w"), 1<<32+60, 20*time.Second), node(e("n", 0), l.record("v"), 1<<32+102, time.Minute)}
			snapshot[1].Mzxid = 1<<32 + 70
			err := m.Begin(1<<32+80, func(yield func(txnlog.Node, error) bool) {
				for _, n := range snapshot {
					if !yield(n, nil) {
						return
					}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		m.Apply(&l.txns[i])
	}
	var got []string
	for _, e := range events {
		if e.Zxid >= 1<<32+3 && e.Kind != Made && e.Kind != Joined && !(e.Kind == Granted && e.Lock == "gone") {
			got = append(got, brief(e))
		}
	}
	slices.Sort(got[:2]) // events of several locks, in any order
	want := []string{"0s vanished gone z", "0s vanished l x", "40s renewed l y", "41s ended l w: by a session that wrote no entry: its client's next one, or by hand"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if len(m.locks) != 1 {
		t.Errorf("%d locks are kept", len(m.locks))
	}
	m.End()
	got = toldAll(m)
	if h := m.Moments()[4].Locks[0].Holders[0]; h.Left != 30*time.Second || h.Doubt != 40*time.Second {
		t.Errorf("the stamps do not show when the snapshot was saved: left %v, in doubt %v", h.Left, h.Doubt)
	}
	gone := " within, others unknown gone=?z l=?x,y"
	want = []string{"0" + gone, "1 within l=y:w", "2" + gone, "3" + gone, "4 within l=y:w"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestWrittenInAGap: an entry that was written where transactions are missing was not written before them,
// although its leader's clock showed less than the last one's.
func TestWrittenInAGap(t *testing.T) {
	l := newTape()
	l.take(1, "l", "x")
	l.after(-20*time.Second).leader().do(2, create("/more", nil)).after(20*time.Second).do(2, create("/most", nil))
	m := New(Options{Root: "/locks"}, func(e Event) {
		if e.Kind == Expired {
			t.Error(brief(e))
		}
	})
	for i := range l.txns {
		if i == 1 {
			l.txns[i].Zxid += 10
			m.Gap()
			err := m.Begin(2<<32+5, func(yield func(txnlog.Node, error) bool) {
				n := node(e("l", 0), l.record("x", l.granted), 1<<32+1, -25*time.Second)
				n.Mzxid = 2<<32 + 3
				_ = yield(node(lockPath("l"), parent(znode.Mutex), 1<<32+1, 0), nil) && yield(n, nil)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		m.Apply(&l.txns[i])
	}
	m.End()
	if got, want := told(m.Now()), "0 within l=x"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestDisputed: a transaction on which the folders differ has no effect. The locks that it touches are not
// known until an entry that excludes all others has recorded its grant.
func TestDisputed(t *testing.T) {
	l := newTape()
	l.take(1, "l", "x").take(3, "m", "z").do(1, del(e("l", 0), anchorPath("l"), lockPath("l"))...).take(2, "l", "y")
	l.txns[2].Disputed, l.txns[3].Disputed = true, true
	l.after(time.Second).renew(2, "l", "y", 0).after(time.Second).renew(2, "l", "y", 0, l.granted)
	l.join(4, "l", "w", 1).do(2, del(e("l", 0))...)
	l.renew(4, "l", "w", 1, l.granted)
	m, events := l.play(Options{At: []Asked{{Zxid: 1<<32 + 2}, {Zxid: 1<<32 + 3}, {Zxid: 1<<32 + 4}, {Zxid: 1<<32 + 9}}})
	got := toldAll(m)
	want := []string{"0 within l=x m=z", "1 within l=?x m=z", "2 within l=?x m=z", "3 within l=w m=z"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	for _, e := range events {
		if e.Kind == Granted && e.Who.Owner == "y" || e.Kind == Released && e.Who.Owner == "x" || e.Kind == Restored {
			t.Errorf("told although it is not known: %s", brief(e))
		}
	}
}

// TestDoubtedAreGone: an entry that records its grant, and excludes all others, shows that entries before it that a
// disputed transaction would delete are gone.
func TestDoubtedAreGone(t *testing.T) {
	l := newTape()
	l.take(1, "l", "x").do(1, del(e("l", 0))...).join(2, "l", "y", 1).renew(2, "l", "y", 1, l.granted).do(2, del(e("l", 1))...)
	l.txns[1].Disputed = true
	m, events := l.play(Options{At: []Asked{{Zxid: 1<<32 + 3}, {Zxid: 1<<32 + 4}}})
	if got, want := told(m.Moments()[0])+"; "+told(m.Moments()[1]), "0 within l=?x,y; 1 within l=y"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if e := events[len(events)-1]; e.Kind != Released || e.Who.Owner != "y" {
		t.Errorf("the last event is %s", brief(e))
	}
}

// TestDisputedEndOfSession: another library's entry may be there still after the disputed end of its session,
// also if the log does not name it.
func TestDisputedEndOfSession(t *testing.T) {
	l := newTape()
	c := create(lockPath("l")+"/_c_0123-lock-0000000000", nil)
	c.Ephemeral = true
	l.do(1, c).do(1, txnlog.Op{Kind: txnlog.OpCloseSession}).take(2, "m", "z")
	l.txns[1].Disputed = true
	m, _ := l.play(Options{At: []Asked{{Zxid: 1<<32 + 1}, {Zxid: 1<<32 + 3}}})
	if got, want := told(m.Moments()[0])+"; "+told(m.Moments()[1]), "0 within l=; 1 within l=? m=z"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestDisputedOthers: disputed writes of nodes that are no lock's tell of no lock.
func TestDisputedOthers(t *testing.T) {
	l := newTape()
	mark := znode.Parent{Kind: znode.Mark}.Encode()
	asked := znode.Revocation{Request: gen, Entry: "l/" + path.Base(e("l", 0))}.Encode()
	l.take(1, "l", "x").do(1, create(lockPath(znode.EpochMark), mark)).do(1, set(lockPath(znode.EpochMark), mark)).do(1, create(lockPath("dir"), znode.Parent{Kind: znode.Dir}.Encode())).
		do(1, create(lockPath(znode.Inbox)+"/"+path.Base(e("l", 0)), asked)).do(1, del(lockPath("notes"))...)
	for i := range l.txns {
		l.txns[i].Disputed = i > 0
	}
	m, _ := l.play(Options{})
	if got, want := told(m.Now()), "0 within l=x"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTimeOfDisputed: a leader that has lost its followers goes on stamping for a while, beside the next leader.
// That time counts once.
func TestTimeOfDisputed(t *testing.T) {
	l := newTape()
	l.take(1, "l", "x").after(20*time.Second).take(2, "m", "z").after(-16*time.Second).leader().take(3, "n", "v").after(16*time.Second).renew(1, "l", "x", 0, l.granted)
	l.txns[1].Disputed = true
	_, events := l.play(Options{At: ask(10 * time.Second)})
	for _, e := range events {
		if e.Kind == Expired || e.Late || e.Kind == Leader && e.Step != 0 {
			t.Errorf("told of a lease of %v that was renewed after 20s: %s", ttl, brief(e))
		}
	}
}

// TestRestored: a lock's node that is made although it is there shows that the data was replaced. The earlier
// hold has gone then, and other locks are not known until they are made anew.
func TestRestored(t *testing.T) {
	l := newTape()
	l.take(1, "l", "x").take(1, "m", "x").after(time.Second).take(2, "l", "y").after(time.Second).take(2, "m", "y")
	m, events := l.play(Options{At: []Asked{{Zxid: 1<<32 + 2}, {Zxid: 1<<32 + 3}, {Zxid: 1<<32 + 4}}})
	got := toldAll(m)
	want := []string{"0 within l=x m=x", "1 within, others unknown l=y m=?x", "2 within, others unknown l=y m=y"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	var kinds []string
	for _, e := range events[6:] {
		kinds = append(kinds, brief(e))
	}
	wanted := []string{"1s restored l", "1s vanished l x", "1s made l by=y", "1s joined l y", "1s granted l y", "2s vanished m x", "2s made m by=y", "2s joined m y", "2s granted m y"}
	if !slices.Equal(kinds, wanted) {
		t.Errorf("got %q\nwant %q", kinds, wanted)
	}
}

// TestContradiction: the last transaction of each log cannot follow the ones before. Then other transactions are
// missing, or the data was replaced.
func TestContradiction(t *testing.T) {
	for name, write := range map[string]func(l *tape){
		"an entry joins as the lock's earlier child, though its node's name is new": func(l *tape) {
			l.join(2, "l", "y", 1).join(3, "l", "z", 2)
			for i := range 2 {
				l.txns[1+i].Ops[1].CVersion = 3
			}
		},
		"a missing entry is deleted":                 func(l *tape) { l.do(2, del(e("l", 1))...) },
		"a missing entry is written":                 func(l *tape) { l.renew(2, "l", "y", 1) },
		"a lock's node is deleted, and has an entry": func(l *tape) { l.do(2, del(anchorPath("l"), lockPath("l"))...) },
	} {
		l := newTape().take(1, "l", "x").after(time.Second)
		write(l)
		m, events := l.play(Options{})
		if !m.Blind() || !slices.ContainsFunc(events, func(e Event) bool { return e.Kind == Restored && e.Zxid == l.zxid }) {
			t.Errorf("%s: %q", name, briefs(events))
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

// TestNewRoot: below a root that the log creates there was nothing before.
func TestNewRoot(t *testing.T) {
	l := newTape()
	l.do(1, create("/locks", nil)).join(1, "l", "x", 0)
	m := New(Options{Root: "/locks"}, func(Event) {})
	m.Gap()
	for i := range l.txns {
		m.Apply(&l.txns[i])
	}
	m.End()
	if m.Blind() || told(m.Now()) != "0 within l=x" {
		t.Errorf("blind %v, %s", m.Blind(), told(m.Now()))
	}
}

// TestEnded: an entry from before the log that an unknown session deletes is told as ended: it may have been
// deleted by hand. What that session does later shows whether it was the client's.
func TestEnded(t *testing.T) {
	for name, c := range map[string]struct {
		at    time.Duration // its lease had ended before the log if it is late
		later func(l *tape)
		want  string
	}{
		"nothing more":                    {0, func(*tape) {}, "0s ended l x: " + byEither},
		"the client's next session":       {0, func(l *tape) { l.take(9, "m", "x") }, "0s released l x"},
		"another client":                  {0, func(l *tape) { l.take(9, "m", "y") }, "0s removed l x by=y: " + byAnother},
		"its own session writes before":   {0, nil, "0s removed l x: " + byUnknown},
		"late":                            {40 * time.Second, func(*tape) {}, "40s ended l x: " + byLate},
		"late, the client's next session": {40 * time.Second, func(l *tape) { l.take(9, "m", "x") }, "40s ended l x: " + byOwner},
		"late, another client":            {40 * time.Second, func(l *tape) { l.take(9, "m", "y") }, "40s purged l x by=y"},
		"late, beside its own session":    {40 * time.Second, nil, "40s ended l x: " + byLate},
	} {
		l := newTape()
		if c.later == nil {
			l.renew(1, "l", "x", 0)
		}
		l.after(c.at).do(9, del(e("l", 0))...)
		if c.later != nil {
			c.later(l)
		}
		m, events := l.play(Options{At: []Asked{{Zxid: 1 << 32}}}, node(lockPath("l"), parent(znode.Mutex), 1, 0), node(anchorPath("l"), znode.AnchorData{}.Encode(), 1, 0), node(e("l", 0), l.record("x"), 1, 0))
		begins := "0 within l=x"
		if c.at > 0 && c.later != nil {
			begins = "0 within l=[x]"
		}
		if got := told(m.Moments()[0]); got != begins {
			t.Errorf("%s: at the beginning %q, want %q", name, got, begins)
		}
		i := slices.IndexFunc(events, func(e Event) bool { return e.Kind.Ends() })
		if i < 0 || brief(m.Resolve(events[i])) != c.want {
			t.Errorf("%s: %q, at last %q, want %q", name, briefs(events), brief(m.Resolve(events[max(i, 0)])), c.want)
		}
	}
}
