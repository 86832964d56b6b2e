package queue

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// shared is a kind of which several may hold a lock.
const shared = znode.Kind("shared")

func TestDecide(t *testing.T) {
	ahead := func(p position) position {
		p.predecessor = "x"
		return p
	}
	for _, tt := range []struct {
		p      position
		kind   znode.Kind
		next   step // with a fresh lease
		stale  step // without
		reason string
	}{
		{position{admitted: true}, znode.Mutex, enter, renew, "nobody is ahead"},
		{position{admitted: true}, shared, enter, renew, "nobody is ahead"},
		{position{}, znode.Mutex, list, list, "who is ahead is unknown"},
		{position{predecessorGone: true, seen: true, predecessorHolds: true}, znode.Mutex, list, list, "who is ahead is unknown"},
		{ahead(position{}), znode.Mutex, follow, follow, "somebody is ahead"},
		{ahead(position{seen: true, predecessorHolds: true, released: true}), znode.Mutex, follow, follow, "somebody is ahead"},
		{ahead(position{predecessorGone: true, predecessorHolds: true, released: true}), znode.Mutex, list, list, "who was foretold is not there"},
		{ahead(position{predecessorGone: true, seen: true, predecessorHolds: true, released: true}), shared, list, list, "others may hold the lock too"},
		{ahead(position{predecessorGone: true, seen: true, predecessorHolds: true}), znode.Mutex, enter, renew, "the holder has gone"},
		{ahead(position{predecessorGone: true, seen: true, released: true}), znode.Mutex, enter, renew, "the holder has told its release"},
		{ahead(position{predecessorGone: true, seen: true}), znode.Mutex, list, list, "one who may have waited has gone"},
	} {
		for fresh, want := range map[bool]step{true: tt.next, false: tt.stale} {
			if got, reason := decide(tt.p, tt.kind, fresh); got != want || reason != tt.reason {
				t.Errorf("%+v of a %s, fresh %v: %d because %s, want %d because %s", tt.p, tt.kind, fresh, got, reason, want, tt.reason)
			}
		}
	}
}

// TestNobodyEntersUnproven looks at all that can be known.
func TestNobodyEntersUnproven(t *testing.T) {
	for bits := range 1 << 7 {
		is := func(n int) bool { return bits&(1<<n) != 0 }
		p := position{admitted: is(0), seen: is(1), predecessorHolds: is(2), predecessorGone: is(3), released: is(4)}
		if is(5) {
			p.predecessor = "x"
		}
		for _, kind := range []znode.Kind{znode.Mutex, shared} {
			proven := p.admitted || kind.FirstOnly() && p.predecessor != "" && p.predecessorGone && p.seen && (p.predecessorHolds || p.released)
			fresh := is(6)
			switch got, _ := decide(p, kind, fresh); {
			case got == enter && !(proven && fresh), got == renew && (!proven || fresh), proven && got != enter && got != renew:
				t.Errorf("%+v of a %s, fresh %v: %d", p, kind, fresh, got)
			case got == follow && (p.predecessor == "" || p.predecessorGone):
				t.Errorf("%+v: follows nobody", p)
			}
		}
	}
}

// TestPositionOf: who is admitted waits for nobody, and who waits follows one that was
// listed; which holds the lock if it is the first.
func TestPositionOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roles := rapid.SliceOfN(rapid.IntRange(0, 2), 1, 8).Draw(t, "roles")
		var names []znode.Name
		for i, r := range roles {
			names = append(names, znode.Name{Node: znode.Predict(znode.Prefix(znode.NewID(), znode.Role(r)), int32(i)), Role: znode.Role(r), Seq: int32(i)})
		}
		self := rapid.IntRange(0, len(names)-1).Draw(t, "self")
		p := positionOf(names, self, znode.Parent{Kind: znode.Mutex})
		ahead := znode.Admit(names, self, znode.Parent{Kind: znode.Mutex})
		if ahead < 0 {
			if p != (position{admitted: true}) {
				t.Fatalf("%v: %+v, and nobody is ahead of %d", names, p, self)
			}
			return
		}
		if p != (position{predecessor: names[ahead].Node, seen: true, predecessorHolds: ahead == 0}) {
			t.Fatalf("%v: %+v, and %d waits for %d", names, p, self, ahead)
		}
		if next, _ := decide(p, znode.Mutex, true); next != follow {
			t.Fatalf("%+v: %d, want it to follow", p, next)
		}
	})
}
