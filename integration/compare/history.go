package main

import (
	"github.com/holdfast-io/holdfast/integration/compare/ticks"
	"github.com/holdfast-io/holdfast/integration/monotonic"
)

type (
	instant = monotonic.Instant
	claim   = monotonic.Claim
)

// The workloads.
const (
	lockWorkload    = "lock"
	lockSetWorkload = "lock-set"
	fencedWorkload  = "fenced"
)

var workloads = []string{lockWorkload, lockSetWorkload, fencedWorkload}

// Kinds of records.
const (
	opTry    = "try"    // an attempt that did not get the lock; Result says why
	opGrant  = "grant"  // the client got the lock
	opClaim  = "claim"  // the client asked its library, which says that the lock is held
	opAct    = "act"    // the client did what the lock protects, between Call and Return
	opRefuse = "refuse" // the fenced store refused the act
	opLost   = "lost"   // the library says that the lock is lost; Result says why
	opLeave  = "leave"  // the client is about to unlock, and claims nothing from then on
	opLeft   = "left"   // the client has unlocked; Result says how
)

// record is one step of a client, or a line of a replica.
type record struct {
	Op       string  `json:"op,omitempty"`
	Workload string  `json:"workload,omitempty"`
	Hold     string  `json:"hold,omitempty"` // name of the hold; unique in a run of a system
	Token    string  `json:"token,omitempty"`
	Call     instant `json:"call"`
	Return   instant `json:"return"`
	Claim    *claim  `json:"claim,omitempty"`
	Result   string  `json:"result,omitempty"` // class of the error; "": there was none

	ticks.Record // of replicas, which have no other fields
}
