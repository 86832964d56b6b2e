package queue

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
)

// lockState is what this client knows of one lock: its belief about the parent, whether the next
// release may delete the parent, and the places of its goroutines. It exists while it is in use,
// and for about a second after the last entry has left.
type lockState struct {
	name string

	mu       sync.Mutex
	parent   parent
	lastLeft time.Duration // monotonic time at which this client's last entry left; 0: never
	others   bool          // other contenders were seen
	places   []*placed     // for requests that are unlike, sorted by Request.digest
	warned   []string      // the warnings that were logged, see warnOnce

	users  int          // calls of open without a close; the mutex of lockStates guards it
	drafts atomic.Int32 // joins of this client that have no answer yet
}

// lockStates has the states of the locks that this client uses.
type lockStates struct {
	mu    sync.Mutex
	locks map[string]*lockState // by the name of the lock
}

// all returns the states of all locks.
func (l *lockStates) all() []*lockState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.locks))
}

// open returns the state of a lock, with one more user. The caller must close it. With keepParent
// the parent probably exists, so a join with a new state first reads it.
func (l *lockStates) open(lock string, keepParent bool) *lockState {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.locks[lock]
	if s == nil {
		s = &lockState{name: lock}
		if keepParent {
			s.parent.state = unknown
		}
		l.locks[lock] = s
	}
	s.users++
	return s
}

// close takes one user from a lock's state. A state without users is forgotten.
func (l *lockStates) close(s *lockState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(l.locks, s.name)
	}
}

// inUse reports whether a request of this client uses the lock. When the request ends, it owes
// the check again.
func (l *lockStates) inUse(s *lockState) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.users > 1
}

// ServersReset is called when the servers may have lost their data. It drops all beliefs about
// parents.
func (l *lockStates) ServersReset() {
	for _, s := range l.all() {
		s.believe(parent{state: unknown})
	}
}

func (s *lockState) believed() parent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parent
}

func (s *lockState) believe(p parent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parent = p
}

// recall sets the belief that an entry's join had about the parent, if the lock state has lost that
// belief while the entry was held.
func (s *lockState) recall(p parent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parent.state == absent || s.parent.state == unknown {
		s.parent = p
	}
}

// warnOnce reports whether a warning is to be logged: it was not yet, while this client has used the
// lock.
func (s *lockState) warnOnce(warning string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.warned, warning) {
		return false
	}
	s.warned = append(s.warned, warning)
	return true
}

// sawOthers records whether there are contenders besides this client's own entry.
func (s *lockState) sawOthers(others bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.others = others; others {
		s.parent.shared = sharedFor
	}
}

// parentStayed records that the server has refused to delete the parent: mostly because another
// contender has joined. Another program may have written the parent, or an ACL forbids the delete.
func (s *lockState) parentStayed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others, s.parent = true, parent{state: unknown, shared: sharedFor}
}

// versionToWrite returns the version of the parent on which a join writes the parent. A write on the
// version that the client knows is refused if another program has written data into the node. It is
// -1, any version, while other clients join, or another join of this client is under way: joins must
// not collide. So in a lock that several clients use, another program's data may be overwritten, which
// the join then sees by the version (joined). ZooKeeper leaves no choice: only a reply to a write of
// the parent counts its children, and only one of two writes on the same version is applied.
func (s *lockState) versionToWrite(p *parent) int32 {
	if p.shared > 0 || s.drafts.Load() > 1 {
		return -1
	}
	return p.version
}

// noteLeft records now as the time at which this client's last entry has left the lock.
func (s *lockState) noteLeft(now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastLeft = now
}

// stays reports whether the parent stays when an entry leaves: there are other contenders, or
// another entry of this client has left less than usedAgain ago.
func (s *lockState) stays(now time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.others || s.lastLeft != 0 && now-s.lastLeft < usedAgain
}

// check calls lease.Broken if an invariant is broken; s.mu is held.
func (s *lockState) check() {
	if lease.Broken == nil {
		return
	}
	for _, p := range s.places {
		if err := p.Check(); err != nil {
			lease.Broken(fmt.Errorf("lock %q: %w", s.name, err))
		}
		for _, e := range p.Held() {
			if e.place != p || e.lock != s {
				lease.Broken(fmt.Errorf("lock %q: place %p has entry %s, which has place %p", s.name, p, e.Path, e.place))
			}
		}
	}
}
