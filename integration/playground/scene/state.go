package scene

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// State is the state that the page shows, as JSON.
type State struct {
	Time   float64 `json:"time"`   // time since the beginning, in seconds
	Leader string  `json:"leader"` // "" while there is none
	Clock  string  `json:"clock"`  // offset of the leader's clock, with its sign
	Sides  []Side  `json:"sides"`
	Log    []Line  `json:"log"`
	Tour   Tour    `json:"tour"`
}

// Side is one kind of lock.
type Side struct {
	Name     string   `json:"name"`
	Inside   int      `json:"inside"` // number of workers inside
	Counter  int      `json:"counter"`
	Added    int      `json:"added"`    // number of increments; if the counter is lower, increments were lost
	Overlaps int      `json:"overlaps"` // number of times that two workers were inside at once
	Overlap  float64  `json:"overlap"`  // total time of the overlaps, in seconds
	Workers  []Worker `json:"workers"`
	Nodes    []Node   `json:"nodes"`
}

// Worker is one worker.
type Worker struct {
	Name   string  `json:"name"`
	State  string  `json:"state"`
	Inside bool    `json:"inside"`
	Done   float64 `json:"done"`  // part of the work that is done, from 0 to 1
	Lease  float64 `json:"lease"` // least remaining time of its lease, in seconds
	Token  string  `json:"token"`
}

// Node is a node in ZooKeeper.
type Node struct {
	Name  string `json:"name"`
	Owner string `json:"owner"` // name of a worker, or what else is known
	Kind  string `json:"kind"`
}

// Level is the severity of a line.
type Level string

// The levels.
const (
	Good Level = "good"
	Warn Level = "warn"
	Bad  Level = "bad"
)

// Line is a line of the log. Lines are numbered from 1.
type Line struct {
	Number int     `json:"number"`
	Time   float64 `json:"time"`
	Side   string  `json:"side"` // "": both
	Level  Level   `json:"level"`
	Text   string  `json:"text"`
}

// State returns the present state.
func (s *Scene) State() State {
	var state State
	s.update(func() {
		state = State{Time: time.Since(s.begun).Seconds(), Log: append([]Line{}, s.log...), Tour: s.tour}
		if leader := s.leader(); leader >= 0 {
			state.Leader, state.Clock = memberName(leader), signed(s.clocks[leader])
		}
		for _, side := range s.sides {
			state.Sides = append(state.Sides, s.sideState(side))
		}
	})
	return state
}

func (s *Scene) sideState(side *side) Side {
	state := Side{Name: side.name, Counter: side.counter, Added: side.added, Overlaps: side.overlaps, Overlap: side.overlap.Seconds(), Nodes: []Node{}}
	if !side.since.IsZero() {
		state.Overlap += time.Since(side.since).Seconds()
	}
	for _, w := range side.workers {
		worker := Worker{Name: w.name, State: w.phase, Inside: w.inside && w.hold.sure()}
		switch {
		case w.paused:
			worker.State = "paused"
		case w.cut:
			worker.State += ", cut off"
		}
		if w.phase == works {
			worker.Done = float64(w.done) / workSteps
			if w.hold.Hold != nil {
				worker.Lease, worker.Token = w.hold.Remaining().Seconds(), strings.TrimLeft(w.hold.Token().String(), "0")
			}
		}
		if worker.Inside {
			state.Inside++
		}
		state.Workers = append(state.Workers, worker)
	}
	for _, n := range s.ensemble.Dump(side.parent) {
		state.Nodes = append(state.Nodes, side.node(n))
	}
	if len(state.Nodes) > 0 { // the first node is the parent
		slices.SortFunc(state.Nodes[1:], func(a, b Node) int { return strings.Compare(sequence(a.Name), sequence(b.Name)) })
	}
	return state
}

// sequence returns the part of a node's name by which nodes are sorted. An anchor comes last.
func sequence(name string) string {
	if _, ok := znode.AnchorOf(name); ok {
		return "anchor"
	}
	return name[strings.LastIndexByte(name, '-')+1:]
}

// node describes a node of the side's lock.
func (side *side) node(n locktest.Node) Node {
	if n.Path == side.parent {
		return Node{Name: n.Path, Kind: "the lock"}
	}
	node := Node{Name: n.Path[strings.LastIndexByte(n.Path, '/')+1:], Kind: "leased"}
	if n.Stat.EphemeralOwner != 0 {
		node.Kind = "ephemeral"
		node.Owner = "an earlier session's"
		for _, w := range side.workers {
			if w.p != nil && w.p.session != nil && w.p.session() == n.Stat.EphemeralOwner {
				node.Owner = w.name
			}
		}
		return node
	}
	if _, ok := znode.AnchorOf(node.Name); ok {
		node.Kind = "the lock's anchor"
		return node
	}
	record, err := znode.DecodeRecord(n.Data)
	if err != nil {
		node.Kind = err.Error()
		return node
	}
	node.Owner = "an earlier life's"
	for _, w := range side.workers {
		if record.Owner == w.label {
			node.Owner = w.name
		}
	}
	return node
}
