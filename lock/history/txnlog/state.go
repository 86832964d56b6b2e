package txnlog

import (
	"bytes"
	"iter"
	"maps"
	"slices"
	"strings"
)

// State is the tree of nodes that transactions make, by their paths.
type State map[string]*Node

// NewState returns the state of an ensemble before its first transaction.
func NewState() State { return State{"/": {Path: "/"}} }

// State returns the nodes that the snapshot shows, see [Exact].
func (s *Snapshot) State() (State, error) {
	state := State{}
	for n, err := range s.Nodes() {
		if err != nil {
			return nil, err
		}
		state[n.Path] = &n
	}
	return state, nil
}

// Nodes returns the nodes, sorted by path. The caller must not change them.
func (s State) Nodes() iter.Seq[Node] {
	return func(yield func(Node) bool) {
		for _, path := range slices.Sorted(maps.Keys(s)) {
			if !yield(*s[path]) {
				return
			}
		}
	}
}

// Apply applies a transaction as a server does. Changes that a fuzzy snapshot already has have no
// effect, and disputed transactions have none.
func (s State) Apply(t *Txn) {
	if t.Disputed {
		return
	}
	for i := range t.Ops {
		s.apply(t, &t.Ops[i])
	}
}

func (s State) apply(t *Txn, op *Op) {
	n := s[op.Path]
	switch {
	case op.Kind == OpCreate:
		s.create(t, op)
	case op.Kind == OpDelete:
		s.delete(op.Path, t.Zxid)
	case op.Kind == OpCloseSession:
		for _, path := range op.Ended {
			s.delete(path, t.Zxid)
		}
		for path, n := range s {
			if n.EphemeralOwner == t.Session { // the log may not name it
				s.delete(path, t.Zxid)
			}
		}
	case n == nil:
	case op.Kind == OpSetData, op.Kind == OpReconfig:
		n.Data, n.Version, n.Mzxid, n.Mtime = bytes.Clone(op.Data), op.Version, t.Zxid, t.Time
	}
}

func (s State) create(t *Txn, op *Op) {
	if parent := s[Parent(op.Path)]; parent != nil {
		if op.CVersion > parent.CVersion {
			parent.CVersion, parent.Pzxid = op.CVersion, t.Zxid
		}
	}
	if s[op.Path] != nil {
		return
	}
	n := &Node{Path: op.Path, Data: bytes.Clone(op.Data), Czxid: t.Zxid, Mzxid: t.Zxid, Pzxid: t.Zxid, Ctime: t.Time, Mtime: t.Time}
	if op.Ephemeral {
		n.EphemeralOwner = t.Session
	}
	s[op.Path] = n
}

func (s State) delete(path string, zxid int64) {
	if parent := s[Parent(path)]; parent != nil {
		parent.Pzxid = max(parent.Pzxid, zxid)
	}
	delete(s, path)
}

// Parent returns the path of a node's parent; "" for "/".
func Parent(path string) string {
	i := strings.LastIndexByte(path, '/')
	switch {
	case i > 0:
		return path[:i]
	case i == 0 && len(path) > 1:
		return "/"
	}
	return ""
}
