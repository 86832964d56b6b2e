package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// hold is what a history tells of one hold.
type hold struct {
	lock   string
	token  int64
	worker string
	grants []*record // more than one: a token was given twice
	leave  *record   // nil: it never got to unlock
	left   *record   // nil: nor did it learn of the end of it
	claims []*claim
}

// first is the earliest time at which the hold surely was valid; never if it was
// not, after it had been granted.
func (h *hold) first() instant {
	first := never
	for _, c := range h.claims {
		if c.To < c.Until {
			first = min(first, c.To)
		}
	}
	return first
}

// end is until when the hold was valid in its own view: as it foretold when it was
// last asked, or until it was about to be unlocked. That its process was killed or
// stopped meanwhile changes nothing: a lease does not end by that.
func (h *hold) end() instant {
	var end instant
	for _, c := range h.claims {
		end = max(end, c.Until)
	}
	if h.leave != nil {
		end = min(end, h.leave.Call)
	}
	return end
}

// holds collects the holds of a history, by lock, in the order of their tokens.
func holds(records []*record) map[string][]*hold {
	type key struct {
		lock  string
		token int64
	}
	byKey := map[key]*hold{}
	byLock := map[string][]*hold{}
	for _, r := range records {
		if r.Token == 0 {
			continue
		}
		k := key{r.Lock, r.Token}
		h := byKey[k]
		if h == nil {
			h = &hold{lock: r.Lock, token: r.Token, worker: r.Worker}
			byKey[k] = h
			byLock[r.Lock] = append(byLock[r.Lock], h)
		}
		switch r.Op {
		case opGrant:
			h.grants = append(h.grants, r)
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

// doubleEntries finds holds that were valid, each in its own view, at the same true
// time, or in another order than that of their tokens.
func doubleEntries(byLock map[string][]*hold) (found []string) {
	for _, hs := range byLock {
		var before *hold // whose end is the latest of all with lower tokens
		for _, h := range hs {
			if len(h.grants) > 1 {
				found = append(found, fmt.Sprintf("lock %s: token %d was given %d times", h.lock, h.token, len(h.grants)))
			}
			if before != nil && before.end() > h.first() {
				found = append(found, fmt.Sprintf("lock %s: %s was in with token %d at %d, %v before the hold of %s with token %d ended in its own view",
					h.lock, h.worker, h.token, h.first(), time.Duration(before.end()-h.first()), before.worker, before.token))
			}
			if before == nil || h.end() > before.end() {
				before = h
			}
		}
	}
	slices.Sort(found)
	return found
}
