package audit

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// in reports whether n's turn has come, by the rule of [znode.WaitsFor]. If not, ahead is the
// contender that n waits for. unknown: the lock's kind, its permits or the contenders ahead are not
// known.
func (a *Audit) in(n *node) (in, unknown bool, ahead *node) {
	s := n.up.lock
	rules := znode.Rules{Kind: s.Kind}
	if anchor := a.nodes[n.up.path+"/"+znode.Anchor(s.Generation)]; n.up.unseen || anchor != nil && anchor.unseen {
		return false, true, nil
	}
	switch s.Kind {
	case znode.Mutex, znode.RW:
	case znode.Semaphore:
		data, _ := s.anchored(s.Generation)
		if rules.Capacity = data.Capacity(); rules.Capacity == 0 {
			return false, true, nil
		}
	default:
		return false, true, nil
	}
	a.names = a.names[:0]
	for _, n := range s.queue {
		a.names = append(a.names, n.entry.Name)
	}
	at := znode.WaitsFor(a.names, slices.Index(s.queue, n), rules)
	if at < 0 || s.Kind == znode.RW && n.entry.Role == znode.Shared && a.names[at].Role == znode.Writer && s.queue[at].entry.Shares() {
		return true, n.up.hidden, nil
	}
	return false, s.queue[at].unseen, s.queue[at] // an unseen writer may share, and a lost node may not have been there yet
}

// granted judges an entry whose record shows the grant for the first time.
func (a *Audit) granted(n *node) {
	e, s := n.entry, n.up.lock
	rule := Exclusion
	if _, elected := e.Record.Metadata[znode.ValueKey]; elected {
		rule = Leader
	} else if s.Kind == znode.Semaphore {
		rule = Permits
	}
	switch in, unknown, ahead := a.in(n); {
	case e.Overflowed():
		a.judge(rule, false, n, nil, "an entry from the counter's end is granted")
		return
	case unknown:
		a.skip(byContenders)
		return
	case !in:
		a.judge(rule, false, n, ahead, "granted behind %s, which is %s", ahead.path, map[bool]string{true: "granted, too", false: "still there"}[ahead.entry.Granted()])
		return
	}
	if a.judge(rule, true, n, nil, ""); s.Kind == znode.Semaphore || e.czxid == 0 { // the snapshot lacks it: its token is not known
		return
	}
	shared := e.Role == znode.Shared
	s.lost = slices.DeleteFunc(s.lost, func(r *removal) bool { return a.now >= r.end || r.gaps != a.gaps })
	for _, r := range s.lost {
		if v := a.violation(Overlap, n, r.node, "granted %v before the lease of %s ends", r.end-a.now, r.path); shared && r.entry.Role == znode.Shared {
		} else if r.proven {
			a.found(v)
		} else {
			r.violations = append(r.violations, v)
		}
	}
	is, last := token{e.czxid, e.TokenSequence(), n}, s.highest[0]
	if shared {
		last = s.highest[1]
	}
	a.judge(Token, is.above(last), n, last.node, "granted with the token %#x.%d after %#x.%d", is.czxid, is.seq, last.czxid, last.seq)
	for i, t := range s.highest {
		if is.above(t) && (i == 0 || !shared) {
			s.highest[i] = is
		}
	}
}

func (a *Audit) create(o *txnlog.Op) {
	if old := a.nodes[o.Path]; old != nil { // a hidden one
		a.remove(old)
	}
	n, _ := a.add(o.Path, o.Data, a.moment())
	if n.next = 1; o.Ephemeral {
		a.own(n, a.txn.Session)
	}
	if s := n.up.lock; s != nil {
		s.next = o.CVersion + 1
	}
	generation, anchor := znode.AnchorOf(path.Base(o.Path))
	switch s := n.up.lock; {
	case n.up.unseen || s == nil && anchor:
	case anchor: // an anchor of another generation is a guard, or the parent is adopted
		a.judge(Generation, generation != s.Generation || a.has(txnlog.OpCreate, n.up.path) || a.has(txnlog.OpSetData, n.up.path), n, n.up, "an anchor is created, and its parent is not")
	case n.entry != nil && n.entry.Leased():
		a.session(a.txn.Session).ours = true
		if at := n.up.path + "/" + znode.Anchor(s.Generation); n.entry.Tag == s.Generation {
			kin := (s.Kind == znode.RW) == (n.entry.Role != znode.Exclusive)
			proven := a.has(txnlog.OpCheck, at) || a.has(txnlog.OpCreate, at) || a.has(txnlog.OpSetData, at)
			a.judge(Generation, kin && proven, n, n.up, "an entry of its parent's generation joins without a check of the anchor, or as of another kind")
			if anchor, _ := s.anchored(s.Generation); anchor.Single {
				a.judge(Resize, n.entry.Permits <= 1, n, n.up, "an entry for several permits joins while the anchor says that each has one")
			}
		}
		if n.entry.Granted() {
			a.granted(n)
		}
	case n.entry == nil && n.lock != nil && n.lock.Generation != "":
		a.judge(Generation, a.has(txnlog.OpCreate, n.path+"/"+znode.Anchor(n.lock.Generation)), n, nil, "a lock's parent is created without its anchor")
	case n.lock != nil && n.lock.job != nil:
		a.recorded(n, &none)
	}
}

func (a *Audit) set(o *txnlog.Op) {
	n := a.nodes[o.Path]
	if n == nil || n.hidden && n.written == 0 {
		a.skip(byBeginning)
		if n != nil {
			n.fill(o.Data)
		} else {
			n, _ = a.add(o.Path, o.Data, a.moment())
		}
		n.hidden = true
		n.wrote(a.moment())
		return
	}
	if n.unseen {
		a.skip(bySnapshot)
		a.learn(n, o.Data)
		n.wrote(a.moment())
		return
	}
	generation, anchor := znode.AnchorOf(path.Base(n.path))
	switch {
	case n.entry != nil:
		a.write(n, o.Data)
		return
	case anchor:
		a.resize(n, generation, o.Data)
	default:
		s, foreign := n.state(), n.foreign
		was, job := s.Parent, cmp.Or(s.job, &none)
		if n.fill(o.Data); s.job != nil {
			a.recorded(n, job)
		} else {
			a.adopt(n, was, foreign)
		}
	}
	n.wrote(a.moment())
}

// adopt judges a write of a node that may be a lock's: does the write adopt the node, or change a
// lock's data? was and foreign are the node's state before the write.
func (a *Audit) adopt(n *node, was znode.Parent, foreign bool) {
	is := n.lock.Parent
	_, anchored := n.lock.anchored(was.Generation)
	switch {
	case a.has(txnlog.OpCreate, n.path):
	case anchored:
		a.judge(Generation, was == is, n, n, "the data of a lock with an anchor changes from %+v to %+v", was, is)
	case is.Generation == "" || is == was:
	case foreign:
		a.judge(Foreign, false, n, n, "another program's data is overwritten")
	default:
		adopted := was.Kind == "" || was.Adopted
		anchor := n.path + "/" + znode.Anchor(is.Generation) // it replaces the guard, which proves the node
		a.judge(Generation, is.Adopted == adopted && a.has(txnlog.OpDelete, anchor) && a.has(txnlog.OpCreate, anchor), n, n, "%+v is adopted as %+v, without a guard, an anchor or the right mark", was, is)
	}
}

// resize judges a write of an anchor: a change of a semaphore's number of permits.
func (a *Audit) resize(n *node, generation string, data []byte) {
	s := n.up.lock
	was, _ := s.anchored(generation)
	is, err := znode.DecodeAnchor(data)
	less := was.Capacity() - is.Capacity()
	ok := err == nil && is.Permits == was.Permits && (was.Single || !is.Single) && (less <= 0 || slices.ContainsFunc(s.queue, func(e *node) bool {
		in, unknown, _ := a.in(e)
		return (in || unknown) && max(1, e.entry.Permits) >= less && a.has(txnlog.OpDelete, e.path)
	}))
	a.judge(Resize, ok, n, n, "the permits change from %+v to %+v without an entry that has got those", was, is)
	s.anchor(generation, is)
}

// write judges a write of an entry.
func (a *Audit) write(n *node, data []byte) {
	next, again := znode.ReadEntry(n.entry.Name, data, znode.Stat{EphemeralOwner: n.owner}), n.written == a.txn.Zxid
	was, is, owner := n.entry.record(), next.Record, n.entry.last.session
	twice := a.count(txnlog.OpSetData, n.path) == 2 // then a write of the former owner, on a lower version, fails
	switch own := owner == a.txn.Session || !a.stays(a.sessions[owner], a.session(a.txn.Session)); {
	case !n.entry.Leased():
		a.skip(byFormat)
	case !next.Leased():
		a.judge(Record, false, n, n, "an entry's record is overwritten: %v", next.Err)
	case again: // twice in one transaction
	case was.Broken != nil || is.Broken != nil:
		was.Metadata, is.Broken, is.Metadata = nil, nil, nil // the mark may replace the metadata
		a.judge(Break, was.Broken == nil && twice && fmt.Sprint(is) == fmt.Sprint(was), n, n, "a force-release writes a mark, twice, and nothing else")
	case (is.Incarnation != was.Incarnation || is.Attachment != was.Attachment) && is.Detached: // a client that has attached may detach the entry again
		a.judge(Owner, own && was.Incarnation-is.Incarnation <= 1 && is.Incarnation <= was.Incarnation, n, n, "detached by another client, or from incarnation %d to %d", was.Incarnation, is.Incarnation)
	case is.Incarnation != was.Incarnation || is.Attachment != was.Attachment:
		a.judge(Attach, twice && is.Incarnation == was.Incarnation+1, n, n, "an attach writes twice, and incarnation %d after %d", is.Incarnation, was.Incarnation)
		if over, unknown, counted := a.lasted(n); unknown && !was.Detached {
			a.skip(byClock)
		} else {
			a.judge(Attach, over || was.Detached, n, n, "attached, without a detach, %v after its last write; its lease is %v, and the grace %v", counted, n.entry.TTL(), a.report.Grace)
		}
	default:
		same := is.Owner == was.Owner && is.Host == was.Host && is.PID == was.PID && is.Attempt == was.Attempt
		a.judge(Owner, own && same, n, n, "written by another client")
		a.judge(Record, (is.Granted() || !was.Granted()) && (is.Shared || !was.Shared) && (is.Detached || !was.Detached), n, n, "the record takes back a grant, a downgrade or a detach")
	}
	a.take(n.entry, next)
	n.wrote(a.moment())
	if next.Record.Broken != nil {
		n.entry.last.session = owner
	} else if next.Leased() {
		a.session(a.txn.Session).ours = true
	}
	if was.AcquiredAt == 0 && next.Granted() {
		a.granted(n)
	}
}

// delete judges the deletion of a node, and removes the node from the tree. ended: the end of the
// node's session deleted it.
func (a *Audit) delete(p string, ended bool) {
	n := a.nodes[p]
	if n == nil || n.hidden && n.written == 0 {
		if a.skip(byBeginning); n != nil {
			a.remove(n)
		}
		return
	}
	defer a.remove(n)
	generation, anchor := znode.AnchorOf(path.Base(p))
	switch s := n.lock; {
	case n.unseen, anchor && n.up.unseen:
		a.skip(bySnapshot)
	case anchor:
		a.judge(Empty, generation != n.up.lock.Generation || a.has(txnlog.OpDelete, n.up.path), n, n.up, "an anchor is deleted, and its parent is not")
	case n.entry != nil && !ended:
		a.removed(n)
	case s != nil && s.Adopted && a.session(a.txn.Session).ours:
		a.judge(Empty, s.spent, n, n, "a node that Holdfast did not create is deleted")
	}
}

// removed judges the deletion of an entry, or adds the deletion to the pending ones.
func (a *Audit) removed(n *node) {
	e, by, owner := n.entry, a.session(a.txn.Session), a.sessions[n.entry.last.session]
	over, unknown, counted := a.lasted(n)
	switch {
	case !e.Leased():
		if by.ours && owner != nil && owner.open && owner != by {
			a.judge(Foreign, false, n, n, "an entry of another library, of a session, or without a record of this format is deleted")
		} else if e.czxid != a.txn.Zxid { // else it tested the server
			a.skip(byFormat)
		}
	case owner == by, e.Overflowed(): // names at the counter's end repeat: a delete that is late meets the next one
		a.judge(Delete, true, n, nil, "")
	case e.Record.Broken != nil:
		a.judge(Break, true, n, nil, "")
	case over:
		by.ours = true
		a.judge(Purge, true, n, nil, "")
	case unknown:
		a.skip(byClock)
	case owner == nil || !owner.open:
		a.skip(bySession)
	default:
		r := &removal{node: n, by: by, owner: owner, end: e.last.now + e.TTL(), gaps: e.last.gaps}
		r.violations = []Violation{a.violation(Purge, n, n, "deleted %v after its last write, in session %#x; its owner has %#x, its lease is %v, and the grace %v",
			counted, a.txn.Session, e.last.session, e.TTL(), a.report.Grace)}
		if e.Granted() {
			n.up.lock.lost = append(n.up.lock.lost, r)
		}
		a.pending = append(a.pending, r)
		a.resolve()
	}
}

// held judges the present transaction if it is a holder's: its first and its last operation write
// the same entry.
func (a *Audit) held() {
	if ops := a.txn.Ops; isHeld(ops) {
		if n := a.nodes[ops[0].Path]; n == nil || n.entry == nil || !n.entry.Leased() {
		} else if in, unknown, ahead := a.in(n); unknown {
			a.skip(byContenders)
		} else {
			a.judge(Holder, in, n, ahead, "a transaction of a client that does not hold the lock")
		}
	}
}

// isHeld reports whether the operations are of the form of a holder's transaction.
func isHeld(ops []txnlog.Op) bool {
	last := len(ops) - 1
	return last >= 2 && ops[0].Kind == txnlog.OpSetData && ops[last].Kind == txnlog.OpSetData && ops[0].Path == ops[last].Path
}

// has reports whether the transaction has an operation of the kind on the path.
func (a *Audit) has(kind txnlog.OpKind, path string) bool { return a.count(kind, path) > 0 }

func (a *Audit) count(kind txnlog.OpKind, path string) (n int) {
	for _, o := range a.txn.Ops {
		if o.Kind == kind && o.Path == path {
			n++
		}
	}
	return n
}
