package locktest

import (
	"fmt"
	"strings"
	"time"
)

// A txn is a transaction of the log, for a client's request or made by the leader itself. A failed
// one changes nothing, but is also in the log.
type txn struct {
	zxid    int64
	time    int64     // milliseconds since 1970, by the leader's clock
	taken   time.Time // time of the stamp by the test's clock
	session int64
	cxid    int32 // the client's number of the request; 0: no client's
	changes []change
	results []result      // one for each operation
	begins  time.Duration // timeout of the session that begins with it; 0: none does
	ends    bool          // the session ends with it
	stale   bool          // results have the Stats from before the writes
}

// A change is one step of a transaction that is known to succeed.
type change struct {
	code     int32
	path     string
	data     []byte
	acl      []ACL
	version  int32 // new version of the data or the ACL
	cversion int32 // new counter of the parent
	owner    int64 // session of an ephemeral node; 0: not ephemeral
}

// A result is the answer to one operation.
type result struct {
	code int32 // code of the operation, or opError
	err  int32
	path string
	stat Stat
}

// A preparer turns operations into changes, as the leader does. It checks each operation against
// the tree and the earlier changes of the same transaction. It follows ZooKeeper's
// PrepRequestProcessor, including the order of the checks, which decides which of two errors is
// returned.
type preparer struct {
	tree     *tree
	quirks   Quirks
	session  int64
	rejected int32             // codeSessionExpired or codeSessionMoved: no operation passes
	identity []ACL             // identities of the connection; Perms are not used
	pending  map[string]record // nodes that a multi has changed so far; nil: no multi
}

// A record is the part of a node that a preparer needs.
type record struct {
	gone                        bool
	version, cversion, aversion int32
	children                    int
	ephemeralOwner              int64
	acl                         []ACL
}

// record returns the node at path after the changes so far; false if there is none.
func (p *preparer) record(path string) (record, bool) {
	path = key(path)
	if r, ok := p.pending[path]; ok {
		return r, !r.gone
	}
	n := p.tree.nodes[path]
	if n == nil {
		return record{}, false
	}
	return record{
		version: n.version, cversion: n.cversion, aversion: n.aversion,
		children: len(n.children.names), ephemeralOwner: n.ephemeralOwner, acl: n.acl,
	}, true
}

func (p *preparer) put(path string, r record) {
	if p.pending != nil {
		p.pending[key(path)] = r
	}
}

// single prepares a transaction of one operation.
func (p *preparer) single(x *txn, o *op) {
	c, err := p.prepare(o)
	if err != codeOK {
		x.results = []result{{code: opError, err: err}}
		return
	}
	x.changes = []change{c}
	x.results = []result{{code: o.code, path: c.path}}
}

// multi prepares a transaction of several operations: all or none. If one fails, the operations
// before it are answered with no error and those after it with a runtime inconsistency.
func (p *preparer) multi(x *txn, ops []op) {
	p.pending = make(map[string]record)
	x.changes = make([]change, len(ops))
	x.results = make([]result, len(ops))
	for i := range ops {
		c, err := p.prepare(&ops[i])
		if err == codeOK {
			x.changes[i] = c
			x.results[i] = result{code: ops[i].code, path: c.path}
			continue
		}
		x.changes = nil
		fail(x.results, i, err)
		return
	}
}

// fail sets the results of a transaction that failed at one of its operations.
func fail(results []result, at int, err int32) {
	for i := range results {
		results[i] = result{code: opError}
		if i > at {
			results[i].err = codeRuntimeInconsistency
		}
	}
	results[at].err = err
}

func (p *preparer) prepare(o *op) (change, int32) {
	switch o.code {
	case opCreate, opCreate2, opCreateContainer:
		return p.create(o)
	case opDelete:
		return p.delete(o)
	case opSetData:
		return p.setData(o)
	case opSetACL:
		return p.setACL(o)
	case opCheck:
		return p.check(o)
	}
	return change{}, codeUnimplemented
}

func (p *preparer) create(o *op) (change, int32) {
	switch {
	case o.flags < 0 || o.flags > 6:
		return change{}, codeBadArguments
	case o.flags > flagEphemeral|flagSequential && (o.code != opCreateContainer || o.flags != flagContainer):
		// Nodes with a TTL are not modelled.
		return change{}, codeUnimplemented
	case p.rejected != codeOK:
		return change{}, p.rejected
	case !hasParent(o.path):
		return change{}, codeBadArguments
	}
	acl, ok := p.resolveACL(o.acl)
	if !ok {
		return change{}, codeInvalidACL
	}
	path := o.path
	parentPath, _ := split(path)
	parent, ok := p.record(parentPath)
	switch {
	case !ok:
		return change{}, codeNoNode
	case !permits(parent.acl, permCreate, p.identity):
		return change{}, codeNoAuth
	}
	if o.flags&flagSequential != 0 {
		path += fmt.Sprintf("%010d", p.counter(parentPath, parent))
	}
	if !validPath(path) {
		return change{}, codeBadArguments
	}
	if _, exists := p.record(path); exists {
		return change{}, codeNodeExists
	}
	if parent.ephemeralOwner != 0 {
		return change{}, codeNoChildrenForEphemerals
	}
	c := change{code: o.code, path: path, data: o.data, acl: acl, cversion: parent.cversion + 1}
	if o.flags&flagEphemeral != 0 {
		c.owner = p.session
	}
	parent.cversion++ // it wraps after the maximum, while the tree's own counter stops
	parent.children++
	p.put(parentPath, parent)
	p.put(path, record{acl: acl, ephemeralOwner: c.owner})
	return c, codeOK
}

func (p *preparer) delete(o *op) (change, int32) {
	if p.rejected != codeOK {
		return change{}, p.rejected
	}
	if !hasParent(o.path) || isServers(o.path) {
		return change{}, codeBadArguments
	}
	parentPath, _ := split(o.path)
	parent, ok := p.record(parentPath)
	switch {
	case !ok:
		return change{}, codeNoNode
	case !permits(parent.acl, permDelete, p.identity):
		return change{}, codeNoAuth
	}
	n, ok := p.record(o.path)
	switch {
	case !ok:
		return change{}, codeNoNode
	case !p.fits(o.version, n.version):
		return change{}, codeBadVersion
	case n.children > 0:
		return change{}, codeNotEmpty
	}
	parent.children--
	p.put(parentPath, parent)
	p.put(o.path, record{gone: true})
	return change{code: opDelete, path: o.path}, codeOK
}

func (p *preparer) setData(o *op) (change, int32) {
	n, err := p.existing(o, permWrite)
	switch {
	case err != codeOK:
		return change{}, err
	case !p.fits(o.version, n.version):
		return change{}, codeBadVersion
	}
	n.version++
	p.put(o.path, n)
	return change{code: opSetData, path: o.path, data: o.data, version: n.version}, codeOK
}

func (p *preparer) setACL(o *op) (change, int32) {
	if p.rejected != codeOK {
		return change{}, p.rejected
	}
	if !validPath(o.path) {
		return change{}, codeBadArguments
	}
	acl, ok := p.resolveACL(o.acl)
	if !ok {
		return change{}, codeInvalidACL
	}
	n, err := p.existing(o, permAdmin)
	switch {
	case err != codeOK:
		return change{}, err
	case !p.fits(o.version, n.aversion):
		return change{}, codeBadVersion
	}
	n.aversion++
	n.acl = acl
	p.put(o.path, n)
	return change{code: opSetACL, path: o.path, acl: acl, version: n.aversion}, codeOK
}

func (p *preparer) check(o *op) (change, int32) {
	n, err := p.existing(o, permRead)
	switch {
	case err != codeOK:
		return change{}, err
	case !p.fits(o.version, n.version):
		return change{}, codeBadVersion
	}
	// PrepRequestProcessor logs a check with the version + 1.
	return change{code: opCheck, path: o.path, version: n.version + 1}, codeOK
}

// existing returns the node of an operation if the ACL permits the operation; otherwise the code of
// the error.
func (p *preparer) existing(o *op, perm int32) (record, int32) {
	if p.rejected != codeOK {
		return record{}, p.rejected
	}
	if !validPath(o.path) {
		return record{}, codeBadArguments
	}
	n, ok := p.record(o.path)
	switch {
	case !ok:
		return record{}, codeNoNode
	case !permits(n.acl, perm, p.identity):
		return record{}, codeNoAuth
	}
	return n, codeOK
}

// hasParent reports whether a path can be cut into a parent and a name.
func hasParent(path string) bool {
	return strings.Contains(path, "/") && !strings.Contains(path, "\x00")
}

// isServers reports whether a node is the server's own, which cannot be deleted.
func isServers(path string) bool {
	switch path {
	case "/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota":
		return true
	}
	return false
}

// validPath reports whether a path is valid by the rules of ZooKeeper's PathUtils.
func validPath(path string) bool {
	if path == "/" {
		return true
	}
	if !strings.HasPrefix(path, "/") {
		return false
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		if name == "" || name == "." || name == ".." {
			return false
		}
		for _, c := range name {
			if c <= 0x1f || c >= 0x7f && c <= 0x9f || c >= 0xd800 && c <= 0xf8ff || c >= 0xfff0 {
				return false
			}
		}
	}
	return true
}
