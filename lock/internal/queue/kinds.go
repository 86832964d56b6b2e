package queue

import (
	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// What follows differs from kind to kind of locks, beside [znode.Admit].

// listsAnyway reports whether to write the parent tells nothing about the contender's
// place: who can share the lock with those who are there lists, and joins had better not
// collide.
func (j *joining) listsAnyway(f facts) bool {
	switch {
	case f.deserted():
		return false
	case j.Kind == znode.Semaphore:
		return j.fits(f.data) && max(f.children, j.door.ours()) <= f.data.Capacity()
	}
	return j.Role == znode.Shared
}

// beside is the attempt of one who joins beside an entry of this process without writing
// the parent: it lists anyway, and where that entry stands ours may.
func (j *joining) beside() (a attempt, ok bool) {
	f, _ := j.door.look()
	return attempt{parent: f}, j.Role == znode.Shared && j.door.ours() > 0 && f.exists && j.fits(f.data)
}

// prefix is the name of the contender's entry, without the sequence.
func (c *contender) prefix(id string) string {
	switch {
	case c.Kind == znode.Semaphore:
		return znode.PermitsPrefix(id, c.Permits)
	case c.Priority != 0:
		return znode.PermitsPrefix(id, c.Priority)
	}
	return znode.Prefix(id, c.Role)
}

// firstGrant is what an entry tells that is made with its parent.
func (c *contender) firstGrant(acquired int64) lease.Grant {
	g := lease.Grant{Acquired: acquired}
	if acquired != 0 && c.Kind == znode.Semaphore {
		g.Ahead = []string{}
	}
	return g
}

// fits reports whether a parent's data is as this contender has it.
func (c *contender) fits(data znode.Parent) bool {
	return data.Kind == c.Kind && (c.Kind != znode.Semaphore || data.Permits == c.Capacity)
}

// placeAlone is the position of who joined where nobody was.
func (c *contender) placeAlone(e *Entry) position {
	if c.Kind == znode.Semaphore {
		e.TellAhead([]string{})
		if znode.Admit([]znode.Name{e.Name()}, 0, c.rules()) >= 0 {
			return position{} // there are less permits than it asks for
		}
	}
	return position{admitted: true}
}
