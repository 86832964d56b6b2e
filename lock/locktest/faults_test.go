package locktest_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	runner "github.com/holdfast-io/holdfast/integration/script"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestFaults runs the scripts of faults, in virtual time. Connections have their names as labels. Results
// say how long they took. Members have numbers: the first leader is 1.
func TestFaults(t *testing.T) {
	runner.Each(t, "testdata/faults", func(t *testing.T, sc *runner.Scenario) {
		synctest.Test(t, func(t *testing.T) {
			f := &faults{Ensemble: locktest.Start(t, ensembleOptions(t, sc.Lines[0])), begun: time.Now()}
			f.members = []string{f.Leader()}
			for _, m := range f.Servers() {
				if m != f.Leader() {
					f.members = append(f.members, m)
				}
			}
			s := emptyScript(t, f.Servers(), func(label string) zk.Dialer { return f.Dialer(label) })
			s.faults, f.script = f, s
			f.Trace(func(ev locktest.Event) {
				if ev.Kind == "request" && ev.Note != "" {
					f.notes = append(f.notes, fmt.Sprintf("request %d %s", ev.Number, ev.Note))
				}
			})
			s.check(sc, runner.First)
		})
	})
}

// ensembleOptions returns the options in the first line of a scenario: ensemble [members=N] [election=D]
// [max-frame=N] [keeper].
func ensembleOptions(t *testing.T, line string) (o locktest.Options) {
	t.Helper()
	words := strings.Fields(line)
	if words[0] != "ensemble" {
		return o
	}
	for _, w := range words[1:] {
		var err error
		switch name, value, _ := strings.Cut(w, "="); name {
		case "members":
			_, err = fmt.Sscan(value, &o.Members)
		case "election":
			o.ElectionTime, err = time.ParseDuration(value)
		case "max-frame":
			_, err = fmt.Sscan(value, &o.MaxFrame)
		case "keeper":
			o.Quirks.Keeper = true
		default:
			t.Fatalf("%s: an ensemble has no %s", line, name)
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	return o
}

// faults has the commands of a script for the ensemble that it runs on.
type faults struct {
	*locktest.Ensemble
	script  *script
	begun   time.Time
	members []string // by their numbers, from 0
	notes   []string // of traced requests
}

// member returns the member with the number.
func (f *faults) member(n int32) string {
	if int(n) > len(f.members) {
		return "absent"
	}
	return f.members[n-1]
}

// timed adds the time that a line took to its results. It does not for client libraries, whose own
// timers count.
func (f *faults) timed(line string, results []string, took time.Duration) []string {
	name, _, _ := strings.Cut(line, " ")
	if took == 0 || f.script.clients[name] != nil || name == "client" || name == "sleep" {
		return results
	}
	if len(results) == 0 {
		return []string{fmt.Sprintf("after %v", took)}
	}
	results = slices.Clone(results)
	results[len(results)-1] += fmt.Sprintf(", after %v", took)
	return results
}

// do runs a command, and returns its results; false if there is no such command.
func (f *faults) do(name string, a *arguments) (results []string, ok bool) {
	var err error
	var result string
	switch name {
	case "ensemble": // see TestFaults
		a.rest()
	case "sleep":
		time.Sleep(a.duration())
		synctest.Wait()
	case "after": // a time, in the background
		d, line := a.duration(), strings.Join(a.rest(), " ")
		time.AfterFunc(d, func() { f.script.do(line) })
	case "cut":
		f.Cut(a.word())
	case "freeze":
		f.Freeze(a.word())
	case "thaw":
		f.Thaw(a.word())
	case "partition":
		err = f.Partition(a.word(), a.members()...)
	case "heal":
		f.Heal(a.word())
	case "expire":
		result = fmt.Sprintf("%d sessions", f.ExpireLabel(a.word()))
	case "lose":
		result = fmt.Sprintf("%d watches", f.LoseWatches(a.word()))
	case "latency":
		f.latency(a)
	case "fault":
		f.fault(a)
	case "lag":
		m := f.member(a.number())
		err = f.Lag(m, a.duration())
	case "clock":
		m := f.member(a.number())
		err = f.SetClock(m, a.duration())
	case "step":
		f.StepClock(a.duration())
	case "stop":
		err = f.Stop(f.member(a.number()))
	case "start":
		err = f.Start(f.member(a.number()))
	case "leader":
		if result = "none"; f.Leader() != "" {
			result = fmt.Sprint(1 + slices.Index(f.members, f.Leader()))
		}
	case "sequence":
		p := a.path()
		err = f.SetSequence(p, a.number())
	case "config":
		err = f.SetConfig(string(a.data()))
	case "forget":
		f.Forget()
	case "node": // as the leader has it
		result = f.node(a.path())
	case "handshakes":
		result = fmt.Sprint(f.Requests()[a.word()].Handshakes)
	case "peek": // what a watch has had so far
		result = f.script.soFar(a.word())
	case "notes":
		results, f.notes = f.notes, nil
	default:
		return nil, false
	}
	if err != nil {
		result = err.Error()
	}
	if result != "" {
		results = append(results, result)
	}
	return results, true
}

// node says when a node was made, by the leader's clock, and when it was written, if by another one.
func (f *faults) node(p string) string {
	nodes := f.Dump(p)
	if len(nodes) == 0 {
		return "none"
	}
	n, written := nodes[0], ""
	if at := n.Written.Truncate(time.Millisecond); at.UnixMilli() != n.Stat.Mtime {
		written = fmt.Sprintf(", written at %v", at.Sub(f.begun))
	}
	return fmt.Sprintf("made at %v%s, zxid %d/%d", time.UnixMilli(n.Stat.Ctime).Sub(f.begun), written, n.Stat.Czxid>>32, n.Stat.Czxid&0xffffffff)
}

// latency sets the latency of all connections; several: of the next messages, and of none after them.
func (f *faults) latency(a *arguments) {
	var all []time.Duration
	for len(a.words) > 0 {
		all = append(all, a.duration())
	}
	if len(all) == 1 {
		f.SetLatency(func(string, string) time.Duration { return all[0] })
		return
	}
	f.SetLatency(func(string, string) (d time.Duration) {
		if len(all) > 0 {
			d, all = all[0], all[1:]
		}
		return d
	})
}

// fault sets a fault of the next request with the label: LABEL OPERATION, and what happens.
func (f *faults) fault(a *arguments) {
	label, op := a.word(), a.word()
	var fault locktest.Fault
	for len(a.words) > 0 {
		switch what := a.word(); what {
		case "drop":
			if fault.Drop = locktest.AfterApply; a.word() == "before" {
				fault.Drop = locktest.BeforeApply
			}
		case "delay":
			fault.Delay = a.duration()
		case "delay-reply":
			fault.DelayReply = a.duration()
		case "code":
			fault.Code = a.number()
		case "op":
			fault.Op = int(a.number())
		default:
			a.s.t.Fatalf("%s: there is no fault %s", a.line, what)
		}
	}
	var once sync.Once
	f.Intercept(func(r locktest.Request) (now locktest.Fault) {
		if r.Label == label && r.Op == op {
			once.Do(func() { now = fault })
		}
		return now
	})
}
