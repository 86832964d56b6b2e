// Package gooselock makes goose take a Holdfast lock. If several processes start at once, one
// migrates the database. The other processes wait, and find nothing left to do. The lock works for
// any database of goose, also those for which goose has no lock.
package gooselock

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"

	goose "github.com/pressly/goose/v3/lock"

	"github.com/holdfast-io/holdfast/lock"
)

// Locker is a locker of goose: pass it to goose.WithLocker. It is safe for concurrent use, and
// several providers can share it.
type Locker struct {
	mutex *lock.Mutex

	mu    sync.Mutex
	holds []*lock.Hold // more than one if the mutex was re-entered
}

var (
	_ goose.Locker        = (*Locker)(nil)
	_ goose.SessionLocker = sessionLocker{}
)

// New returns a locker that takes the mutex. All processes that migrate the same database must use
// a mutex of the same name.
func New(mutex *lock.Mutex) (*Locker, error) {
	if mutex == nil {
		return nil, fmt.Errorf("%w: mutex nil: must come from a client", lock.ErrInvalid)
	}
	if err := mutex.Validate(); err != nil {
		return nil, err
	}
	return &Locker{mutex: mutex}, nil
}

// Lock waits for the mutex. It fails as [lock.Mutex.Lock] does, for example with ctx's error. If
// Lock fails, goose migrates nothing.
func (l *Locker) Lock(ctx context.Context, _ *sql.DB) error {
	hold, err := l.mutex.Lock(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds = append(l.holds, hold)
	return nil
}

// Unlock unlocks the mutex. If the hold was lost meanwhile, Unlock returns the [lock.LostError],
// and goose returns it too: another process may have migrated at the same time.
func (l *Locker) Unlock(_ context.Context, _ *sql.DB) error {
	l.mu.Lock()
	last := len(l.holds) - 1
	if last < 0 {
		l.mu.Unlock()
		return lock.ErrUnlocked
	}
	hold := l.holds[last]
	l.holds = slices.Delete(l.holds, last, last+1)
	l.mu.Unlock()
	return hold.Unlock()
}

// Session returns the locker for goose.WithSessionLocker. The lock does not depend on the session
// with the database.
func (l *Locker) Session() goose.SessionLocker { return sessionLocker{l} }

type sessionLocker struct{ l *Locker }

func (s sessionLocker) SessionLock(ctx context.Context, _ *sql.Conn) error { return s.l.Lock(ctx, nil) }

func (s sessionLocker) SessionUnlock(ctx context.Context, _ *sql.Conn) error {
	return s.l.Unlock(ctx, nil)
}
