// Package gocronlock makes gocron take Holdfast's locks, so that of several processes with the same
// jobs only one runs a job. With a [Locker] any process may run a job, and each job has its own
// lock. With an [Elector] the leader runs all jobs. With [Ticks] each tick of a schedule runs once.
//
// gocron plans by the wall clock of each process. So a Locker and an Elector do not promise one run
// at each planned time: processes whose clocks differ may run a short job twice, unless the splay
// given to [NewLocker] prevents it, and a new leader may repeat the previous leader's last run.
// Jobs are not informed that a lock was lost.
package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-io/holdfast/lock"
)

var (
	_ gocron.Locker  = (*Locker)(nil)
	_ gocron.Elector = (*Elector)(nil)
)

// Locker is a locker of gocron: pass it to gocron.WithDistributedLocker. It is safe for concurrent
// use.
type Locker struct {
	locks  *lock.Client
	prefix string
	splay  time.Duration
	opts   []lock.LockOption
}

// NewLocker returns a locker that takes the mutex prefix/job for each job, with the options. Give
// jobs names with gocron.WithName; they must be valid in names of locks. A job without a name has that
// of its function, so two unnamed jobs of one function have one lock, and drop each other's runs. An
// event listener (gocron.AfterLockError) shows dropped runs. NewLocker asks no server.
//
// splay is the shortest time for which a lock is held; 0 means that it is unlocked at the end of
// the run. Choose it longer than the difference of the processes' clocks, and shorter than the
// interval of a job. Otherwise a second process runs a short job again when its own clock reaches
// the planned time. If the client closes, its locks end at once.
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

// Lock takes the lock of a job. If it is held, Lock fails at once with a [lock.HeldError], and gocron
// skips the run. The message says if this process holds it.
func (l *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	hold, err := l.locks.Mutex(l.prefix+"/"+job, l.opts...).TryLock(ctx)
	var other *lock.HeldError
	if errors.As(err, &other) {
		if host, unknown := os.Hostname(); unknown == nil && other.Host == host && other.PID == os.Getpid() {
			err = fmt.Errorf("%w; this process holds it: for an earlier run, its splay, or another job of the same name (see gocron.WithName)", err)
		}
	}
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

// Unlock unlocks the lock: at once if the splay is over, otherwise in the background at its end. In
// the second case Unlock does not wait: it returns the [lock.LostError] if the hold is lost
// already, and otherwise nil.
func (h *held) Unlock(context.Context) error {
	if left := time.Until(h.until); left > 0 {
		time.AfterFunc(left, func() { _ = h.hold.Unlock() }) // the client logs a failure
		return h.hold.Err()
	}
	return h.hold.Unlock()
}

// ErrNotLeader says that this process does not lead. gocron then skips the run.
var ErrNotLeader = errors.New("another candidate leads, or none")

// Elector is a candidate in an election, and an elector of gocron: pass it to
// gocron.WithDistributedElector. [Elector.Close] withdraws the candidate. All methods are safe for
// concurrent use.
type Elector struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu         sync.Mutex
	leadership *lock.Leadership // the last one; nil: there was none
	err        error            // why the last campaign failed; nil: it succeeded, or goes on
	over       bool             // the candidate has given up
}

// Pauses before the next campaign: the first, and the longest. They double after each failure.
const (
	firstPause = time.Second
	mostPause  = time.Minute
)

// NewElector joins the election with a value, such as the address of this process, and returns at
// once. In the background the candidate campaigns until Close, also after it has lost a leadership or
// a campaign has failed, for example because an ACL or a quota denied it. It gives up only if the
// client is closed, or the value or the election's options are not allowed.
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
	for pause := firstPause; ; {
		l, err := election.Campaign(ctx, value)
		over := errors.Is(err, lock.ErrClosed) || errors.Is(err, lock.ErrInvalid)
		e.mu.Lock()
		e.leadership, e.err, e.over = l, err, over
		e.mu.Unlock()
		switch {
		case over || ctx.Err() != nil:
			return
		case err == nil:
			pause = firstPause
			select {
			case <-l.Context().Done():
			case <-ctx.Done():
				return
			}
		default:
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
			pause = min(2*pause, mostPause)
		}
	}
}

// IsLeader returns nil if this process leads, and [ErrNotLeader] if it does not, with the reason if
// the last campaign failed. If the candidate gave up, for example because the client was closed,
// IsLeader returns the reason alone. gocron shows neither: call IsLeader in a health check.
func (e *Elector) IsLeader(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.over:
		return e.err
	case e.err != nil:
		return fmt.Errorf("%w: the last campaign failed, and is tried again: %w", ErrNotLeader, e.err)
	case e.leadership == nil || e.leadership.Remaining() == 0:
		return ErrNotLeader
	}
	return nil
}

// Close withdraws the candidate. If it leads, it resigns, and another candidate leads at once. Shut
// down the scheduler first, so that none of its jobs still runs.
func (e *Elector) Close() error {
	e.cancel()
	<-e.done
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.leadership
	e.leadership, e.err, e.over = nil, ErrNotLeader, true
	if l == nil {
		return nil
	}
	return l.Resign()
}
