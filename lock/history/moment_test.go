package history

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock/history/internal/tape"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/schedule"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// ask returns a moment to report for each time, counted from tape.Epoch0.
func ask(times ...time.Duration) (all []Asked) {
	for _, d := range times {
		all = append(all, Asked{Time: tape.Epoch0.Add(d)})
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

// toldAll returns the Machine's moments, each in a line.
func toldAll(m *Machine) (all []string) {
	for _, moment := range m.Moments() {
		all = append(all, told(moment))
	}
	return all
}

// TestHolder: a moment has the times, the lease and the client of a holder, and the lease of a
// waiter.
func TestHolder(t *testing.T) {
	l := tape.New()
	l.Take(1, "l", "x").After(10*time.Second).Renew(1, "l", "x", 0, l.Granted).Join(2, "l", "y", 1)
	m, _ := play(l, Options{At: ask(12 * time.Second)})
	s := m.Moments()[0].Locks[0]
	want := Holder{Entry: path.Base(tape.Entry("l", 0)), Client: Client{"x", "node-x", 1}, Since: tape.Epoch0, Granted: 1<<32 + 1, Recorded: tape.Epoch0.Add(10 * time.Second).Local(),
		Written: tape.Epoch0.Add(10 * time.Second), Write: 1<<32 + 2, Lease: tape.Epoch0.Add(40 * time.Second), Left: 28 * time.Second}
	got := s.Holders[0]
	got.ttl, got.at = 0, point{}
	if got != want || s.Kind != znode.Mutex || s.Waiters[0].Left != 28*time.Second || !s.Waiters[0].Since.IsZero() {
		t.Errorf("%+v, want %+v; %+v", got, want, s)
	}
}

// TestOthers: if no lock matches, Others has the names of the other locks, and Elsewhere the other
// roots that have locks. The Machine keeps no lock.
func TestOthers(t *testing.T) {
	l := tape.New()
	l.Take(1, "a", "x").Take(1, "b/c", "x").Do(1, tape.Create("/app/locks/d/"+znode.Anchor(tape.Generation), nil)).Do(1, tape.Create("/app/locks/.revoke", nil)).Do(1, tape.Create("/b/anchor-", nil))
	m, events := play(l, Options{Match: func(name string) bool { return name == "z" }})
	if len(events) > 0 || m.Seen() || !slices.Equal(m.Others(), []string{"a", "b/c"}) || !slices.Equal(m.Elsewhere(), []string{"/app/locks"}) {
		t.Error(briefs(events), m.Seen(), m.Others(), m.Elsewhere())
	}
	if len(m.locks) > 0 {
		t.Errorf("it keeps locks that nobody asked for: %v", m.locks)
	}
}

// TestMemory: the state that a Machine keeps does not grow with the log.
func TestMemory(t *testing.T) {
	l := tape.New()
	for i := range 500 {
		session := int64(i + 1)
		l.Do(session, txnlog.Op{Kind: txnlog.OpBeginSession}).Take(session, fmt.Sprint(i), "x").After(time.Minute)
		l.Do(session, tape.Delete(tape.Entry(fmt.Sprint(i), 0), tape.Anchor(fmt.Sprint(i)), tape.Lock(fmt.Sprint(i)))...)
		l.Do(session, txnlog.Op{Kind: txnlog.OpCloseSession})
	}
	m, _ := play(l, Options{})
	if len(m.locks) > 0 || len(m.sessions) > 0 || len(m.clock.places) > maxPlaces {
		t.Errorf("%d locks, %d sessions, %d places", len(m.locks), len(m.sessions), len(m.clock.places))
	}
}

// TestPlainRenewal: a renewal that is recognized without decoding gives the same entry as decoding.
// Other writes are not recognized.
func TestPlainRenewal(t *testing.T) {
	name, _ := znode.Parse(path.Base(tape.Entry("l", 0)))
	l := tape.New()
	tricky := func(r *znode.Record) { r.Owner, r.Metadata = `"expires_at":7`, map[string]string{"expires_at": "9"} }
	c := &contender{Name: name}
	New(Options{}, nil).take(c, znode.ReadEntry(name, l.Record("x", tricky), c.stat()))
	c.plain, _ = plain(l.Record("x", tricky))
	l.After(time.Hour)
	got, ok := c.renewal(l.Record("x", tricky))
	want := znode.ReadEntry(name, l.Record("x", tricky), c.stat())
	if want.Record.Attempt = ""; !ok || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v\n%+v, want\n%+v", ok, got, want)
	}
	for _, other := range [][]byte{l.Record("x", tricky, l.Granted), l.Record("y"), nil, []byte("{"), l.Record("x", tricky)[:60]} {
		if _, ok := c.renewal(other); ok {
			t.Errorf("taken for a renewal: %s", other)
		}
	}
}

// TestJobRecord: the record of a job is read as package schedule writes it.
func TestJobRecord(t *testing.T) {
	status := schedule.Status{Job: "nightly", Upto: tape.Epoch0, Version: 1, Skipped: &schedule.Skipped{First: tape.Epoch0, Last: tape.Epoch0.Add(time.Hour), Why: schedule.Missing},
		Runs: []schedule.Run{{Tick: tape.Epoch0, Attempt: 2, Outcome: schedule.Failed, Error: "disk full", Started: tape.Epoch0, Owner: "x", Host: "h", PID: 7, Token: "t", Lock: "jobs/nightly"}}}
	data, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	l := tape.New()
	l.Do(1, tape.Create(schedule.DefaultPath+"/nightly", data))
	_, events := play(l, Options{Jobs: schedule.DefaultPath, Match: func(name string) bool { return name == "jobs/nightly" }})
	want := []string{"0s tick jobs/nightly: ticks from 2026-11-26T03:00:00Z until 2026-11-26T04:00:00Z never run: missed",
		"0s tick jobs/nightly x: tick 2026-11-26T03:00:00Z: failed, attempt 2: disk full"}
	if got := briefs(events); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if e := events[1]; e.Who != (Client{"x", "h", 7}) || e.Lock != "jobs/nightly" {
		t.Errorf("%+v", e)
	}
}
