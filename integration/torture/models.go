package main

import (
	"maps"
	"time"

	"github.com/anishathalye/porcupine"
)

// lockInput is an operation on a lock: opGrant, opCheck, opShare or opEnd of a token's hold,
// with the weight that it has in the room, or has left.
type lockInput struct {
	op           string
	token        int64
	weight, room int
}

const (
	opCheck = "check"
	opEnd   = "end"
)

// lockState is a lock as it should be.
type lockState struct {
	inside  map[int64]int // weights, by token; never changed
	highest int64         // token ever granted
}

// lockModel is a lock of any kind, with fencing tokens: a room for so much weight. A hold
// is granted when there is room for it, with a higher token than ever before; a check that
// finds it valid comes before its end. One that is alone may become one of several.
//
// Tokens rise also where several are in: all holds ahead of one that may enter may enter,
// and did so no later, whenever they noticed.
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

// lockHistory makes the operations on one lock from its holds.
//
// A hold ends no earlier than in its own view. When it ended after that is known
// only of one that was unlocked with success. Of a worker that was killed while it
// waited nothing is in the history: a grant that no worker learnt of may as well not
// have been.
func lockHistory(hs []*hold) (ops []porcupine.Operation) {
	for _, h := range hs {
		add := func(op string, weight int, call, ret instant) {
			ops = append(ops, porcupine.Operation{Input: lockInput{op, h.token, weight, rooms[h.kind]}, Call: int64(call), Return: int64(ret)})
		}
		if len(h.grants) == 0 {
			continue // it acted on a token that it never told of; the register's history shows it
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

// registerInput is an operation on a register: opRead or opWrite.
type registerInput struct {
	op    string
	token int64
	value string
}

// registerOutput is what came of it.
type registerOutput struct {
	unsure  bool // it is unknown
	refused bool
	token   int64
	value   string
}

// registerState is a register as it should be.
type registerState struct {
	token int64
	value string
}

// registerModel is a register that refuses what comes with a lower token than the
// last write. An operation of unknown outcome is one of either.
var registerModel = porcupine.Model{
	Init: func() any { return registerState{} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(registerState), input.(registerInput), output.(registerOutput)
		if in.op == opRead {
			return out.unsure || s == registerState{out.token, out.value}, s
		}
		refused := in.token < s.token
		if refused {
			return out.unsure || out.refused, s
		}
		return out.unsure || !out.refused, registerState{in.token, in.value}
	},
}

// registerHistory makes the operations on each lock's register.
func registerHistory(records []*record) map[string][]porcupine.Operation {
	byLock := map[string][]porcupine.Operation{}
	for _, r := range records {
		if r.Op != opRead && r.Op != opWrite {
			continue
		}
		in, out := registerInput{op: r.Op}, registerOutput{unsure: r.Unsure, refused: r.Refuse}
		if r.Op == opWrite {
			in.token, in.value = r.Token, r.Value
		} else {
			out.token, out.value = r.Writer, r.Value
		}
		byLock[r.Lock] = append(byLock[r.Lock], porcupine.Operation{
			Input: in, Output: out, Call: int64(r.Call), Return: int64(r.Return),
		})
	}
	return byLock
}

// verdict is what porcupine says of the histories of one model.
type verdict struct {
	histories, operations int
	illegal, undecided    []string // locks
}

func (v *verdict) ok() bool { return len(v.illegal)+len(v.undecided) == 0 }

// check checks the history of each lock, all of them by the deadline.
func check(model porcupine.Model, byLock map[string][]porcupine.Operation, deadline time.Time) (v verdict) {
	for lock, ops := range byLock {
		v.histories++
		v.operations += len(ops)
		switch porcupine.CheckOperationsTimeout(model, ops, max(time.Until(deadline), time.Millisecond)) {
		case porcupine.Illegal:
			v.illegal = append(v.illegal, lock)
		case porcupine.Unknown:
			v.undecided = append(v.undecided, lock)
		}
	}
	return v
}
