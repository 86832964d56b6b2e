package judge

import (
	"maps"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-io/holdfast/integration/crew"
)

// opEnd is the end of a hold, which has no record.
const opEnd = "end"

// lockInput is an operation of a hold: a grant, share or end. weight is the part of the lock's room that
// the hold takes, or keeps after a share.
type lockInput struct {
	op, token    string
	weight, room int
}

// lockState is the expected state of a lock.
type lockState struct {
	inside  map[string]int // weights by token; the map is never changed
	highest string         // highest granted token
}

// lockModel is the model of a lock of any kind with fencing tokens: a room for a total weight. A
// hold is granted if there is room, with a higher token than all grants before. OpShare makes a writer a
// reader.
//
// Tokens also rise among concurrent holds: if a hold may enter, all holds ahead of it may enter no
// later, whenever their workers noticed.
var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, in := state.(lockState), input.(lockInput)
		next := lockState{map[string]int{}, s.highest}
		sum := 0
		for token, weight := range s.inside {
			next.inside[token] = weight
			sum += weight
		}
		switch in.op {
		case crew.OpGrant:
			next.inside[in.token], next.highest = in.weight, in.token
			return sum+in.weight <= in.room && in.token > s.highest, next
		case OpShare:
			next.inside[in.token] = in.weight
		case opEnd:
			delete(next.inside, in.token)
		}
		return s.inside[in.token] > 0, next // an end before the grant explains nothing: it is not tried
	},
	Equal: func(a, b any) bool {
		s, o := a.(lockState), b.(lockState)
		return s.highest == o.highest && maps.Equal(s.inside, o.inside)
	},
}

// operations converts the holds of one lock. A hold is shared or ends as soon as it can be, because a later
// end explains no more: when it is not claimed any more, or when it is granted, if that is later. A hold
// whose grant no worker recorded is left out.
func operations(hs []*Hold) (ops []porcupine.Operation) {
	for _, h := range hs {
		if h.grant == nil {
			continue
		}
		add := func(op string, weight int, call, ret instant) {
			ops = append(ops, porcupine.Operation{Input: lockInput{op, h.Token, weight, h.room}, Call: int64(call), Return: int64(max(ret, h.grant.Return))})
		}
		add(crew.OpGrant, h.weight, h.grant.Call, h.grant.Return)
		if h.share != nil {
			add(OpShare, 1, h.until(h.share), h.until(h.share))
		}
		add(opEnd, 0, h.End(), h.End())
	}
	return ops
}

// Linearizable reports whether some order of the operations on a lock explains their results. The
// result is porcupine.Unknown if this is not decided by the deadline.
func Linearizable(hs []*Hold, deadline time.Time) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(lockModel, operations(hs), max(time.Until(deadline), time.Millisecond))
}
