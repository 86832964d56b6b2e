package main

import (
	"maps"
	"time"

	"github.com/anishathalye/porcupine"
)

// lockInput is an operation of a hold: opGrant, opCheck, opShare or opEnd. weight is the part of the
// lock's room that the hold takes, or keeps after opShare.
type lockInput struct {
	op           string
	token        int64
	weight, room int
}

// opEnd is the end of a hold, which has no record.
const opEnd = "end"

// lockState is the expected state of a lock.
type lockState struct {
	inside  map[int64]int // weights, by token; never changed
	highest int64         // token ever granted
}

// lockModel is the model of a lock of any kind with fencing tokens: a room for a total weight. A
// hold is granted if there is room, with a higher token than ever before. A valid check precedes
// the end of its hold. A hold that is alone may become one of several.
//
// Tokens also rise among concurrent holds: if a hold may enter, all holds ahead of it may enter no
// later, whenever they noticed.
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
// A hold ends no earlier than in its own view. A later end is known only for a successful unlock. A
// worker that was killed while it waited is not in the history: a grant that no worker learned of
// is as if it had not happened.
func lockHistory(hs []*hold) (ops []porcupine.Operation) {
	for _, h := range hs {
		add := func(op string, weight int, call, ret instant) {
			ops = append(ops, porcupine.Operation{Input: lockInput{op, h.token, weight, rooms[h.kind]}, Call: int64(call), Return: int64(ret)})
		}
		if len(h.grants) == 0 {
			continue // it never told of its grant
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

// linearizable reports whether some order of the operations on a lock explains their results, if
// that is found by the deadline.
func linearizable(hs []*hold, deadline time.Time) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(lockModel, lockHistory(hs), max(time.Until(deadline), time.Millisecond))
}
