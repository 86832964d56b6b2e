package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/script"
	"github.com/holdfast-io/holdfast/lock/history/internal/tape"
)

// TestScripts runs the scripts in testdata: transactions, see [tape.Text], and the events that they show.
//
//	options grace=2s
//	at 5s 1/2     moments, by their time and by the zxid EPOCH/COUNTER
//	begin 1/80    a snapshot, of the nodes before
//	gap           transactions are missing
//	end           derived events, corrected ones, and the moments
func TestScripts(t *testing.T) {
	script.Each(t, "testdata", func(t *testing.T, sc *script.Scenario) {
		p := &player{Text: tape.NewText(t), o: Options{Root: "/locks"}}
		sc.Check(t, sc.Play(t, p.do), script.First)
		if len(p.events) > p.told {
			t.Errorf("events after the end: %q", briefs(p.events[p.told:]))
		}
	})
}

// player runs the lines of a script.
type player struct {
	*tape.Text
	o      Options
	m      *Machine // nil until the first transaction, gap or snapshot
	events []Event
	told   int // number of events that were results
}

// machine returns the machine. If begins is set, an empty snapshot comes before the log.
func (p *player) machine(begins bool) *Machine {
	if p.m == nil {
		p.m = New(p.o, func(e Event) { p.events = append(p.events, e) })
		if begins {
			p.begin(1 << 32)
		}
	}
	return p.m
}

func (p *player) begin(zxid int64) {
	if err := p.m.Begin(zxid, p.Snapshot()); err != nil {
		p.Fatal(err)
	}
}

// do runs a line, and returns its results.
func (p *player) do(line string) (results []string) {
	words := strings.Fields(line)
	switch args := words[1:]; words[0] {
	case "options":
		p.options(args)
	case "at":
		for _, a := range args {
			p.o.At = append(p.o.At, p.asked(a))
		}
	case "begin":
		p.machine(false)
		p.begin(p.Number(args[0]))
	case "gap":
		p.machine(false).Gap()
	case "end":
		return p.end()
	case "now":
		return []string{told(p.m.Now())}
	case "leases": // what is left of them at the moments, and what of that is in doubt
		return p.leases()
	default:
		for _, x := range p.Line(words) {
			p.machine(true).Apply(&x)
		}
	}
	fresh := p.events[p.told:]
	p.told = len(p.events)
	if words[0] == "begin" { // events of several locks, in any order
		slices.SortStableFunc(fresh, func(a, b Event) int { return cmp.Compare(a.Lock, b.Lock) })
	}
	return briefs(fresh)
}

// end returns what the machine knows at the end of the log.
func (p *player) end() (results []string) {
	p.machine(true).End()
	fresh := p.events[p.told:]
	p.told = len(p.events)
	slices.SortStableFunc(fresh, func(a, b Event) int { return cmp.Compare(a.Lock, b.Lock) })
	results = briefs(fresh)
	for _, e := range p.events {
		if corrected := brief(p.m.Resolve(e)); corrected != brief(e) {
			results = append(results, "corrected: "+corrected)
		}
	}
	return append(results, toldAll(p.m)...)
}

func (p *player) leases() (all []string) {
	for _, m := range p.m.Moments() {
		for _, l := range m.Locks {
			for _, h := range slices.Concat(l.Holders, l.Waiters) {
				all = append(all, fmt.Sprintf("%d %s: %s: %v, %v in doubt", m.Index, l.Lock, h.Client.Owner, h.Left, h.Doubt))
			}
		}
	}
	return all
}

func (p *player) options(args []string) {
	for _, a := range args {
		switch name, value, _ := strings.Cut(a, "="); name {
		case "grace":
			d := p.Span(value)
			p.o.Grace = func(string) time.Duration { return d }
		case "match":
			p.o.Match = func(name string) bool { return name == value }
		case "reaper":
			p.o.Reaper = value
		case "jobs":
			p.o.Jobs = value
		default:
			p.Fatalf("there is no option %s", name)
		}
	}
}

func (p *player) asked(text string) Asked {
	if strings.Contains(text, "/") {
		return Asked{Zxid: p.Number(text)}
	}
	return Asked{Time: tape.Epoch0.Add(p.Span(text))}
}
