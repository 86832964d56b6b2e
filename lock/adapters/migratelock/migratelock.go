// Package migratelock makes golang-migrate take a Holdfast lock. If several processes start at
// once, one migrates the database. The other processes wait, and find nothing left to do. The lock
// works for any database of golang-migrate, also those whose drivers lock only within their
// process.
package migratelock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/golang-migrate/migrate/v4/database"

	"github.com/holdfast-io/holdfast/lock"
)

// Driver is a database driver whose lock is a mutex. The wrapped driver does all else, and uses its
// own lock only while it is created.
type Driver struct {
	database.Driver
	mutex *lock.Mutex
	wait  time.Duration

	open   context.Context // ends with Close
	close  context.CancelFunc
	locked atomic.Bool               // set by Lock, also while it waits
	hold   atomic.Pointer[lock.Hold] // nil: not locked
}

// New returns a driver that takes the mutex. All processes that migrate the same database must use
// a mutex of the same name.
//
// wait is the longest time that Lock waits for other processes. Make it shorter than the
// LockTimeout of the migrate.Migrate, which is 15 s by default. After LockTimeout migrate ignores
// the result of Lock; then Close ends the wait, or unlocks the mutex.
func New(driver database.Driver, mutex *lock.Mutex, wait time.Duration) (*Driver, error) {
	switch {
	case driver == nil:
		return nil, fmt.Errorf("%w: driver nil: must be a driver of golang-migrate", lock.ErrInvalid)
	case mutex == nil:
		return nil, fmt.Errorf("%w: mutex nil: must come from a client", lock.ErrInvalid)
	case wait <= 0:
		return nil, fmt.Errorf("%w: wait %v: must be positive", lock.ErrInvalid, wait)
	}
	if err := mutex.Validate(); err != nil {
		return nil, err
	}
	d := &Driver{Driver: driver, mutex: mutex, wait: wait}
	d.open, d.close = context.WithCancel(context.Background())
	return d, nil
}

// Open returns a driver for the database at the URL, with the same mutex and wait.
func (d *Driver) Open(url string) (database.Driver, error) {
	inner, err := d.Driver.Open(url)
	if err != nil {
		return nil, err
	}
	return New(inner, d.mutex, d.wait)
}

// Lock waits for the mutex. It fails with [database.ErrLocked] if this driver has locked the mutex
// already, or waits for it. It also fails with ErrLocked if another process holds the mutex until
// the wait is over; then the error names that process.
func (d *Driver) Lock() error {
	if d.locked.Swap(true) {
		return database.ErrLocked
	}
	ctx, cancel := context.WithTimeout(d.open, d.wait)
	defer cancel()
	hold, err := d.mutex.Lock(ctx)
	if err != nil {
		d.locked.Store(false)
		if errors.Is(err, lock.ErrHeld) {
			return fmt.Errorf("%w: %w", database.ErrLocked, err)
		}
		return err
	}
	d.hold.Store(hold)
	if d.open.Err() != nil {
		_ = d.Unlock()
		return d.open.Err()
	}
	return nil
}

// Unlock unlocks the mutex. If the hold was lost meanwhile, Unlock returns the [lock.LostError]:
// another process may have migrated at the same time. If the mutex is not locked, Unlock returns
// [database.ErrNotLocked].
func (d *Driver) Unlock() error {
	hold := d.hold.Swap(nil)
	if hold == nil {
		return database.ErrNotLocked
	}
	defer d.locked.Store(false)
	return hold.Unlock()
}

// Close unlocks the mutex if this driver holds it, ends a Lock that waits for it, and closes the
// wrapped driver.
func (d *Driver) Close() error {
	d.close()
	err := d.Unlock()
	if err == database.ErrNotLocked {
		err = nil
	}
	return errors.Join(err, d.Driver.Close())
}

// lost returns the [lock.LostError] if the driver holds the mutex and its hold was lost.
func (d *Driver) lost() error {
	if hold := d.hold.Load(); hold != nil {
		return hold.Err()
	}
	return nil
}

// Run applies a migration. If the hold was lost, Run returns the [lock.LostError] instead.
func (d *Driver) Run(migration io.Reader) error {
	if err := d.lost(); err != nil {
		return err
	}
	return d.Driver.Run(migration)
}

// SetVersion stores the version. If the hold was lost, SetVersion still stores the end of a
// migration. The start of the next migration, which has dirty set, then fails with the
// [lock.LostError].
func (d *Driver) SetVersion(version int, dirty bool) error {
	if err := d.lost(); err != nil && dirty {
		return err
	}
	return d.Driver.SetVersion(version, dirty)
}

// Drop deletes everything in the database. If the hold was lost, Drop returns the [lock.LostError]
// instead.
func (d *Driver) Drop() error {
	if err := d.lost(); err != nil {
		return err
	}
	return d.Driver.Drop()
}
