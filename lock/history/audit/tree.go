package audit

import (
	"maps"
	"path"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/lock/history/internal/records"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// tree is what the log has shown of the data and the sessions. It judges nothing.
type tree struct {
	nodes    map[string]*node
	sessions map[int64]*session
	records  records.Shared
}

// node is a node of ZooKeeper. If the node's data is Holdfast's, entry or lock has it decoded.
type node struct {
	path     string
	up       *node // the node above
	children int32
	next     int32      // the version after the next write; 0: unknown
	hidden   bool       // its data and its children may be from before the log
	unseen   bool       // its data is not known: that of the snapshot is missing, or of later
	foreign  bool       // it has data that is not Holdfast's
	owner    int64      // the session that it ends with; 0: none
	written  int64      // the transaction that wrote it last; 0: not shown
	entry    *entry     // nil unless it is a contender
	lock     *lockState // nil until it has a contender, an anchor, Holdfast's data, or that of a job
}

// wrote makes m the last write of the node.
func (n *node) wrote(m moment) {
	if n.written = m.zxid; n.entry != nil {
		n.entry.last = m.write
	}
}

// lockState is what the tree knows of a lock, or of a node above locks.
type lockState struct {
	znode.Parent
	anchors []anchor   // nearly always one
	queue   []*node    // contenders, in their order
	spent   bool       // the counter of its children has reached the end
	next    int32      // the version of the children after the next creation, which counts all; 0: unknown
	highest [2]token   // of the grants so far: of all, and of writers
	lost    []*removal // deletions of granted entries whose leases have not ended
	job     *job       // nil unless the node is the record of a job
}

// anchor is the anchor of a generation: of its data what anchors differ in.
type anchor struct {
	generation       string
	permits, resized int32
	single           bool
}

// anchored returns the anchor of a generation; false if there is none.
func (s *lockState) anchored(generation string) (znode.AnchorData, bool) {
	for _, x := range s.anchors {
		if x.generation == generation {
			return znode.AnchorData{Permits: x.permits, Resized: x.resized, Single: x.single}, true
		}
	}
	return znode.AnchorData{}, false
}

// anchor sets the data of the anchor of a generation.
func (s *lockState) anchor(generation string, data znode.AnchorData) {
	a := anchor{generation, data.Permits, data.Resized, data.Single}
	for i := range s.anchors {
		if s.anchors[i].generation == generation {
			s.anchors[i] = a
			return
		}
	}
	s.anchors = append(s.anchors, a)
}

// token is a fencing token without the count of local handoffs, and the granted entry.
type token struct {
	czxid int64
	seq   int32
	*node
}

func (t token) above(o token) bool { return t.czxid > o.czxid || t.czxid == o.czxid && t.seq > o.seq }

// removal is a deletion of an entry before the end of its lease, in a session that may be the next
// one of the entry's owner.
type removal struct {
	*node                    // the entry
	by, owner  *session      // by deleted the entry, owner had written it last
	end        time.Duration // end of the lease, by Audit.now
	gaps       int32         // Audit.gaps at the entry's last write
	proven     bool          // a client that is not the owner has deleted it
	violations []Violation   // to report once proven is true
}

// session is the session of a client.
type session struct {
	open       bool          // it has begun, as the log shows, and not ended
	ours       bool          // it has made, written or purged an entry of Holdfast
	timeout    time.Duration // 0: unknown
	since      time.Duration // when it began, or was seen first, see Audit.steady
	ephemerals map[string]bool
}

func newTree() tree {
	t := tree{nodes: map[string]*node{}, sessions: map[int64]*session{}, records: records.Shared{}}
	for _, p := range []string{"/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"} {
		t.add(p, nil, moment{})
	}
	return t
}

// add adds a node. If nodes above are missing, add also adds them, as hidden, and above is false.
func (t *tree) add(p string, data []byte, m moment) (n *node, above bool) {
	n = &node{path: p, written: m.zxid}
	t.nodes[p] = n
	if p == "/" {
		return n, true
	}
	if n.up, above = t.nodes[path.Dir(p)]; !above {
		n.up, _ = t.add(path.Dir(p), nil, moment{})
		n.up.hidden = true
	}
	n.up.children++
	base := path.Base(p)
	if generation, ok := znode.AnchorOf(base); ok {
		data, _ := znode.DecodeAnchor(data)
		n.up.state().anchor(generation, data)
	} else if name, ok := znode.Parse(base); ok && path.Base(n.up.path) != znode.Inbox {
		n.entry = &entry{Name: name, czxid: m.zxid, last: m.write}
		t.take(n.entry, znode.ReadEntry(name, data, znode.Stat{}))
		n.up.state().join(n)
	} else {
		n.fill(data)
	}
	return n, above
}

// own makes a node end with a session.
func (t *tree) own(n *node, owner int64) {
	if n.owner = owner; n.entry != nil {
		n.entry.ephemeral = owner != 0
	}
	t.session(owner).ephemerals[n.path] = true
}

// session returns the state of a session. It adds the session if that is not known.
func (t *tree) session(id int64) *session {
	s := t.sessions[id]
	if s == nil {
		s = &session{ephemerals: map[string]bool{}}
		t.sessions[id] = s
	}
	return s
}

// ending returns the nodes that end with a session, in its last transaction. Some releases of the server do
// not log them.
func (t *tree) ending(session int64, o *txnlog.Op) []string {
	paths := slices.Clone(o.Ended)
	if s := t.sessions[session]; s != nil {
		paths = slices.AppendSeq(paths, maps.Keys(s.ephemerals))
	}
	return paths
}

// fill decodes the data of a node that is neither an entry nor an anchor.
func (n *node) fill(data []byte) {
	job := jobOf(data)
	parent, err := znode.DecodeParent(data)
	if n.foreign = err != nil && job == nil; n.foreign || parent.Kind == "" {
		parent = znode.Parent{}
	}
	if n.lock != nil || job != nil || parent.Kind != "" {
		s := n.state()
		s.Parent, s.job = parent, job
	}
}

// state returns the node's lock state. It adds a lock state if there is none.
func (n *node) state() *lockState {
	if n.lock == nil {
		n.lock = &lockState{}
	}
	return n.lock
}

// join adds a contender to the queue.
func (s *lockState) join(n *node) {
	at, _ := slices.BinarySearchFunc(s.queue, n, func(x, y *node) int {
		return znode.CompareAt(x.entry.Name, x.entry.czxid, y.entry.Name, y.entry.czxid)
	})
	s.queue = slices.Insert(s.queue, at, n)
	s.spent = s.spent || n.entry.Overflowed()
}

func (t *tree) remove(n *node) {
	delete(t.nodes, n.path)
	if n.up == nil {
		return
	}
	n.up.children--
	if s := t.sessions[n.owner]; s != nil {
		delete(s.ephemerals, n.path)
	}
	if s := n.up.lock; n.entry != nil {
		at := slices.Index(s.queue, n)
		s.queue = slices.Delete(s.queue, at, at+1)
	} else if generation, ok := znode.AnchorOf(path.Base(n.path)); ok {
		s.anchors = slices.DeleteFunc(s.anchors, func(x anchor) bool { return x.generation == generation })
	}
}
