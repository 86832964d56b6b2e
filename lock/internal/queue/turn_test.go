package queue

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-io/holdfast/lock/znode"
)

func TestDecide(t *testing.T) {
	ahead := func(p position) position {
		p.predecessor = "x"
		return p
	}
	for _, tt := range []struct {
		p      position
		next   step // with a fresh lease
		stale  step // without
		reason string
	}{
		{position{admitted: true}, enter, renew, "nobody is ahead"},
		{position{}, list, list, "who is ahead is unknown"},
		{position{predecessorGone: true, seen: true, predecessorHolds: true}, list, list, "who is ahead is unknown"},
		{position{shares: true}, list, list, "who is ahead is unknown"},
		{ahead(position{}), follow, follow, "somebody is ahead"},
		{ahead(position{seen: true, predecessorHolds: true, released: true}), follow, follow, "somebody is ahead"},
		{ahead(position{seen: true, shares: true}), enter, renew, "the writer ahead only reads"},
		{ahead(position{predecessorGone: true, predecessorHolds: true, released: true}), list, list, "who was foretold is not there"},
		{ahead(position{predecessorGone: true, seen: true, predecessorHolds: true}), enter, renew, "the holder has gone"},
		{ahead(position{predecessorGone: true, seen: true, released: true}), enter, renew, "a release is known"},
		{ahead(position{predecessorGone: true, seen: true}), list, list, "one who may have waited has gone"},
		{ahead(position{seen: true, predecessorHolds: true, between: []string{"y"}}), follow, follow, "somebody is ahead"},
		{ahead(position{predecessorGone: true, seen: true, between: []string{"y"}}), list, list, "one who may have waited has gone"},
		{ahead(position{predecessorGone: true, seen: true, predecessorHolds: true, between: []string{"y"}}), sift, sift, "readers may be in"},
		{ahead(position{predecessorGone: true, seen: true, released: true, between: []string{"y"}}), sift, sift, "readers may be in"},
		{position{admitted: true, between: []string{"y"}}, enter, renew, "nobody is ahead"},
	} {
		for fresh, want := range map[bool]step{true: tt.next, false: tt.stale} {
			if got, reason := decide(tt.p, fresh); got != want || reason != tt.reason {
				t.Errorf("%+v, fresh %v: %d because %s, want %d because %s", tt.p, fresh, got, reason, want, tt.reason)
			}
		}
	}
}

// TestNobodyEntersUnproven looks at all that can be known.
func TestNobodyEntersUnproven(t *testing.T) {
	for bits := range 1 << 8 {
		is := func(n int) bool { return bits&(1<<n) != 0 }
		p := position{admitted: is(0), seen: is(1), predecessorHolds: is(2), predecessorGone: is(3), released: is(4), shares: is(6)}
		if is(5) {
			p.predecessor = "x"
		}
		if is(7) {
			p.between = []string{"y"}
		}
		proven := p.admitted || p.predecessor != "" && (p.shares || p.predecessorGone && p.seen && (p.predecessorHolds || p.released) && !is(7))
		for _, fresh := range []bool{false, true} {
			switch got, _ := decide(p, fresh); {
			case got == enter && !(proven && fresh), got == renew && (!proven || fresh), proven && got != enter && got != renew:
				t.Errorf("%+v, fresh %v: %d", p, fresh, got)
			case got == follow && (p.predecessor == "" || p.predecessorGone):
				t.Errorf("%+v: follows nobody", p)
			}
		}
	}
}

// TestPositionOf: who is admitted waits for nobody, and who waits follows one that was
// listed; which holds the lock alone if it is the first, and its kind and role are such.
func TestPositionOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := drawQueue(t, rapid.IntRange(0, 2), 8)
		self := rapid.IntRange(0, len(names)-1).Draw(t, "self")
		rules := znode.Parent{Kind: rapid.SampledFrom([]znode.Kind{znode.Mutex, znode.RW}).Draw(t, "kind")}
		p := positionOf(names, self, rules)
		ahead := znode.Admit(names, self, rules)
		if ahead < 0 {
			if !reflect.DeepEqual(p, position{admitted: true}) {
				t.Fatalf("%v: %+v, and nobody is ahead of %d", names, p, self)
			}
			return
		}
		holds := ahead == 0 && (rules.Kind == znode.Mutex || names[0].Role != znode.Shared && names[0].Ours())
		if !reflect.DeepEqual(p, position{predecessor: names[ahead].Node, seen: true, predecessorHolds: holds}) {
			t.Fatalf("%v: %+v, and %d waits for %d", names, p, self, ahead)
		}
		if next, _ := decide(p, true); next != follow {
			t.Fatalf("%+v: %d, want it to follow", p, next)
		}
	})
}

// TestPastReaders: whom a writer behind readers waits for, and of whom it is sure that they
// are all that can be ahead when that one has gone.
func TestPastReaders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := drawQueue(t, rapid.SampledFrom([]int{int(znode.Shared), int(znode.Shared), int(znode.Shared), int(znode.Writer)}), 24)
		self := rapid.IntRange(0, len(names)-1).Draw(t, "self")
		rules := znode.Parent{Kind: rapid.SampledFrom([]znode.Kind{znode.Mutex, znode.RW, znode.RW}).Draw(t, "kind")}
		before := positionOf(names, self, rules)
		p := pastReaders(before, names, self, rules)
		if before.admitted || len(p.between) == 0 && p.predecessor == before.predecessor && p.predecessorHolds == before.predecessorHolds {
			if !reflect.DeepEqual(p, before) {
				t.Fatalf("%+v, and by the list %+v", p, before)
			}
			return
		}
		at := slices.IndexFunc(names, func(n znode.Name) bool { return n.Node == p.predecessor })
		rest := names[at+1 : self]
		if names[at].Role == znode.Shared { // between come before it
			rest = names[:at]
		}
		for i, n := range rest {
			if n.Role != znode.Shared || !n.Ours() || n.Node != p.between[i] {
				t.Fatalf("%v: %+v, and %d is between it and %d", names, p, i, self)
			}
		}
		switch reads := names[at].Role == znode.Shared; {
		case rules.Kind != znode.RW, names[self].Role == znode.Shared, !names[at].Ours(), len(rest) != len(p.between), !p.seen:
			t.Fatalf("%v: %+v for %d", names, p, self)
		case reads && at != self-1, p.predecessorHolds != (reads || at == 0):
			t.Fatalf("%v: %+v for %d: others are ahead", names, p, self)
		}
	})
}

func drawQueue(t *rapid.T, roles *rapid.Generator[int], most int) (names []znode.Name) {
	for i, r := range rapid.SliceOfN(roles, 1, most).Draw(t, "roles") {
		n, _ := znode.Parse(znode.Predict(znode.Prefix(znode.NewID(), znode.Role(r)), int32(i)))
		if rapid.IntRange(0, 3).Draw(t, "foreign") == 0 {
			n.ID = ""
		}
		names = append(names, n)
	}
	return names
}
