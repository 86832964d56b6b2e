package locktest

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Stat is ZooKeeper's metadata of a node.
type Stat struct {
	Czxid, Mzxid   int64 // transactions that created it, and that last changed its data
	Ctime, Mtime   int64 // times of Czxid and Mzxid by the leader's clock, in ms since 1970
	Version        int32 // number of changes of the data
	Cversion       int32 // number of creates and deletes of children
	Aversion       int32 // number of changes of the ACL
	EphemeralOwner int64 // session of an ephemeral node, otherwise 0
	DataLength     int32 // length of the data in bytes
	NumChildren    int32
	Pzxid          int64 // transaction that last created or deleted a child
}

// ACL is one entry of a node's access control list.
type ACL struct {
	Perms      int32 // bits: 1 read, 2 write, 4 create, 8 delete, 16 admin
	Scheme, ID string
}

// A node is one node of a tree. Its data and ACL are never changed in place, so trees may share
// them.
type node struct {
	data           []byte
	acl            []ACL
	czxid, mzxid   int64
	pzxid          int64
	ctime, mtime   int64
	written        time.Time // time of mtime, by the test's clock
	version        int32
	cversion       int32 // number of children ever created: the next sequence
	aversion       int32
	ephemeralOwner int64
	container      bool
	children       nameSet
}

func (n *node) stat() Stat {
	children := int32(len(n.children.names))
	return Stat{
		Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: n.pzxid,
		Ctime: n.ctime, Mtime: n.mtime,
		Version: n.version, Aversion: n.aversion,
		// Each create and each delete of a child counts, as on real servers. Created children that
		// do not exist were deleted.
		Cversion:       n.cversion*2 - children,
		EphemeralOwner: n.ephemeralOwner,
		DataLength:     int32(len(n.data)),
		NumChildren:    children,
	}
}

// A nameSet is a set of names in an order that depends only on its history.
type nameSet struct {
	names []string
	at    map[string]int
}

func (s *nameSet) add(name string) {
	if s.at == nil {
		s.at = make(map[string]int)
	}
	s.at[name] = len(s.names)
	s.names = append(s.names, name)
}

func (s *nameSet) remove(name string) {
	i, ok := s.at[name]
	if !ok {
		return
	}
	last := len(s.names) - 1
	s.names[i] = s.names[last]
	s.at[s.names[i]] = i
	s.names = s.names[:last]
	delete(s.at, name)
}

func (s *nameSet) clone() nameSet {
	return nameSet{names: slices.Clone(s.names), at: maps.Clone(s.at)}
}

// A tree is one member's view of the data. Only transactions change it.
type tree struct {
	zxid       int64 // last transaction applied
	nodes      map[string]*node
	ephemerals map[int64]map[string]bool // paths by session
}

var (
	worldAll  = []ACL{{Perms: permAll, Scheme: "world", ID: "anyone"}}
	worldRead = []ACL{{Perms: permRead, Scheme: "world", ID: "anyone"}}
)

// newTree returns the tree of a new server.
func newTree() *tree {
	t := &tree{nodes: make(map[string]*node), ephemerals: make(map[int64]map[string]bool)}
	t.nodes[""] = &node{acl: worldAll, data: []byte{}}
	for _, path := range []string{"/zookeeper", "/zookeeper/config", "/zookeeper/quota"} {
		parent, name := split(path)
		t.nodes[parent].children.add(name)
		t.nodes[path] = &node{acl: worldAll, data: []byte{}}
	}
	t.nodes["/zookeeper/config"].acl = worldRead
	return t
}

// get returns the node at a path, nil if there is none. The root has the names "/" and "".
func (t *tree) get(path string) *node { return t.nodes[key(path)] }

func key(path string) string {
	if path == "/" {
		return ""
	}
	return path
}

// split cuts a path into its parent, "" for the root, and the last component.
func split(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:i], path[i+1:]
}

// clone returns an independent copy.
func (t *tree) clone() *tree {
	c := &tree{
		zxid:       t.zxid,
		nodes:      make(map[string]*node, len(t.nodes)),
		ephemerals: make(map[int64]map[string]bool, len(t.ephemerals)),
	}
	for path, n := range t.nodes {
		m := *n
		m.children = n.children.clone()
		c.nodes[path] = &m
	}
	for session, paths := range t.ephemerals {
		c.ephemerals[session] = maps.Clone(paths)
	}
	return c
}

// apply makes a transaction's changes, completes its results, and calls fire for each event of
// watches, in the order of ZooKeeper's DataTree.
func (t *tree) apply(x *txn, fire func(kind int32, path string)) {
	t.zxid = x.zxid
	for i := range x.changes {
		c := &x.changes[i]
		switch c.code {
		case opCreate, opCreate2, opCreateContainer:
			n := t.create(x, c)
			if c.code != opCreate {
				x.results[i].stat = n.stat()
			}
			fire(nodeCreated, c.path)
			fire(nodeChildrenChanged, parentOf(c.path))
		case opDelete:
			t.delete(x.zxid, c.path)
			fire(nodeDeleted, c.path)
			fire(nodeChildrenChanged, parentOf(c.path))
		case opSetData:
			n := t.get(c.path)
			if x.stale {
				x.results[i].stat = n.stat()
			}
			n.data, n.version, n.mzxid, n.mtime, n.written = c.data, c.version, x.zxid, x.time, x.taken
			if !x.stale {
				x.results[i].stat = n.stat()
			}
			fire(nodeDataChanged, c.path)
		case opSetACL:
			n := t.get(c.path)
			n.acl, n.aversion = c.acl, c.version
			x.results[i].stat = n.stat()
		case opSetSequence:
			t.get(c.path).cversion = c.cversion
		}
	}
}

func (t *tree) create(x *txn, c *change) *node {
	parentPath, name := split(c.path)
	parent := t.nodes[parentPath]
	// If the counter is at its end, the new number is negative. Then the counter stays, and the
	// parent does not show this child's transaction.
	if c.cversion > parent.cversion {
		parent.cversion, parent.pzxid = c.cversion, x.zxid
	}
	n := &node{
		data: c.data, acl: c.acl,
		czxid: x.zxid, mzxid: x.zxid, pzxid: x.zxid,
		ctime: x.time, mtime: x.time, written: x.taken,
		ephemeralOwner: c.owner, container: c.code == opCreateContainer,
	}
	parent.children.add(name)
	t.nodes[c.path] = n
	if c.owner != 0 {
		if t.ephemerals[c.owner] == nil {
			t.ephemerals[c.owner] = make(map[string]bool)
		}
		t.ephemerals[c.owner][c.path] = true
	}
	return n
}

func (t *tree) delete(zxid int64, path string) {
	parentPath, name := split(path)
	parent := t.nodes[parentPath]
	parent.children.remove(name)
	parent.pzxid = zxid
	if owner := t.nodes[path].ephemeralOwner; owner != 0 {
		delete(t.ephemerals[owner], path)
		if len(t.ephemerals[owner]) == 0 {
			delete(t.ephemerals, owner)
		}
	}
	delete(t.nodes, path)
}

// parentOf returns the parent's path as clients write it.
func parentOf(path string) string {
	parent, _ := split(path)
	if parent == "" {
		return "/"
	}
	return parent
}

// childNames lists the children. Until a child is deleted, the order is the reverse of their
// creation. ZooKeeper promises no order: with this one, a client that does not sort fails.
func (n *node) childNames() []string {
	names := slices.Clone(n.children.names)
	slices.Reverse(names)
	return names
}

// ephemeralsOf lists the ephemeral nodes of a session, sorted.
func (t *tree) ephemeralsOf(session int64) []string {
	return slices.Sorted(maps.Keys(t.ephemerals[session]))
}
