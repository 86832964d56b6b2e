package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// hold has what a history says about one hold.
type hold struct {
	lock   string
	kind   string
	weight int // share of the lock's room that it takes
	token  int64
	worker string
	grants []*record // more than one: two holds had the same token
	share  *record   // nil: it was not downgraded
	leave  *record   // nil: it was never unlocked
	left   *record   // nil: the worker did not learn the unlock's result
	claims []*claim
}

// first returns the earliest time at which the hold was certainly valid; never if it was not valid
// after its grant.
func (h *hold) first() instant {
	first := never
	for _, c := range h.claims {
		if c.To < c.Until {
			first = min(first, c.To)
		}
	}
	return first
}

// end returns the time until which the worker claimed the hold: the latest end of a claim, or the
// call of unlock if that is earlier. A kill or a stop of the process changes nothing, because the
// lease continues.
func (h *hold) end() instant { return h.until(h.leave) }

// until returns the latest end of a claim that began before the call of next, but at most that
// call. If next is nil, it returns the latest end of all claims.
func (h *hold) until(next *record) instant {
	before := never
	if next != nil {
		before = next.Call
	}
	var end instant
	for _, c := range h.claims {
		if c.From < before {
			end = max(end, c.Until)
		}
	}
	return min(end, before)
}

// weightAt returns the room that the hold certainly took at t, a time after its grant; 0 if the
// hold had ended.
func (h *hold) weightAt(t instant) int {
	switch {
	case t >= h.end():
		return 0
	case h.share != nil && t >= h.until(h.share):
		return 1
	}
	return h.weight
}

// holds returns the holds of a history, by lock, in the order of their tokens.
func holds(records []*record) map[string][]*hold {
	type key struct {
		lock  string
		token int64
	}
	byKey := map[key]*hold{}
	byLock := map[string][]*hold{}
	for _, r := range records {
		if r.Token == 0 || r.Op == opShown {
			continue
		}
		k := key{r.Lock, r.Token}
		h := byKey[k]
		if h == nil {
			h = &hold{lock: r.Lock, kind: r.Kind, weight: r.Weight, token: r.Token, worker: r.Worker}
			byKey[k] = h
			byLock[r.Lock] = append(byLock[r.Lock], h)
		}
		switch r.Op {
		case opGrant:
			h.grants = append(h.grants, r)
		case opShare:
			h.share = r
		case opLeave:
			h.leave = r
		case opLeft:
			h.left = r
		}
		if r.Claim != nil {
			h.claims = append(h.claims, r.Claim)
		}
	}
	for _, hs := range byLock {
		slices.SortFunc(hs, func(a, b *hold) int { return cmp.Compare(a.token, b.token) })
	}
	return byLock
}

// doubleEntries finds holds that their workers claimed at the same time, although together they
// exceed the lock's room. It adds each hold's weight to the weights of the holds with lower tokens
// that have not ended. So it also finds holds that entered in another order than that of their
// tokens. It also finds tokens with several grants. beside counts the holds that had room beside a
// hold with a lower token.
func doubleEntries(byLock map[string][]*hold) (found []string, beside int) {
	for _, hs := range byLock {
		for i, h := range hs {
			if len(h.grants) > 1 {
				found = append(found, fmt.Sprintf("lock %s: token %d was given %d times", h.lock, h.token, len(h.grants)))
			}
			at, sum := h.first(), h.weightAt(h.first())
			var last *hold // the hold with a lower token that ended last
			for _, g := range hs[:i] {
				sum += g.weightAt(at)
				if g.weightAt(at) > 0 && (last == nil || g.end() > last.end()) {
					last = g
				}
			}
			switch {
			case last == nil:
			case sum > rooms[h.kind]:
				found = append(found, fmt.Sprintf("lock %s: %s was in with token %d at %d, %v before the hold of %s with token %d ended in its own view: together a weight of %d, with room for %d",
					h.lock, h.worker, h.token, at, time.Duration(last.end()-at), last.worker, last.token, sum, rooms[h.kind]))
			default:
				beside++
			}
		}
	}
	slices.Sort(found)
	return found, beside
}

// wronglyShown finds wrong answers about the leader of an election. It also counts the answers,
// and the answers without a leader. An answer is wrong in each of these cases:
//   - another candidate validly led during the whole question;
//   - a later leader was elected, or shown, before the question;
//   - the value is not that of the candidate with this token.
func wronglyShown(records []*record, byLock map[string][]*hold) (found []string, shown, none int) {
	wrong := func(r *record, format string, args ...any) {
		found = append(found, fmt.Sprintf("election %s: %s was shown token %d from %d to %d, ", r.Lock, r.Worker, r.Token, r.Call, r.Return)+fmt.Sprintf(format, args...))
	}
	answers := slices.DeleteFunc(slices.Clone(records), func(r *record) bool { return r.Op != opShown || r.Result != "" })
	for _, r := range answers {
		if shown++; r.Token == 0 {
			none++
		}
		for _, h := range byLock[r.Lock] {
			switch {
			case h.first() <= r.Call && h.end() >= r.Return && r.Token != h.token:
				wrong(r, "while %s led with token %d", h.worker, h.token)
			case r.Token == h.token && len(h.grants) > 0 && h.grants[0].Value != r.Value:
				wrong(r, "with the value %q, and %s gave %q", r.Value, h.worker, h.grants[0].Value)
			case r.Token != 0 && r.Token < h.token && len(h.grants) > 0 && h.grants[0].Return < r.Call:
				wrong(r, "after %s had been elected with token %d", h.worker, h.token)
			}
		}
		for _, before := range answers {
			if before.Lock == r.Lock && before.Return < r.Call && r.Token != 0 && r.Token < before.Token {
				wrong(r, "after %s had been shown token %d", before.Worker, before.Token)
			}
		}
	}
	return found, shown, none
}

// explained has the results that faults explain, by operation.
var explained = map[string][]string{
	opTry:   {resultHeld, resultGaveUp},
	opShown: {resultGaveUp},
	opLeft:  {resultExpired, resultUnsure, resultLapsed},
	opLost:  {resultExpired, resultUnsure, resultLapsed},
}

// surprises returns texts about the holds whose entries were deleted or overwritten, and about
// other results that faults do not explain. No client may delete or overwrite another client's
// entry while its lease lasts.
func surprises(records []*record) (removed, unexpected []string) {
	for _, r := range records {
		text := fmt.Sprintf("%s, lock %s, token %d, %s: %s", r.Worker, r.Lock, r.Token, r.Op, r.Result)
		switch {
		case r.Result == "" || r.Op == opFault || slices.Contains(explained[r.Op], r.Result):
		case (r.Op == opLeft || r.Op == opLost) && (r.Result == resultRemoved || r.Result == resultTaken):
			removed = append(removed, text)
		default:
			unexpected = append(unexpected, text)
		}
	}
	return removed, unexpected
}

// lockInput is an operation of a hold: opGrant, opCheck, opShare or opEnd. weight is the part of
// the lock's room that the hold takes, or keeps after opShare.
type lockInput struct {
	op           string
	token        int64
	weight, room int
}

// opEnd is the end of a hold, which has no record.
const opEnd = "end"

// lockState is the expected state of a lock.
type lockState struct {
	inside  map[int64]int // weights by token; the map is never changed
	highest int64         // highest granted token
}

// lockModel is the model of a lock of any kind with fencing tokens: a room for a total weight. A
// hold is granted if there is room, with a higher token than all grants before. A valid check
// precedes the end of its hold. opShare makes a writer a reader.
//
// Tokens also rise among concurrent holds: if a hold may enter, all holds ahead of it may enter no
// later, whenever their workers noticed.
var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, in := state.(lockState), input.(lockInput)
		next := lockState{map[int64]int{}, s.highest}
		sum := 0
		for token, weight := range s.inside {
			next.inside[token] = weight
			sum += weight
		}
		switch in.op {
		case opGrant:
			next.inside[in.token], next.highest = in.weight, in.token
			return sum+in.weight <= in.room && in.token > s.highest, next
		case opShare:
			next.inside[in.token] = in.weight
		case opEnd:
			delete(next.inside, in.token)
		}
		return s.inside[in.token] >= in.weight, next
	},
	Equal: func(a, b any) bool {
		s, o := a.(lockState), b.(lockState)
		return s.highest == o.highest && maps.Equal(s.inside, o.inside)
	},
}

// lockHistory converts the holds of one lock to operations.
//
// A hold ends no earlier than the time that end returns. The latest possible end is known only for
// a successful unlock. A hold whose grant no worker recorded is left out.
func lockHistory(hs []*hold) (ops []porcupine.Operation) {
	for _, h := range hs {
		add := func(op string, weight int, call, ret instant) {
			ops = append(ops, porcupine.Operation{Input: lockInput{op, h.token, weight, rooms[h.kind]}, Call: int64(call), Return: int64(ret)})
		}
		if len(h.grants) == 0 {
			continue // no worker recorded the grant
		}
		for _, g := range h.grants {
			add(opGrant, h.weight, g.Call, g.Return)
		}
		if h.share != nil {
			add(opShare, 1, max(h.until(h.share), h.grants[0].Call), never)
		}
		for _, c := range h.claims {
			weight := h.weight
			if h.share != nil && c.From >= h.share.Call {
				weight = 1
			}
			add(opCheck, weight, c.From, c.To)
		}
		ended := never
		if h.left != nil && h.left.Result == "" {
			ended = h.left.Return
		}
		add(opEnd, 1, max(h.end(), h.grants[0].Call), ended)
	}
	return ops
}

// linearizable reports whether some order of the operations on a lock explains their results. The
// result is porcupine.Unknown if this is not decided by the deadline.
func linearizable(hs []*hold, deadline time.Time) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(lockModel, lockHistory(hs), max(time.Until(deadline), time.Millisecond))
}
