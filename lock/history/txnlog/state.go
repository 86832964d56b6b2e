package txnlog

import (
	"bytes"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"
)

// State is the tree of nodes, and the open sessions, as transactions make them. It is not safe for
// concurrent use.
type State struct {
	zxid       int64 // see Zxid
	latest     int64 // the highest zxid that the snapshot's nodes show
	nodes      map[string]*Node
	sessions   map[int64]time.Duration
	ephemerals map[int64]map[string]bool // paths of ephemeral nodes, by session
}

// NewState returns an empty state, that of an ensemble before its first transaction.
func NewState() *State {
	s := &State{nodes: map[string]*Node{}, sessions: map[int64]time.Duration{}, ephemerals: map[int64]map[string]bool{}}
	s.put(&Node{Path: "/"})
	return s
}

// Load replaces the state with that of a snapshot. After an error the state has no nodes, but may
// have sessions: do not use it before a Load without an error.
func (s *State) Load(snap *Snapshot) error {
	clear(s.nodes)
	clear(s.sessions)
	clear(s.ephemerals)
	s.zxid, s.latest = 0, 0
	for session, err := range snap.Sessions() {
		if err != nil {
			return err
		}
		s.sessions[session.ID] = session.Timeout
	}
	latest := snap.Zxid
	for n, err := range snap.Nodes() {
		if err != nil {
			clear(s.nodes)
			clear(s.sessions)
			clear(s.ephemerals)
			return err
		}
		latest = max(latest, n.Czxid, n.Mzxid, n.Pzxid)
		s.put(&n)
	}
	s.zxid, s.latest = snap.Zxid, latest
	return nil
}

// Zxid returns the zxid of the last transaction that the state has: the last one applied, or the
// snapshot's.
func (s *State) Zxid() int64 { return s.zxid }

// Exact reports whether the state is exactly that after Zxid, as far as the nodes show. A snapshot
// may already have later changes. Then the state becomes exact when Apply has got them. Exact does
// not notice a node that the snapshot lacks because of a later deletion.
func (s *State) Exact() bool { return s.zxid >= s.latest }

// Node returns the node with the path; false if there is none. The node's data must not be changed.
func (s *State) Node(path string) (Node, bool) {
	if n := s.nodes[path]; n != nil {
		return *n, true
	}
	return Node{}, false
}

// Len returns the number of nodes.
func (s *State) Len() int { return len(s.nodes) }

// Nodes returns the nodes, sorted by path. The caller must not change them.
func (s *State) Nodes() iter.Seq[Node] {
	return func(yield func(Node) bool) {
		for _, path := range slices.Sorted(maps.Keys(s.nodes)) {
			if !yield(*s.nodes[path]) {
				return
			}
		}
	}
}

// Session returns the timeout of an open session; false if the session is not open.
func (s *State) Session(id int64) (time.Duration, bool) {
	timeout, ok := s.sessions[id]
	return timeout, ok
}

// Ephemerals returns the paths of a session's ephemeral nodes, sorted.
func (s *State) Ephemerals(session int64) []string {
	return slices.Sorted(maps.Keys(s.ephemerals[session]))
}

// Apply applies a transaction as a server does. Changes that a fuzzy snapshot already has have no
// effect, and disputed transactions have none. If the transaction ends a session, and the log does not
// name the session's ephemeral nodes (before 3.6), Apply sets Op.Ended to the ones that the state has.
func (s *State) Apply(t *Txn) {
	if t.Disputed {
		return
	}
	for i := range t.Ops {
		s.apply(t, &t.Ops[i])
	}
	s.zxid = max(s.zxid, t.Zxid)
}

func (s *State) apply(t *Txn, op *Op) {
	switch op.Kind {
	case OpCreate:
		s.create(t, op)
	case OpDelete:
		s.delete(op.Path, t.Zxid)
	case OpSetData, OpReconfig:
		if n := s.nodes[op.Path]; n != nil {
			n.Data, n.Version, n.Mzxid, n.Mtime = bytes.Clone(op.Data), op.Version, t.Zxid, t.Time
		}
	case OpSetACL:
		if n := s.nodes[op.Path]; n != nil {
			n.ACL, n.AVersion = op.ACL, op.Version
		}
	case OpBeginSession:
		s.sessions[t.Session] = op.Timeout
	case OpCloseSession:
		s.closeSession(t, op)
	}
}

func (s *State) create(t *Txn, op *Op) {
	if parent := s.nodes[Parent(op.Path)]; parent != nil {
		version := op.CVersion
		if version == -1 {
			version = parent.CVersion + 1
		}
		if version > parent.CVersion {
			parent.CVersion, parent.Pzxid = version, t.Zxid
		}
	}
	if n := s.nodes[op.Path]; n != nil {
		n.ACL = op.ACL
		return
	}
	n := &Node{
		Path: op.Path, Data: bytes.Clone(op.Data), ACL: op.ACL, Czxid: t.Zxid, Mzxid: t.Zxid, Pzxid: t.Zxid,
		Ctime: t.Time, Mtime: t.Time, Container: op.Container, TTL: op.TTL,
	}
	if op.Ephemeral {
		n.EphemeralOwner = t.Session
	}
	s.put(n)
}

func (s *State) put(n *Node) {
	s.nodes[n.Path] = n
	if n.EphemeralOwner == 0 {
		return
	}
	paths := s.ephemerals[n.EphemeralOwner]
	if paths == nil {
		paths = map[string]bool{}
		s.ephemerals[n.EphemeralOwner] = paths
	}
	paths[n.Path] = true
}

func (s *State) delete(path string, zxid int64) {
	if parent := s.nodes[Parent(path)]; parent != nil && zxid > parent.Pzxid {
		parent.Pzxid = zxid
	}
	n := s.nodes[path]
	if n == nil {
		return
	}
	delete(s.nodes, path)
	if paths := s.ephemerals[n.EphemeralOwner]; paths != nil {
		delete(paths, path)
		if len(paths) == 0 {
			delete(s.ephemerals, n.EphemeralOwner)
		}
	}
}

func (s *State) closeSession(t *Txn, op *Op) {
	own := s.Ephemerals(t.Session)
	if op.Ended == nil {
		op.Ended = own
	}
	for _, path := range op.Ended {
		s.delete(path, t.Zxid)
	}
	for _, path := range own {
		s.delete(path, t.Zxid)
	}
	delete(s.sessions, t.Session)
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
