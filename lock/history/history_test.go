package history

import (
	"fmt"

	"github.com/holdfast-io/holdfast/lock/history/internal/tape"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
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
