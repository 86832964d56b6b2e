package main

import (
	"time"

	"github.com/anishathalye/porcupine"
)

// lockInput is an operation on a lock: opGrant, "check" or "end" of a token's hold.
type lockInput struct {
	op    string
	token int64
}

const (
	opCheck = "check"
	opEnd   = "end"
)

// lockState is a lock as it should be.
type lockState struct {
	holder  int64 // token of the hold; 0: free
	highest int64 // token ever granted
}

// lockModel is a lock with fencing tokens. It is granted when it is free, with a
// higher token than ever before; a check that finds the hold valid comes before its
// end.
var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, in := state.(lockState), input.(lockInput)
		switch in.op {
		case opGrant:
			return s.holder == 0 && in.token > s.highest, lockState{in.token, in.token}
		case opEnd:
			return s.holder == in.token, lockState{0, s.highest}
		}
		return s.holder == in.token, s
	},
}

// lockHistory makes the operations on one lock from its holds.
//
// A hold ends no earlier than in its own view. When it ended after that is known
// only of one that was unlocked with success. Of a worker that was killed while it
// waited nothing is in the history: an entry that was granted to nobody may as well
// not have been.
func lockHistory(hs []*hold) (ops []porcupine.Operation) {
	for _, h := range hs {
		add := func(op string, call, ret instant) {
			ops = append(ops, porcupine.Operation{Input: lockInput{op, h.token}, Call: int64(call), Return: int64(ret)})
		}
		if len(h.grants) == 0 {
			continue // it acted on a token that it never told of; the register's history shows it
		}
		for _, g := range h.grants {
			add(opGrant, g.Call, g.Return)
		}
		for _, c := range h.claims {
			add(opCheck, c.From, c.To)
		}
		ended := never
		if h.left != nil && h.left.Result == "" {
			ended = h.left.Return
		}
		add(opEnd, max(h.end(), h.grants[0].Call), ended)
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
	unsure  bool // nobody knows
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
