package history

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/schedule"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// ask returns a moment to report for each time, counted from epoch0.
func ask(times ...time.Duration) (all []Asked) {
	for _, d := range times {
		all = append(all, Asked{Time: epoch0.Add(d)})
	}
	return all
}

// told returns a moment in a line: its Index and Where, and for each lock the owners of its
// holders, of lapsed holders in brackets, and of waiters after a colon.
func told(m Moment) string {
	s := fmt.Sprintf("%d %s", m.Index, m.Where)
	if m.Blind {
		s += ", others unknown"
	}
	owners := func(all []Holder) string {
		var names []string
		for _, h := range all {
			names = append(names, h.Client.Owner)
		}
		return strings.Join(names, ",")
	}
	for _, l := range m.Locks {
		s += " " + l.Lock + "=" + owners(l.Holders)
		if l.Unknown {
			s += "?" + owners(l.Unclear)
		}
		if len(l.Lapsed) > 0 {
			s += "[" + owners(l.Lapsed) + "]"
		}
		if len(l.Waiters) > 0 {
			s += ":" + owners(l.Waiters)
		}
	}
	return s
}

// TestMoments: a moment has the holders, the lapsed holders and the waiters at the time that was
// asked for.
func TestMoments(t *testing.T) {
	sec := time.Second
	for name, c := range map[string]struct {
		write func(l *tape)
		at    []Asked
		want  []string
	}{
		"before, in between, after": {
			write: func(l *tape) {
				l.take(1, "l", "x").after(10*sec).join(2, "l", "y", 1).after(10*sec).do(1, del(e("l", 0))...).after(5*sec).renew(2, "l", "y", 1)
			},
			at:   ask(-sec, 0, 5*sec, 10*sec, 19*sec, 20*sec, 24*sec, 26*sec),
			want: []string{"0 before, others unknown", "1 within l=x", "2 within l=x", "3 within l=x:y", "4 within l=x:y", "5 within l=y", "6 within l=y", "7 after l=y"},
		},
		"by zxid": {
			write: func(l *tape) { l.take(1, "l", "x").join(2, "l", "y", 1).do(1, del(e("l", 0))...) },
			at:    []Asked{{Zxid: 5}, {Zxid: 1<<32 + 1}, {Zxid: 1<<32 + 2}, {Zxid: 1<<32 + 3}, {Zxid: 1<<32 + 4}},
			want:  []string{"0 before, others unknown", "1 within l=x", "2 within l=x:y", "3 within l=y", "4 after l=y"},
		},
		"the lease has ended, its entry is there": {
			write: func(l *tape) {
				l.take(1, "l", "x").join(2, "l", "y", 1).after(20*sec).renew(2, "l", "y", 1).after(15*sec).do(2, del(e("l", 0))...)
			},
			at:   ask(29*sec, 31*sec, 35*sec, 70*sec),
			want: []string{"0 within l=x:y", "1 within l=[x]:y", "2 within l=y", "3 after l=[y]"},
		},
		"stepped ahead: the lease goes on, and no stamp shows the times between": {
			write: func(l *tape) {
				l.take(1, "l", "x").after(10*sec).renew(1, "l", "x", 0).after(5*sec + time.Hour)
				l.do(9, set("/elsewhere", nil)).after(5 * sec)
				l.ahead = time.Hour
				l.renew(1, "l", "x", 0)
			},
			at:   ask(12*sec, 30*time.Minute, time.Hour+17*sec),
			want: []string{"0 within l=x", "1 skipped l=x", "2 within l=x"},
		},
		"stepped back: a time comes twice": {
			write: func(l *tape) {
				l.take(1, "l", "x").after(20*sec).renew(1, "l", "x", 0).do(1, del(e("l", 0))...).after(-20*sec).do(9, set("/elsewhere", nil)).after(20*sec).do(9, set("/elsewhere", nil))
			},
			at:   ask(10 * sec),
			want: []string{"0 within l=x", "0 within"},
		},
		"an election by a clock behind": {
			write: func(l *tape) {
				l.take(1, "l", "x").after(20*sec).renew(1, "l", "x", 0)
				l.leader().after(-10*sec).renew(1, "l", "x", 0).after(20*sec).do(1, del(e("l", 0))...)
			},
			at:   ask(15*sec, 29*sec),
			want: []string{"0 within l=x", "0 within l=x", "1 within l=x"},
		},
		"the last stamp of a leader, and right after it": {
			write: func(l *tape) {
				l.take(1, "l", "x").after(time.Hour).renew(1, "l", "x", 0)
				l.leader().after(-time.Hour+sec).renew(1, "l", "x", 0).do(1, del(e("l", 0))...)
			},
			at:   ask(time.Hour, time.Hour+2*sec, 2*time.Hour),
			want: []string{"0 within l=x", "1 skipped l=x", "2 after"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newTape()
			c.write(l)
			m, _ := l.play(Options{At: c.at})
			var got []string
			for _, moment := range m.Moments() {
				got = append(got, told(moment))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q\nwant %q", got, c.want)
			}
		})
	}
	m, _ := newTape().play(Options{At: ask(0)})
	if got := m.Moments(); len(got) != 1 || got[0].Where != Before {
		t.Errorf("in an empty log: %+v", got)
	}
}

// TestDoubt: after a pause of the leader, which may have been a step of its clock, it is not known how much is
// left of a lease, until its next write.
func TestDoubt(t *testing.T) {
	l := newTape()
	sec := time.Second
	l.take(1, "l", "x").take(2, "m", "y").after(20 * sec)
	l.ahead = 16 * sec
	l.renew(2, "m", "y", 0).after(12*sec).do(9, set("/elsewhere", nil)).after(sec)
	l.ahead = 0
	l.renew(1, "l", "x", 0)
	m, _ := l.play(Options{At: ask(2*sec, 10*sec, 25*sec, 31*sec, 33*sec)})
	var got []string
	for _, m := range m.Moments() {
		for _, h := range m.Locks[0].Holders { // of l
			got = append(got, fmt.Sprintf("%s %v %v", m.Where, h.Left, h.Doubt))
		}
	}
	want := []string{"within 28s 0s", "skipped 26s 6s", "within 21s 16s", "within 15s 16s", "within 30s 0s"}
	if !slices.Equal(got, want) {
		t.Errorf("left, and in doubt: %q, want %q", got, want)
	}
}

// TestHolder: a moment has the times, the lease and the client of a holder, and the lease of a
// waiter.
func TestHolder(t *testing.T) {
	l := newTape()
	l.take(1, "l", "x").after(10*time.Second).renew(1, "l", "x", 0, l.granted).join(2, "l", "y", 1)
	m, _ := l.play(Options{At: ask(12 * time.Second)})
	s := m.Moments()[0].Locks[0]
	want := Holder{Entry: path.Base(e("l", 0)), Client: Client{"x", "node-x", 1}, Since: epoch0, Granted: 1<<32 + 1, Recorded: epoch0.Add(10 * time.Second).Local(),
		Written: epoch0.Add(10 * time.Second), Write: 1<<32 + 2, Lease: epoch0.Add(40 * time.Second), Left: 28 * time.Second}
	got := s.Holders[0]
	got.ttl, got.at = 0, point{}
	if got != want || s.Kind != znode.Mutex || s.Waiters[0].Left != 28*time.Second || !s.Waiters[0].Since.IsZero() {
		t.Errorf("%+v, want %+v; %+v", got, want, s)
	}
}

func node(path string, data []byte, zxid int64, stamp time.Duration) txnlog.Node {
	return txnlog.Node{Path: path, Data: data, Czxid: zxid, Mzxid: zxid, Ctime: epoch0.Add(stamp), Mtime: epoch0.Add(stamp)}
}

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
	got := []string{}
	for _, moment := range m.Moments() {
		got = append(got, told(moment))
	}
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
	got = nil
	for _, moment := range m.Moments() {
		got = append(got, told(moment))
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

// TestResolve: a later transaction may show whose session deleted an entry. Resolve then corrects
// the event.
func TestResolve(t *testing.T) {
	l := newTape()
	l.take(1, "l", "x").join(2, "l", "y", 1).do(7, del(e("l", 0))...).do(8, del(e("l", 1))...).take(7, "m", "x").take(8, "n", "z")
	m, events := l.play(Options{})
	var got []string
	for _, e := range events {
		if e = m.Resolve(e); e.Kind.Ends() {
			got = append(got, brief(e))
		}
	}
	if want := []string{"0s released l x", "0s removed l y by=z: by another client, during the lease"}; !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestOthers: if no lock matches, Others has the names of the other locks, and Elsewhere the other
// roots that have locks. The Machine keeps no lock.
func TestOthers(t *testing.T) {
	l := newTape()
	l.take(1, "a", "x").take(1, "b/c", "x").do(1, create("/app/locks/d/"+znode.Anchor(gen), nil)).do(1, create("/app/locks/.revoke", nil)).do(1, create("/b/anchor-", nil))
	m, events := l.play(Options{Match: func(name string) bool { return name == "z" }})
	if len(events) > 0 || m.Seen() || !slices.Equal(m.Others(), []string{"a", "b/c"}) || !slices.Equal(m.Elsewhere(), []string{"/app/locks"}) {
		t.Error(briefs(events), m.Seen(), m.Others(), m.Elsewhere())
	}
	if len(m.locks) > 0 {
		t.Errorf("it keeps locks that nobody asked for: %v", m.locks)
	}
}

// TestMemory: the state that a Machine keeps does not grow with the log.
func TestMemory(t *testing.T) {
	l := newTape()
	for i := range 500 {
		session := int64(i + 1)
		l.do(session, txnlog.Op{Kind: txnlog.OpBeginSession}).take(session, fmt.Sprint(i), "x").after(time.Minute)
		l.do(session, del(e(fmt.Sprint(i), 0), anchorPath(fmt.Sprint(i)), lockPath(fmt.Sprint(i)))...)
		l.do(session, txnlog.Op{Kind: txnlog.OpCloseSession})
	}
	m, _ := l.play(Options{})
	if len(m.locks) > 0 || len(m.sessions) > 0 || len(m.clock.places) > maxPlaces {
		t.Errorf("%d locks, %d sessions, %d places", len(m.locks), len(m.sessions), len(m.clock.places))
	}
}

// TestPlainRenewal: a renewal that is recognized without decoding gives the same entry as decoding.
// Other writes are not recognized.
func TestPlainRenewal(t *testing.T) {
	name, _ := znode.Parse(path.Base(e("l", 0)))
	l := newTape()
	tricky := func(r *znode.Record) { r.Owner, r.Metadata = `"expires_at":7`, map[string]string{"expires_at": "9"} }
	c := &contender{Name: name}
	New(Options{}, nil).take(c, znode.ReadEntry(name, l.record("x", tricky), c.stat()))
	c.plain, _ = plain(l.record("x", tricky))
	l.after(time.Hour)
	got, ok := c.renewal(l.record("x", tricky))
	want := znode.ReadEntry(name, l.record("x", tricky), c.stat())
	if want.Record.Attempt = ""; !ok || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v\n%+v, want\n%+v", ok, got, want)
	}
	for _, other := range [][]byte{l.record("x", tricky, l.granted), l.record("y"), nil, []byte("{"), l.record("x", tricky)[:60]} {
		if _, ok := c.renewal(other); ok {
			t.Errorf("taken for a renewal: %s", other)
		}
	}
}

// TestJobRecord: the record of a job is read as package schedule writes it.
func TestJobRecord(t *testing.T) {
	status := schedule.Status{Job: "nightly", Upto: epoch0, Version: 1, Skipped: &schedule.Skipped{First: epoch0, Last: epoch0.Add(time.Hour), Why: schedule.Missing},
		Runs: []schedule.Run{{Tick: epoch0, Attempt: 2, Outcome: schedule.Failed, Error: "disk full", Started: epoch0, Owner: "x", Host: "h", PID: 7, Token: "t", Lock: "jobs/nightly"}}}
	data, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	l := newTape()
	l.do(1, create(schedule.DefaultPath+"/nightly", data))
	_, events := l.play(Options{Jobs: schedule.DefaultPath, Match: func(name string) bool { return name == "jobs/nightly" }})
	want := []string{"0s tick jobs/nightly: ticks from 2026-11-26T03:00:00Z until 2026-11-26T04:00:00Z never run: missed",
		"0s tick jobs/nightly x: tick 2026-11-26T03:00:00Z: failed, attempt 2: disk full"}
	if got := briefs(events); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if e := events[1]; e.Who != (Client{"x", "h", 7}) || e.Lock != "jobs/nightly" {
		t.Errorf("%+v", e)
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
	var got []string
	for _, moment := range m.Moments() {
		got = append(got, told(moment))
	}
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
	var got []string
	for _, moment := range m.Moments() {
		got = append(got, told(moment))
	}
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

// TestRestoredEntry: an entry that joins as the lock's earlier child shows that the data was replaced, though its
// node's name is new.
func TestRestoredEntry(t *testing.T) {
	l := newTape()
	l.take(1, "l", "x").after(time.Second).join(2, "l", "y", 1).after(time.Second).join(3, "l", "z", 2)
	for i, version := range []int32{3, 3} {
		l.txns[1+i].Ops[1].CVersion = version
	}
	if _, events := l.play(Options{}); !slices.ContainsFunc(events, func(e Event) bool { return e.Kind == Restored && e.Zxid == l.zxid }) {
		t.Errorf("%q", briefs(events))
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
		"late, beside its own session":    {40 * time.Second, nil, "40s purged l x"},
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
