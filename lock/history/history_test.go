package history

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock/history/internal/tape"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// play gives the log to a Machine, and returns the Machine and its events.
func play(l *tape.Tape, o Options, begin ...txnlog.Node) (*Machine, []Event) {
	var events []Event
	if o.Root == "" {
		o.Root = "/locks"
	}
	m := New(o, func(e Event) { events = append(events, e) })
	err := m.Begin(1<<32, func(yield func(txnlog.Node, error) bool) {
		for _, n := range begin {
			if !yield(n, nil) {
				return
			}
		}
	})
	if err != nil {
		panic(err)
	}
	for i := range l.Txns {
		m.Apply(&l.Txns[i])
	}
	m.End()
	return m, events
}

// brief returns an event in a line: seconds, kind, lock, owner, and what else is set.
func brief(e Event) string {
	s := fmt.Sprintf("%v %s", e.Time.Sub(tape.Epoch0), e.Kind)
	if e.Lock != "" {
		s += " " + e.Lock
	}
	if e.Who.Known() {
		s += " " + e.Who.Owner
	}
	if e.By.Known() {
		s += " by=" + e.By.Owner
	}
	for text, set := range map[string]bool{" again": e.Again, " early": e.Early, " late": e.Late && e.Kind == Renewed} {
		if set {
			s += text
		}
	}
	if e.Role != "" {
		s += " " + e.Role
	}
	if e.From != e.To {
		s += fmt.Sprintf(" %d->%d", e.From, e.To)
	}
	if e.Step != 0 {
		s += fmt.Sprintf(" step=%v", e.Step)
	}
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s
}

func briefs(events []Event) (all []string) {
	for _, e := range events {
		all = append(all, brief(e))
	}
	return all
}

// BenchmarkApply follows renewals of a thousand holds, and handoffs of a contended lock.
func BenchmarkApply(b *testing.B) {
	l := tape.New()
	for i := range 1000 {
		l.Take(int64(i+1), fmt.Sprintf("held/%d", i), fmt.Sprintf("client-%d", i))
	}
	l.Take(5001, "busy", "x").Join(5002, "busy", "y", 1)
	size := 0
	granted := func(r *znode.Record) { r.AcquiredAt = tape.Epoch0.UnixMilli() }
	for i := range 20_000 {
		l.After(5*time.Millisecond).Renew(int64(i%1000+1), fmt.Sprintf("held/%d", i%1000), fmt.Sprintf("client-%d", i%1000), 0, granted)
	}
	for i := range int32(1000) {
		l.After(time.Millisecond).Do(int64(5001+i%2), append(tape.Delete(tape.Entry("busy", i)), tape.Create(tape.Entry("busy", i+2), l.Record("x")), tape.Set(tape.Lock("busy"), tape.Parent(znode.Mutex)))...)
	}
	for _, t := range l.Txns {
		size += 100
		for _, op := range t.Ops {
			size += len(op.Path) + len(op.Data) + 60
		}
	}
	b.SetBytes(int64(size))
	for b.Loop() {
		m := New(Options{Root: "/locks"}, func(Event) {})
		for i := range l.Txns {
			m.Apply(&l.Txns[i])
		}
	}
}
