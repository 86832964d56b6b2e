// Package gocronlock makes gocron take Holdfast's locks: of several processes with the same jobs, one
// runs each job. With a [Locker] any process may run a job, and each job has its own lock. With an
// [Elector] the leader runs all jobs. With [Ticks] each tick of a schedule runs once.
//
// gocron plans by the wall clock of each process. So a Locker and an Elector do not promise one run
// at each planned time. [NewLocker] has a remedy for short jobs. A new leader may repeat the last
// leader's last run. Jobs do not learn that a lock was lost.
package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-io/holdfast/lock"
)

var (
	_ gocron.Locker  = (*Locker)(nil)
	_ gocron.Elector = (*Elector)(nil)
)

// Locker is a locker of gocron: pass it to gocron.WithDistributedLocker.
type Locker struct {
	locks  *lock.Client
	prefix string
	splay  time.Duration
	opts   []lock.LockOption
}

// NewLocker returns a locker. The lock of a job is named prefix/job: give jobs names with
// gocron.WithName that are valid in names of locks.
//
// splay is the shortest time for which a lock is held. It must be longer than the difference of the
// processes' clocks, and shorter than the interval of a job. Without it, a second process runs a
// short job again when its own clock says so. If the client closes, its locks end at once.
func NewLocker(locks *lock.Client, prefix string, splay time.Duration, opts ...lock.LockOption) (*Locker, error) {
	switch {
	case locks == nil:
		return nil, fmt.Errorf("%w: client nil: must not be nil", lock.ErrInvalid)
	case splay < 0:
		return nil, fmt.Errorf("%w: splay %v: must not be negative", lock.ErrInvalid, splay)
	}
	if err := locks.Mutex(prefix, opts...).Validate(); err != nil {
		return nil, err
	}
	return &Locker{locks, prefix, splay, opts}, nil
}

// Lock takes the lock of a job. It does not wait: if another process has the lock, the error is a
// [lock.HeldError], and gocron skips the run.
func (l *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	hold, err := l.locks.Mutex(l.prefix+"/"+job, l.opts...).TryLock(ctx)
	if err != nil {
		return nil, err
	}
	return &held{hold, time.Now().Add(l.splay)}, nil
}

// held is the lock of a running job.
type held struct {
	hold  *lock.Hold
	until time.Time // end of the splay
}

// Unlock unlocks the lock now, or in the background when the splay is over.
func (h *held) Unlock(context.Context) error {
	if left := time.Until(h.until); left > 0 {
		time.AfterFunc(left, func() { _ = h.hold.Unlock() }) // the client logs a failure
		return h.hold.Err()
	}
	return h.hold.Unlock()
}

// ErrNotLeader says that this process does not lead.
var ErrNotLeader = errors.New("another candidate leads, or none")

// Elector is a candidate for leader, and an elector of gocron: pass it to
// gocron.WithDistributedElector. Close withdraws the candidate.
type Elector struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu         sync.Mutex
	leadership *lock.Leadership // nil: does not lead
	err        error            // why the candidacy ended
}

// NewElector joins the election with a value, such as the address of this process, and returns at
// once. The candidate campaigns until Close, also after it has lost a leadership.
func NewElector(election *lock.Election, value string) (*Elector, error) {
	if election == nil {
		return nil, fmt.Errorf("%w: election nil: must come from a client", lock.ErrInvalid)
	}
	if err := election.Validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &Elector{cancel: cancel, done: make(chan struct{})}
	go e.campaign(ctx, election, value)
	return e, nil
}

func (e *Elector) campaign(ctx context.Context, election *lock.Election, value string) {
	defer close(e.done)
	for {
		l, err := election.Campaign(ctx, value)
		e.mu.Lock()
		e.leadership, e.err = l, err
		e.mu.Unlock()
		if err != nil {
			return
		}
		select {
		case <-l.Context().Done():
		case <-ctx.Done():
			return
		}
	}
}

// IsLeader returns nil if this process leads, and [ErrNotLeader] if not. If the candidacy has
// ended, because the client was closed for example, it returns the reason.
func (e *Elector) IsLeader(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil && (e.leadership == nil || e.leadership.Remaining() == 0) {
		return ErrNotLeader
	}
	return e.err
}

// Close withdraws the candidate. If it leads, it resigns, and another one leads at once. Shut the
// scheduler down before, so that none of its jobs still runs.
func (e *Elector) Close() error {
	e.cancel()
	<-e.done
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.leadership
	e.leadership, e.err = nil, ErrNotLeader
	if l == nil {
		return nil
	}
	return l.Resign()
}
