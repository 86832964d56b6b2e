// Scripts of the operations of goroutines that share a place, with the place's answers.

package place

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// history is a place, with its waiters by name and its answers.
type history struct {
	Place[string]
	now     time.Duration
	waiters map[string]*Waiter[string]
	joining []*Join
	said    []string
}

var steps = map[Step]string{Wait: "wait", Share: "share", StartJoin: "join", Pass: "pass", Exchange: "exchange", Leave: "leave"}

func (h *history) say(format string, args ...any) {
	h.said = append(h.said, fmt.Sprintf(format, args...))
}

// do runs one operation: a word and its argument.
func (h *history) do(t *testing.T, op string) {
	defer func() {
		if err := h.Check(); err != nil {
			t.Errorf("after %q: %v", op, err)
		}
	}()
	what, arg, _ := strings.Cut(op, " ")
	join := func() {
		j := &Join{}
		j.Cancel = func() {
			h.say("unwanted")
			h.joining = slices.DeleteFunc(h.joining, func(o *Join) bool { return o == j })
		}
		h.Begin(j)
		h.joining = append(h.joining, j)
	}
	joins := func() { // begins the needed joins, as the owner does
		for h.NeedsJoin() {
			join()
			h.say("join")
		}
	}
	switch what {
	case "at":
		h.now, _ = time.ParseDuration(arg)
	case "enter":
		w := NewWaiter[string](arg)
		h.waiters[arg] = w
		e, step := h.Enter(w, h.now, func(e string) bool { return !strings.HasSuffix(e, "full") })
		if step == StartJoin {
			join()
		}
		h.say("%s%s", steps[step], e)
	case "cancel":
		h.say("%v", h.Cancel(h.waiters[arg]))
	case "arrive": // the first join ends with the entry, or without one
		h.End(h.joining[0])
		h.joining = h.joining[1:]
		switch {
		case h.First() == nil:
			h.say("nobody")
		case arg != "":
			h.Hold(arg, 0, h.now)
			h.say("%v", h.Next().For)
		default:
			h.say("none")
		}
		joins()
	case "unlock", "unlock!": // with !, no other goroutine may get the entry
		step, until := h.Release(arg, h.now, what == "unlock")
		switch step {
		case Pass:
			h.Hold(arg+"'", until, h.now)
			h.say("pass to %v", h.Next().For)
			return
		case Exchange:
			join()
		}
		h.say("%s", steps[step])
		joins()
	case "lost":
		h.say("%v", h.Drop(arg))
		joins()
	case "timer": // fires when the hold is long
		switch in, needed := h.JoinIn(h.now); {
		case !needed:
			h.say("no join")
		case in > 0:
			h.say("in %v", in)
		default:
			join()
			h.say("join")
		}
	case "room":
		fmt.Sscan(arg, &h.Room, &h.Free)
	default:
		t.Fatalf("what is %q?", op)
	}
	h.check(t, op)
}

// check checks the invariants of a place.
func (h *history) check(t *testing.T, op string) {
	_, n := h.Holder()
	held := n > 0
	switch {
	case h.Empty() != (!held && h.Waiting() == 0 && len(h.joining) == 0):
		t.Errorf("%s: empty: %v", op, h.Empty())
	case h.Waiting() > 0 && !held && len(h.joining) == 0:
		t.Errorf("%s: %d goroutines wait, and no entry will come", op, h.Waiting())
	case len(h.joining) > h.Waiting():
		t.Errorf("%s: %d joins for %d waiters", op, len(h.joining), h.Waiting())
	}
}

// TestPlace: each operation of a script has the answers that follow it.
func TestPlace(t *testing.T) {
	const window = 10 * time.Millisecond
	for _, tt := range []struct {
		name  string
		place Place[string]
		ops   string // "op argument > answer > answer; ..."
	}{
		{"first come, first served", Place[string]{Room: 1, Window: window},
			"enter a>join; enter b>wait; enter c>wait; arrive 1>a; unlock 1>pass to b; unlock 1'>pass to c; unlock 1''>leave"},
		{"the entry belongs to the place: the next waiter inherits the join", Place[string]{Room: 1},
			"enter a>join; enter b>wait; cancel a>true; arrive 1>b; unlock 1>leave"},
		{"a join that no waiter needs is given up", Place[string]{Room: 1},
			"enter a>join; cancel a>unwanted>true; enter b>join"},
		{"a waiter that was served cannot give up", Place[string]{Room: 1},
			"enter a>join; arrive 1>a; cancel a>false; unlock 1>leave"},
		{"after a failed join the next one begins", Place[string]{Room: 1},
			"enter a>join; enter b>wait; arrive>none>join; arrive 1>a; unlock 1>exchange; arrive 2>b; unlock 2>leave"},
		{"the window ends", Place[string]{Room: 1, Window: window},
			"enter a>join; arrive 1>a; enter b>wait; enter c>wait; at 9ms; unlock 1>pass to b; at 10ms; unlock 1'>exchange; arrive 2>c; at 19ms; unlock 2>leave"},
		{"a pass does not begin it anew", Place[string]{Room: 1, Window: window},
			"enter a>join; arrive 1>a; enter b>wait; enter c>wait; at 9ms; unlock 1>pass to b; at 12ms; unlock 1'>exchange"},
		{"without a window", Place[string]{Room: 1},
			"enter a>join; arrive 1>a; enter b>wait; unlock 1>exchange; arrive 2>b; unlock 2>leave"},
		{"behind a long hold the first waiter joins while the entry is held", Place[string]{Room: 1, Window: window},
			"enter a>join; arrive 1>a; timer>no join; enter b>wait; enter c>wait; at 400ms; timer>in 600ms; at 1s; timer>join; timer>no join; unlock 1>leave; arrive 2>b; unlock 2>pass to c"},
		{"each hold has a second", Place[string]{Room: 1, Window: window},
			"enter a>join; arrive 1>a; enter b>wait; enter c>wait; at 9ms; unlock 1>pass to b; at 1s; timer>in 9ms"},
		{"permits: so has the last of several holds", Place[string]{Room: 2},
			"enter a>join; arrive 1>a; at 1s; enter b>join; arrive 2>b; enter c>wait; timer>in 1s; at 2s; timer>join; cancel c>unwanted>true; unlock 1>leave"},
		{"permits: a join is given up if a pass leaves no waiter", Place[string]{Room: 2, Window: window},
			"enter a>join; arrive 1>a; enter b>join; unlock 1>unwanted>pass to b; enter c>join"},
		{"an entry that may not be handed on", Place[string]{Room: 1, Window: window},
			"enter a>join; arrive 1>a; enter b>wait; unlock! 1>leave>join; arrive 2>b; unlock! 2>leave"},
		{"an entry that is lost", Place[string]{Room: 1, Window: window},
			"enter a>join; arrive 1>a; enter b>wait; lost 1>true>join; lost 1>false; unlock 1>leave; arrive 2>b"},
		{"readers share an entry inside its window", Place[string]{Room: 1, Shared: true, Window: window},
			"enter a>join; arrive 1>a; at 9ms; enter b>share1; at 10ms; enter c>join; enter d>wait; arrive 2full>c>join; arrive 3>d; enter e>share3"},
		{"not one that has ended, or is full", Place[string]{Room: 1, Shared: true, Window: window},
			"enter a>join; arrive 1full>a; enter b>join; unlock 1full>leave; arrive 2>b; enter c>share2"},
		{"nor does a reader come past one that waits", Place[string]{Room: 1, Shared: true, Window: window},
			"enter a>join; arrive 1>a; at 10ms; enter b>join; at 9ms; enter c>wait"},
		{"permits: as many joins as there is room for", Place[string]{Room: 3, Free: 2},
			"enter a>join; enter b>join; enter c>wait; arrive 1>a>join; enter d>wait; arrive 2>b; unlock 1>leave>join; arrive 3>c; arrive 4>d"},
		{"permits: more room", Place[string]{Room: 3},
			"enter a>join; enter b>wait; enter c>wait; room 5 3; arrive 1>a>join>join; arrive 2>b; arrive 3>c; unlock 3>leave"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &history{Place: tt.place, waiters: map[string]*Waiter[string]{}}
			for step := range strings.SplitSeq(tt.ops, "; ") {
				op, want, _ := strings.Cut(step, ">")
				h.said = nil
				if h.do(t, op); strings.Join(h.said, ">") != want {
					t.Fatalf("%q: got %q, want %q", op, strings.Join(h.said, ">"), want)
				}
			}
		})
	}
}
