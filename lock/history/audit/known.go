package audit

import (
	"path"

	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// This file decides what is known. A hidden node may have children and data that the log has not
// shown. The data of an unseen one is that of a later write, or missing, because the server saved its
// snapshot while it wrote.

// Audit follows a log.
var _ txnlog.Follower = (*Audit)(nil)

// contradicts reports whether the transaction cannot follow the ones before, because servers refuse such
// ones: it creates a node that is there, deletes, writes or checks one that is not, or deletes one with nodes
// below it, or the version of a node that it writes, or the number of a lock's child that it creates, does not
// follow on the last. Then the log lacks transactions, or the
// servers' data was replaced in between, for example by a restore through the admin server.
func (a *Audit) contradicts(x *txnlog.Txn) bool {
	changed := map[string]bool{}   // the nodes that the transaction creates, or deletes
	children := map[string]int32{} // how many more each node has by that
	there := func(p string) (exists, known bool) {
		if exists, ok := changed[p]; ok {
			return exists, true
		}
		if n := a.nodes[p]; n != nil {
			return true, !n.hidden || n.written != 0 // else it was only concluded from another node
		}
		for {
			p = path.Dir(p)
			if exists, ok := changed[p]; ok {
				return false, exists
			} else if n := a.nodes[p]; n != nil {
				return false, !n.hidden
			}
		}
	}
	versions := map[string]int32{} // the next ones of the nodes that the transaction writes, and of locks' children
	follows := func(of string, next, version int32) bool {
		if after, ok := versions[of]; ok {
			next = after
		}
		versions[of] = version + 1
		return next == 0 || version <= 0 || version == next
	}
	for i := range x.Ops {
		o := &x.Ops[i]
		switch o.Kind {
		case txnlog.OpCreate, txnlog.OpDelete, txnlog.OpSetData, txnlog.OpCheck:
		default:
			continue
		}
		if exists, known := there(o.Path); known && exists == (o.Kind == txnlog.OpCreate) {
			return true
		}
		switch n, up := a.nodes[o.Path], a.nodes[path.Dir(o.Path)]; {
		case changed[o.Path], changed[path.Dir(o.Path)]: // a new node
		case o.Kind == txnlog.OpDelete && n != nil && n.children+children[o.Path] > 0:
			return true
		case o.Kind == txnlog.OpSetData && n != nil && !follows(o.Path, n.next, o.Version):
			return true
		case o.Kind == txnlog.OpCreate && up != nil && up.lock != nil && !follows(up.path+"/", up.lock.next, o.CVersion):
			return true
		}
		switch o.Kind {
		case txnlog.OpCreate:
			changed[o.Path] = true
			children[path.Dir(o.Path)]++
		case txnlog.OpDelete:
			changed[o.Path] = false
			children[path.Dir(o.Path)]--
		}
	}
	return false
}

// dispute forgets what a disputed transaction would change, with the locks around it.
func (a *Audit) dispute(x *txnlog.Txn) {
	if s := a.sessions[x.Session]; s != nil {
		s.timeout = 0 // it may have ended
	}
	for i := range x.Ops {
		o := &x.Ops[i]
		paths := []string{o.Path}
		switch o.Kind {
		case txnlog.OpCloseSession:
			paths = a.ending(x.Session, o)
		case txnlog.OpCheck:
			continue
		}
		for _, p := range paths {
			base := path.Base(p)
			if _, entry := znode.Parse(base); entry || a.isAnchor(base) {
				p = path.Dir(p)
			}
			a.forget(p)
		}
	}
}

func (a *Audit) isAnchor(base string) bool { _, ok := znode.AnchorOf(base); return ok }

// forget removes a node and the nodes below it, and hides the node above: it may be there or not.
func (a *Audit) forget(p string) {
	if up := a.nodes[path.Dir(p)]; up != nil {
		if up.hidden = true; up.lock != nil {
			up.lock.next = 0
		}
	}
	n := a.nodes[p]
	if n == nil || n.up == nil {
		return
	}
	for _, below := range a.below(n) {
		a.remove(below)
	}
}

// below returns a node and those below it, the deepest first.
func (a *Audit) below(n *node) (all []*node) {
	if n.children > 0 {
		for _, c := range a.nodes {
			if c.up == n {
				all = append(all, a.below(c)...)
			}
		}
	}
	return append(all, n)
}

// learn takes the data of an unseen node from its first write that the log shows.
func (a *Audit) learn(n *node, data []byte) {
	n.unseen = false
	generation, anchor := znode.AnchorOf(path.Base(n.path))
	switch {
	case n.entry != nil:
		a.take(n.entry, znode.ReadEntry(n.entry.Name, data, znode.Stat{}))
		if n.entry.Leased() && n.entry.Record.Broken == nil {
			a.session(a.txn.Session).ours = true
		}
	case anchor:
		data, _ := znode.DecodeAnchor(data)
		n.up.state().anchor(generation, data)
	default:
		n.fill(data)
	}
}
