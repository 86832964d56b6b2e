package queue

import (
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// factsLast is for how long what is known of a parent is used after the last entry of
// ours has left it: for parents that linger, and not for much longer than they do. Each
// incarnation begins with version 1, so that of a busy lock that is made anew again and
// again soon has any version.
const factsLast = 2 * lingerTime

// aloneAfter is how long nobody else must have been seen at a lock to be taken for alone.
const aloneAfter = 10 * time.Second

// facts are what a reply showed of a lock's parent. They belong to one incarnation of
// it: a parent that was deleted and made again, by us or by somebody else, counts its
// versions from 0 again, so a version alone says nothing.
type facts struct {
	exists   bool  // false: it was not there, or nothing is known
	stale    bool  // somebody has changed it since: read before acting on it
	ours     bool  // it bears our mark in its ACL: so it never becomes one that is adopted
	tailLeft bool  // the entry that joined last was ours, and has left
	version  int32 // of the data
	children int32
	created  int32 // children, ever
	czxid    int64
	data     znode.Parent
	proven   time.Duration // monotonic time until which an entry of ours stood below it; 0: none did
	seenAt   time.Duration // monotonic time at which that was so, or shortly before or after
	othersAt time.Duration // monotonic time at which others were seen at the lock last; 0: never
}

func factsOf(data znode.Parent, stat *zk.Stat, at time.Duration) facts {
	return facts{
		exists: true, seenAt: at, czxid: stat.Czxid, version: stat.Version, data: data,
		// ZooKeeper counts creates and deletes of children together.
		children: stat.NumChildren, created: int32((uint32(stat.Cversion) + uint32(stat.NumChildren)) / 2),
	}
}

// usable reports whether a write may rest on the facts without another look. Proven says
// that the write itself proves that the parent is the same one. A parent of ours is at
// version 1 or more; one at 0 somebody else may have made just now.
//
// Without such proof time has to tell, see factsLast. Where others are about, who may
// delete it, one of a low version somebody else may have made just now, too. Kept says
// that nobody deletes it.
func (f facts) usable(now time.Duration, proven, kept bool) bool {
	if !f.exists || f.stale || f.version <= 0 || proven {
		return f.exists && !f.stale && f.version > 0
	}
	alone := f.othersAt == 0 || now-f.othersAt > aloneAfter
	if !alone && !kept && f.version < oldEnough {
		return false
	}
	return f.proven != 0 && now-f.proven <= factsLast
}

// lastJoined is the name of the entry that joined last, and whether it may be there still.
// It is a guess: others may have joined without writing the parent.
func (f facts) lastJoined() (node string, there bool) {
	if f.data.Tail == "" || f.created == 0 {
		return "", false
	}
	node = znode.Predict(f.data.Tail, f.created-1)
	return node, node != "" && f.children > 0 && !f.tailLeft
}

// deserted reports whether nobody was there but perhaps one of ours, who has left.
func (f facts) deserted() bool { return f.children == 0 || f.children == 1 && f.tailLeft }

// current are the facts, as if nobody had changed the parent since.
func (f facts) current() facts {
	f.stale = false
	return f
}
