// Package judge finds in the histories of package crew what locks broke. It only computes.
package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
)

type instant = monotonic.Instant

// never is a time after every run.
const never instant = math.MaxInt64

// Kinds of locks. The weights of the holds that a lock has at the same time must fit into its room
// ([Rooms]). A reader weighs 1, a writer the whole room, and a hold of permits their number. Other
// kinds of locks are mutexes.
const (
	Mutex     = "mutex"
	RWMutex   = "rwmutex"
	Semaphore = "semaphore"
	Election  = "election"
)

// Rooms has the rooms of the kinds.
var Rooms = map[string]int{Mutex: 1, RWMutex: 1 << 20, Semaphore: 3, Election: 1}

// OpShare is a record of a writer that claims to be a reader only, from Call on.
const OpShare = "share"

// Hold has what a history says about one hold.
type Hold struct {
	Worker, Token string
	Begin         instant      // the hold was certainly valid from here on; never: it was at no time
	grant         *crew.Record // nil: no worker told of it
	share         *crew.Record // nil: it was not downgraded
	leave         *crew.Record // nil: it was never unlocked
	acts          []*crew.Record
	claims        []*monotonic.Claim
	weight, room  int
}

// End returns the time until which the worker claimed the hold: the latest end of a claim, or the
// call of unlock if that is earlier. A kill or a stop of the process changes nothing, because the
// lease continues.
func (h *Hold) End() instant { return h.until(h.leave) }

// until returns the latest end of a claim, but at most the call of next, if that is not nil. Also a
// claim after next counts: the hold that it is of cannot have ended before.
func (h *Hold) until(next *crew.Record) (end instant) {
	for _, c := range h.claims {
		end = max(end, c.Until)
	}
	if next != nil {
		end = min(end, next.Call)
	}
	return end
}

// weightAt returns the room that the hold certainly took at t, a time after its grant; 0 if the
// hold had ended.
func (h *Hold) weightAt(t instant) int {
	switch {
	case t >= h.End():
		return 0
	case h.share != nil && t >= h.share.Call:
		return 1
	}
	return h.weight
}

// Holds returns the holds of a history, by lock, in the order of their first records. If a library's
// claims have no end, a hold lasts from its first claim to its last.
func Holds(records []*crew.Record) map[string][]*Hold {
	byName, byLock := map[string]*Hold{}, map[string][]*Hold{}
	for _, r := range records {
		if r.Hold == "" {
			continue
		}
		h := byName[r.Hold]
		if h == nil {
			room := max(1, Rooms[r.Kind])
			h = &Hold{Worker: r.Worker, Token: r.Token, Begin: never, weight: max(1, r.Weight), room: room}
			byName[r.Hold] = h
			byLock[r.Lock] = append(byLock[r.Lock], h)
		}
		switch r.Op {
		case crew.OpGrant:
			h.grant = r
		case OpShare:
			h.share = r
		case crew.OpLeave:
			h.leave = r
		case crew.OpAct:
			h.acts = append(h.acts, r)
		}
		if c := r.Claim; c != nil {
			h.claims = append(h.claims, c)
			if c.Until == c.From || c.To < c.Until {
				h.Begin = min(h.Begin, c.To)
			}
		}
	}
	return byLock
}

// ByToken sorts holds by their tokens.
func ByToken(hs []*Hold) []*Hold {
	return slices.SortedStableFunc(slices.Values(hs), func(a, b *Hold) int { return cmp.Compare(a.Token, b.Token) })
}

// ByBegin sorts holds by their beginnings.
func ByBegin(hs []*Hold) []*Hold {
	return slices.SortedStableFunc(slices.Values(hs), func(a, b *Hold) int { return cmp.Compare(a.Begin, b.Begin) })
}

// Double is a hold that was valid while holds before it were, although together they exceed the
// lock's room.
type Double struct {
	Before, Hold *Hold // of those before, Before ended last
	Weight       int   // of all
}

func (d Double) String() string {
	return fmt.Sprintf("%s was in with token %s at %d, %v before the hold of %s with token %s ended in its own view: together a weight of %d, with room for %d",
		d.Hold.Worker, d.Hold.Token, d.Hold.Begin, time.Duration(d.Before.End()-d.Hold.Begin), d.Before.Worker, d.Before.Token, d.Weight, d.Hold.room)
}

// Doubles finds holds of a lock that their workers claimed at the same time, although together they
// exceed the lock's room. It adds each hold's weight to the weights of those before it that have not
// ended: so if they are sorted by token, it also finds holds that entered in another order. beside
// counts the holds that had room beside another one.
func Doubles(sorted []*Hold) (found []Double, beside int) {
	for i, h := range sorted {
		sum := h.weightAt(h.Begin)
		if sum == 0 {
			continue // no claim has a duration
		}
		var last *Hold
		for _, g := range sorted[:i] {
			w := g.weightAt(h.Begin)
			sum += w
			if w > 0 && (last == nil || g.End() > last.End()) {
				last = g
			}
		}
		switch {
		case last == nil:
		case sum > h.room:
			found = append(found, Double{last, h, sum})
		default:
			beside++
		}
	}
	return found, beside
}

// Outside finds the acts of a lock's clients after a later client had got the lock, which a lease
// alone cannot prevent.
func Outside(hs []*Hold) (found []string) {
	sorted := ByBegin(hs)
	for i, next := range sorted[min(1, len(sorted)):] {
		for _, a := range sorted[i].acts {
			if a.Call >= next.Begin {
				found = append(found, fmt.Sprintf("%s acted %v after %s had got the lock", sorted[i].Worker, time.Duration(a.Call-next.Begin), next.Worker))
			}
		}
	}
	return found
}

// Tokens finds tokens of a lock that are not unique, or not higher than those of earlier grants: if a
// grant was requested after another one had returned, its token must be higher.
func Tokens(hs []*Hold) (found []string) {
	granted := slices.DeleteFunc(slices.Clone(hs), func(h *Hold) bool { return h.grant == nil })
	sorted := ByToken(granted)
	for i, h := range sorted {
		if i > 0 && sorted[i-1].Token == h.Token {
			found = append(found, fmt.Sprintf("%s and another hold had the same token %s", h.Worker, h.Token))
		}
	}
	for _, h := range granted {
		var highest *Hold // of those granted before h was requested
		for _, g := range granted {
			if g.grant.Return < h.grant.Call && (highest == nil || g.Token > highest.Token) {
				highest = g
			}
		}
		if highest != nil && h.Token < highest.Token {
			found = append(found, fmt.Sprintf("%s had token %s, after %s had %s", h.Worker, h.Token, highest.Worker, highest.Token))
		}
	}
	return found
}

// Gap returns the longest time without a grant, from start to stop.
func Gap(records []*crew.Record, start, stop instant) time.Duration {
	moments := []instant{stop}
	for _, r := range records {
		if r.Op == crew.OpGrant {
			moments = append(moments, min(max(r.Return, start), stop))
		}
	}
	slices.Sort(moments)
	var most instant
	for _, m := range moments {
		most, start = max(most, m-start), m
	}
	return time.Duration(most)
}

// DoubleEntries finds what [Doubles], in the order of the tokens, and [Tokens] find in any lock.
func DoubleEntries(byLock map[string][]*Hold) (found []string, beside int) {
	for name, hs := range byLock {
		double, room := Doubles(ByToken(hs))
		beside += room
		for _, d := range double {
			found = append(found, fmt.Sprintf("lock %s: %v", name, d))
		}
		for _, text := range Tokens(hs) {
			found = append(found, fmt.Sprintf("lock %s: %s", name, text))
		}
	}
	slices.Sort(found)
	return found, beside
}
