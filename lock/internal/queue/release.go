package queue

import (
	"math"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// release says that an entry has gone that held the lock alone. Nobody was ahead of it
// then, and nobody joins ahead of another: so none of those that were created before it is
// there, for as long as its parent stands. It says nothing of another incarnation of that,
// whose entries are numbered anew.
type release struct {
	incarnation int64  // Czxid of the parent
	node        string // name of the entry
	seq         int32
}

// releaseOf is what the data of a parent tells; the zero release if it tells nothing.
func releaseOf(data znode.Parent) release {
	n, ok := znode.Parse(data.Released)
	if !ok || !n.Ours() || n.Overflowed() || data.Below == 0 {
		return release{}
	}
	return release{incarnation: data.Below, node: n.Node, seq: n.Seq}
}

// releaseBy is what is known when an entry of ours has gone.
func releaseBy(e *Entry, n znode.Name) release {
	if e.HeldSince() == 0 || e.incarnation == 0 || !e.Kind.Alone(n) || n.Overflowed() {
		return release{}
	}
	return release{incarnation: e.incarnation, node: n.Node, seq: n.Seq}
}

// tell writes it into the data of a parent.
func (r release) tell(data *znode.Parent) { data.Released, data.Below = r.node, r.incarnation }

// after is the later one of two: of another parent the one that was made later, since a
// node can be made again only after it was deleted.
func (r release) after(other release) release {
	if r.incarnation > other.incarnation || r.incarnation == other.incarnation && r.seq > other.seq {
		return r
	}
	return other
}

// released notes a release.
func (d *door) released(r release) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.release = r.after(d.release)
}

// lastRelease is the last known release below that incarnation of the parent.
func (d *door) lastRelease(incarnation int64) release {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.release.incarnation != incarnation || incarnation == 0 {
		return release{}
	}
	return d.release
}

// goneUpTo is the sequence up to which nobody is ahead of an entry of ours for certain;
// the least there is if nothing is known.
func (d *door) goneUpTo(e *Entry) int32 {
	if r := d.lastRelease(e.incarnation); r.node != "" && !e.Name().Overflowed() {
		return r.seq
	}
	return math.MinInt32
}
