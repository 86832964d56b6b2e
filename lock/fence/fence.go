// Package fence is the resource's half of fencing: a guarded resource refuses a client that has
// lost the lock.
//
// No lock can stop a process that pauses after its last check, and writes when another client holds
// the lock. But each hold has a higher [lock.Token] than all earlier holds. So the guarded resource
// remembers the highest token that it has seen, and refuses lower ones. There are three rules:
//
//   - One step: compare and store the token in the same atomic step as the change that it allows.
//     Otherwise the process may pause between check and change.
//   - Raise, then read: store the holder's token, if it is higher, before you read the data that the
//     change depends on. Otherwise the previous holder can still write between read and change, and
//     that write is lost.
//   - Durability: store the token with the data that it guards, and keep it as long as the data.
//
// For resources in the memory of one process [Gate] follows all three. Writes to ZooKeeper need
// no token: see [lock.Hold.Txn].
//
// # In a SQL database
//
// Keep the token in a row of the same database. A token is a text that sorts higher with each grant:
//
//	CREATE TABLE fences (resource TEXT PRIMARY KEY, token TEXT NOT NULL)
//
// Begin each transaction of a holder, also one that only reads, with this statement (SQLite's and
// PostgreSQL's form):
//
//	INSERT INTO fences (resource, token) VALUES ($1, $2)
//	ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE fences.token <= excluded.token
//
// If the statement changes no row, a later holder has stored its token: roll back. Otherwise the row
// is locked until the transaction ends, so the check and the change are one step:
//
//	tx, err := db.BeginTx(ctx, nil)
//	if err != nil {
//		return err
//	}
//	defer tx.Rollback()
//	result, err := tx.ExecContext(ctx, raise, "accounts", hold.Token().String())
//	if err != nil {
//		return err
//	}
//	if n, err := result.RowsAffected(); err != nil || n == 0 {
//		return errors.Join(fence.ErrStale, err) // take the lock again
//	}
//	// Read and write here, by tx.
//	return tx.Commit()
//
// If a transaction changes several resources, raise their tokens in the same order in all
// transactions. If a change is of a single row that has its own token, this one statement suffices.
// Before the first read run it with NULL for the state; it then only raises the token:
//
//	UPDATE orders SET state = coalesce($1, state), token = $2 WHERE id = $3 AND token <= $2
//
// The database must compare the texts byte by byte, as COLLATE "C" does in PostgreSQL and a
// binary collation in MySQL. The tests in integration/sql run this against a real database.
package fence

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-io/holdfast/lock"
)

// ErrStale says that a token was refused, because a higher one was shown before. Stop the work, and
// take the lock again. See [StaleError].
var ErrStale = errors.New("stale fencing token")

// StaleError has the refused token. It matches [ErrStale].
type StaleError struct {
	Resource string     // name of the resource
	Token    lock.Token // the refused token
	Highest  lock.Token // the highest token shown before
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("resource %q: %v %v: a later holder came with %v; take the lock anew", e.Resource, ErrStale, e.Token, e.Highest)
}

// Is reports whether the target is [ErrStale].
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Gate guards resources that live in this process. For each it remembers the highest token shown,
// and refuses lower ones. The zero Gate is ready, and remembers nothing. If the resources outlive
// the process, store the tokens too, and show them to [Gate.Raise] before the first [Gate.Do]. Each
// resource takes up memory as long as the Gate exists. All methods are safe for concurrent use. A
// Gate must not be copied.
type Gate struct {
	mu        sync.Mutex
	resources map[string]*resource
}

type resource struct {
	turn    chan struct{} // buffer of one; full while a call runs
	highest lock.Token    // guarded by turn
}

// Do runs f unless a higher token was shown for the named resource, and returns f's error. If one
// was shown, Do fails with a [StaleError]. The same token may be shown any number of times. While f
// runs, other calls for the resource wait, however high their token. If ctx has ended, or ends
// while the call waits, Do fails with the context's error and cause. The zero token, which no hold
// has, a nil ctx and a nil f are a [lock.ErrInvalid].
//
// The token is remembered even if f fails. f must not use the Gate for the same resource: it would
// wait for itself.
func (g *Gate) Do(ctx context.Context, name string, token lock.Token, f func() error) error {
	switch {
	case token == lock.Token{}:
		return fmt.Errorf("%w: token %v of resource %q: must be that of a hold", lock.ErrInvalid, token, name)
	case ctx == nil:
		return fmt.Errorf("%w: context of a call for resource %q: must not be nil", lock.ErrInvalid, name)
	case f == nil:
		return fmt.Errorf("%w: function of a call for resource %q: must not be nil", lock.ErrInvalid, name)
	case ctx.Err() != nil:
		return fmt.Errorf("resource %q: %w: %w", name, ctx.Err(), context.Cause(ctx))
	}
	r := g.resource(name)
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("resource %q: another call is running: %w: %w", name, ctx.Err(), context.Cause(ctx))
	}
	defer func() { <-r.turn }()
	if token.Compare(r.highest) < 0 {
		return &StaleError{Resource: name, Token: token, Highest: r.highest}
	}
	r.highest = token
	return f()
}

// Raise shows a token and does nothing else: from then on lower ones are refused. It fails as
// [Gate.Do] does.
func (g *Gate) Raise(ctx context.Context, name string, token lock.Token) error {
	return g.Do(ctx, name, token, func() error { return nil })
}

func (g *Gate) resource(name string) *resource {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.resources[name]
	if r == nil {
		r = &resource{turn: make(chan struct{}, 1)}
		if g.resources == nil {
			g.resources = map[string]*resource{}
		}
		g.resources[name] = r
	}
	return r
}
