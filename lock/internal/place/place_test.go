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

var steps = map[Step]string{Wait: "wait", Take: "take", Share: "share", StartJoin: "join", Pass: "pass", Exchange: "exchange", Cache: "keep", Leave: "leave"}

func (h *history) say(format string, args ...any) {
	h.said = append(h.said, fmt.Sprintf(format, args...))
}

// do runs one operation: a word and its argument.
func (h *history) do(t *testing.T, op string) {
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
		switch step {
		case StartJoin:
			join()
		case Take:
			h.Hold(e, Use{}, h.now)
		}
		h.say("%s%s", steps[step], e)
	case "cancel":
		h.say("%v", h.Cancel(h.waiters[arg]))
	case "arrive": // the first join ends with the entry, or without one
		h.End(h.joining[0])
		h.joining = h.joining[1:]
		w := h.Next()
		switch {
		case w == nil:
			h.say("nobody")
		case arg != "":
			h.Hold(arg, Use{}, h.now)
			h.say("%v", w.For)
		default:
			h.Return(w)
			h.say("none")
		}
		joins()
	case "unlock", "unlock!": // with !, no other goroutine may get the entry
		step := h.Release(arg, h.now, what == "unlock")
		switch step {
		case Pass:
			next := arg + "'"
			use := h.Use(arg)
			h.Drop(arg)
			h.Hold(next, use, h.now)
			h.say("pass to %v", h.Next().For)
			return
		case Exchange:
			join()
		case Cache:
			h.Store(arg+"'", arg)
		}
		h.say("%s", steps[step])
		joins()
	case "lost":
		h.say("%v", h.Drop(arg))
		joins()
	case "others", "watch": // a list shows that many entries; a watch will show later ones
		n := 0
		fmt.Sscan(arg, &n)
		switch {
		case h.CountDue() && n > h.Entries() && h.NoteContended():
			join()
			h.say("join")
		case h.CountDue():
			h.NoteAlone(h.now, what == "watch")
			fallthrough
		default:
			h.say("no join")
		}
	case "fired": // the watch fires
		h.NoteUnwatched(h.now)
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
	_, cached := h.Cached()
	switch {
	case h.Empty() != (!held && !cached && h.Waiting() == 0 && len(h.joining) == 0):
		t.Errorf("%s: empty: %v", op, h.Empty())
	case cached && h.Waiting() > 0:
		t.Errorf("%s: an entry is kept while goroutines wait", op)
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
		{"a list that shows no others begins the window anew", Place[string]{Room: 1, Window: window},
			"enter a>join; arrive 1>a; enter b>wait; at 8ms; others 1>no join; at 17ms; unlock 1>pass to b"},
		{"a watch that shows no others holds the window open until it fires", Place[string]{Room: 1, Window: window},
			"enter a>join; arrive 1>a; enter b>wait; enter c>wait; enter d>wait; at 8ms; watch 1>no join; at 1m; unlock 1>pass to b; at 2m; unlock 1'>pass to c; fired; at 2m1s; unlock 1''>exchange"},
		{"when it has fired, a window begins", Place[string]{Room: 1, Window: window},
			"enter a>join; arrive 1>a; enter b>wait; enter c>wait; watch 1>no join; at 1m; fired; at 1m0.009s; unlock 1>pass to b; at 1m0.01s; unlock 1'>exchange"},
		{"without a window a watch holds none open", Place[string]{Room: 1},
			"enter a>join; arrive 1>a; enter b>wait; watch 1>no join; unlock 1>exchange"},
		{"others are there: the first waiter joins while the entry is held", Place[string]{Room: 1, Window: window},
			"enter a>join; arrive 1>a; enter b>wait; enter c>wait; at 5ms; others 2>join; at 20ms; unlock 1>leave; arrive 2>b; unlock 2>pass to c"},
		{"that join is given up if a pass leaves no waiter", Place[string]{Room: 1, Window: window},
			"enter a>join; arrive 1>a; enter b>wait; at 5ms; others 2>join; unlock 1>unwanted>pass to b; enter c>wait; unlock 1'>pass to c"},
		{"no list without waiters", Place[string]{Room: 1, Window: window},
			"enter a>join; arrive 1>a; others 2>no join; unlock 1>leave"},
		{"an entry that may not be handed on", Place[string]{Room: 1, Window: window, Idle: time.Second},
			"enter a>join; arrive 1>a; enter b>wait; unlock! 1>leave>join; arrive 2>b; unlock! 2>leave"},
		{"an entry that is lost", Place[string]{Room: 1, Window: window},
			"enter a>join; arrive 1>a; enter b>wait; lost 1>true>join; lost 1>false; unlock 1>leave; arrive 2>b"},
		{"an unused entry is kept", Place[string]{Room: 1, Idle: time.Second},
			"enter a>join; arrive 1>a; unlock 1>keep; enter b>take1'; enter c>wait; unlock 1'>exchange; arrive 2>c; unlock 2>keep; lost 2'>true"},
		{"not where others were seen", Place[string]{Room: 1, Idle: time.Second, Window: window},
			"enter a>join; arrive 1>a; enter b>wait; at 1ms; others 2>join; cancel b>unwanted>true; unlock 1>leave"},
		{"permits: of several unused entries one is kept", Place[string]{Room: 2, Idle: time.Second},
			"enter a>join; arrive 1>a; enter b>join; arrive 2>b; unlock 1>keep; unlock 2>leave; enter c>take1'"},
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

func TestPlaceCountsItsEntries(t *testing.T) {
	p := &Place[string]{Room: 1, Idle: time.Second}
	p.Begin(&Join{})
	p.Hold("1", Use{}, 0)
	if e, held := p.Holder(); p.Entries() != 2 || e != "1" || held != 1 {
		t.Errorf("%d entries, %d of them held", p.Entries(), held)
	}
	p.Store("2", "1")
	_, held := p.Holder()
	if e, cached := p.Cached(); p.Entries() != 2 || held != 0 || e != "2" || !cached {
		t.Errorf("%d entries, %d of them held; %q is cached: %v", p.Entries(), held, e, cached)
	}
}
