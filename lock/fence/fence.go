// Package fence has the other half of a fencing token: a guarded resource refuses a client
// that has lost the lock.
//
// No lock can stop a process that pauses after its last check, and acts when another holder
// has the lock. But each hold has a higher [lock.Token] than the holds before it. So the
// guarded resource remembers the highest token that it has seen, and refuses lower ones.
// That takes three rules:
//
//   - One step: the token is compared, and remembered, in the same atomic step as the
//     change that it allows. A check before it can be followed by a pause too.
//   - Raise, then read: a holder shows its token before it reads what it will build on.
//     Otherwise the holder before it can still write in between, and that write is lost.
//   - Lasting: the token is kept where what it guards is kept, and for as long.
//
// For resources in the memory of one process [Gate] keeps all three. Writes to ZooKeeper
// need no token: see [lock.Hold.Txn].
//
// # In a SQL database
//
// Keep the token in a row of the same database, as text, which sorts as tokens do:
//
//	CREATE TABLE fences (resource TEXT PRIMARY KEY, token TEXT NOT NULL)
//
// and begin each transaction of a holder, those that only read included, with this
// statement (SQLite's and PostgreSQL's form):
//
//	INSERT INTO fences (resource, token) VALUES ($1, $2)
//	ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE fences.token <= excluded.token
//
// If it changes no row, a later holder has been there: roll back. Otherwise the row is
// locked until the transaction ends, so that it is one step:
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
//		return errors.Join(fence.ErrStale, err) // take the lock anew
//	}
//	// Read and write here, by tx.
//	return tx.Commit()
//
// Several resources are raised in one order, in all transactions. For a single row that carries
// its own token a condition does. Before the first read it is run with NULL for the state, which
// only raises the token:
//
//	UPDATE orders SET state = coalesce($1, state), token = $2 WHERE id = $3 AND token <= $2
//
// Texts are to be compared byte by byte, as COLLATE "C" does in PostgreSQL and a binary
// collation in MySQL. The tests in integration/sql run this against a real database.
package fence

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-io/holdfast/lock"
)

// ErrStale says that a token was refused, because a higher one was seen before. See
// [StaleError].
var ErrStale = errors.New("stale fencing token")

// StaleError tells which token was refused. It is an [ErrStale].
type StaleError struct {
	Resource string
	Token    lock.Token // that was refused
	Highest  lock.Token // that was seen before
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("resource %q: %v %v: a later holder came with %v; take the lock anew", e.Resource, ErrStale, e.Token, e.Highest)
}

// Is makes it an [ErrStale].
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Gate guards resources that live in this process: it remembers the highest token that was
// shown for each, and refuses lower ones. The zero Gate is ready, and remembers nothing. If
// what it guards outlives the process, keep the tokens too, and show them to [Gate.Raise]
// before the first [Gate.Do]. A name once shown takes up memory for as long as the Gate.
// All methods are safe for concurrent use. A Gate must not be copied.
type Gate struct {
	mu        sync.Mutex
	resources map[string]*resource
}

type resource struct {
	turn    chan struct{} // has room for the one call that is let in
	highest lock.Token    // guarded by turn
}

// Do runs f if no higher token than this one was shown for the resource, and returns what
// f does; otherwise it fails with a [StaleError]. While f runs, other calls for the resource
// wait, however high their token. If its ctx ends meanwhile, a call fails with the context's
// error and cause. The same token may come any number of times. The zero token, which no
// hold has, is a [lock.ErrInvalid].
//
// The token is remembered even if f fails. f must not use the Gate for the same resource.
func (g *Gate) Do(ctx context.Context, name string, token lock.Token, f func() error) error {
	if token == (lock.Token{}) {
		return fmt.Errorf("%w: token %v of resource %q: must be that of a hold", lock.ErrInvalid, token, name)
	}
	r := g.resource(name)
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("resource %q: another call is at it: %w: %w", name, ctx.Err(), context.Cause(ctx))
	}
	defer func() { <-r.turn }()
	if token.Compare(r.highest) < 0 {
		return &StaleError{Resource: name, Token: token, Highest: r.highest}
	}
	r.highest = token
	return f()
}

// Raise shows a token and does no more: earlier holders are refused from then on. It fails
// as [Gate.Do] does.
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
