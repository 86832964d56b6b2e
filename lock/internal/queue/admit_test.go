// Positions by a list and by the reply to a join, and the rule of admission.

package queue

import (
	"math"
	"testing"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestDecide: of all combinations of a contender's knowledge, only these admit it: no contender is
// ahead; the writer ahead only reads; or the predecessor was seen, held the lock, and has left. The
// contender's own entry must be fresh too.
func TestDecide(t *testing.T) {
	flags := []bool{false, true}
	for _, admitted := range flags {
		for _, known := range flags {
			for _, seen := range flags {
				for _, holds := range flags {
					for _, gone := range flags {
						for _, shares := range flags {
							for _, fresh := range flags {
								p := position{admitted: admitted, seen: seen, predecessorHolds: holds, predecessorGone: gone, shares: shares}
								if known {
									p.predecessor = "n"
								}
								want := list
								switch in := admitted || known && (shares || seen && holds && gone); {
								case in && fresh:
									want = enter
								case in:
									want = renew
								case known && !gone:
									want = follow
								}
								if got, why := admit(p, fresh); got != want || (why == "") {
									t.Errorf("%+v, fresh %v: %d (%s), want %d", p, fresh, got, why, want)
								}
							}
						}
					}
				}
			}
		}
	}
}

// TestPositionOf: by a list, each contender is admitted or waits for the entry of the table.
func TestPositionOf(t *testing.T) {
	const g = "0123456789abcdef-"
	for _, tt := range []struct {
		kind     znode.Kind
		capacity int32
		names    []string
		want     []string // of each: "in", or the entry ahead, with a ! if that holds alone
	}{
		{znode.Mutex, 0, []string{g + "lock-0000000001", g + "lock-0000000002", g + "lock-0000000003"},
			[]string{"in", g + "lock-0000000001!", g + "lock-0000000002"}},
		{znode.Mutex, 0, []string{"_c_x-lock-0000000000", g + "lock-0000000001"}, []string{"in", "_c_x-lock-0000000000!"}}, // another library's
		{znode.Mutex, 0, []string{g + "lock-2147483646", g + "lock-2147483647"}, []string{"in", g + "lock-2147483646!"}},
		{znode.RW, 0, []string{g + "__READ__0000000001", g + "__READ__0000000002", g + "__WRIT__0000000003", g + "__READ__0000000004", g + "__WRIT__0000000005"},
			[]string{"in", "in", g + "__READ__0000000002", g + "__WRIT__0000000003", g + "__READ__0000000004"}},
		{znode.RW, 0, []string{g + "__WRIT__0000000001", g + "__READ__0000000002", g + "__READ__0000000003"},
			[]string{"in", g + "__WRIT__0000000001!", g + "__WRIT__0000000001!"}},
		{znode.RW, 0, []string{"_c_x__WRIT__0000000001", g + "__WRIT__0000000002"}, []string{"in", "_c_x__WRIT__0000000001"}},
		{znode.Semaphore, 3, []string{g + "1-lock-0000000001", g + "2-lock-0000000002", g + "1-lock-0000000003"}, []string{"in", "in", g + "2-lock-0000000002"}},
		{znode.Semaphore, 2, []string{g + "1-lock-0000000001", g + "2-lock-0000000002", g + "1-lock-0000000003"}, []string{"in", g + "1-lock-0000000001", g + "2-lock-0000000002"}},
	} {
		names := znode.Contenders(tt.names)
		for i := range names {
			p := positionOf(names, i, znode.Rules{Kind: tt.kind, Capacity: tt.capacity})
			got := p.predecessor
			switch {
			case p.admitted:
				got = "in"
			case p.predecessorHolds:
				got += "!"
			}
			if got != tt.want[i] || p.predecessorGone || p.shares || !p.admitted && !p.seen {
				t.Errorf("%s: %s waits for %q (%+v), want %q", tt.kind, names[i].Node, got, p, tt.want[i])
			}
		}
	}
}

// TestPlaceByTheReply: the reply to a join gives the position of the table, without a list.
func TestPlaceByTheReply(t *testing.T) {
	const g = "0123456789abcdef-"
	for _, tt := range []struct {
		kind       znode.Kind
		priority   int32
		permits    int32 // requested permits, of 4
		seq        int32
		contenders int32
		want       position
	}{
		{znode.Mutex, 0, 0, 7, 1, position{admitted: true}},
		{znode.Mutex, 0, 0, 7, 2, position{predecessor: g + "lock-0000000006", predecessorHolds: true}},
		{znode.Mutex, 0, 0, 7, 3, position{predecessor: g + "lock-0000000006"}},
		{znode.Mutex, 0, 0, 0, 2, position{}},
		{znode.Mutex, 0, 0, math.MaxInt32 - 1, 1, position{admitted: true}},
		{znode.Mutex, 0, 0, math.MaxInt32, 1, position{}}, // the last number never admits
		{znode.Mutex, 0, 0, math.MaxInt32, 2, position{}},
		{znode.Mutex, 0, 0, math.MinInt32, 1, position{}},
		{znode.Mutex, 0, 0, -1, 1, position{}},
		{znode.Mutex, 3, 0, 7, 2, position{}}, // candidates list
		{znode.RW, 0, 0, 7, 1, position{admitted: true}},
		{znode.RW, 0, 0, 7, 2, position{}},
		{znode.Semaphore, 0, 4, 7, 1, position{admitted: true}},
		{znode.Semaphore, 0, 5, 7, 1, position{}},
		{znode.Semaphore, 0, 1, 7, 4, position{}}, // there may be room
		{znode.Semaphore, 0, 1, 3, 9, position{}},
		{znode.Semaphore, 0, 1, 7, 5, position{predecessor: g + "lock-0000000006", target: g + "lock-0000000003"}},
	} {
		c := newContender(offline(new(local)), Request{Kind: tt.kind, Priority: tt.priority, Permits: tt.permits})
		d := &draft{by: c, prefix: g + "lock-"}
		d.parent.anchor.Permits = 4
		if got := d.positionAtJoin(znode.Name{Node: "own", Tag: "g", Seq: tt.seq}, tt.contenders); got != tt.want {
			t.Errorf("%+v: %+v", tt, got)
		}
	}
}
