package sql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/fence"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The holds have no renewals, so that a pause ends them.
const (
	ttl   = 300 * time.Millisecond
	grace = 100 * time.Millisecond
)

const schema = `
	CREATE TABLE accounts (id TEXT PRIMARY KEY, balance INTEGER NOT NULL);
	CREATE TABLE fences (resource TEXT PRIMARY KEY, token TEXT NOT NULL);
	INSERT INTO accounts VALUES ('till', 0)`

// raise is the first statement of each holder's transaction. If a later holder has written before,
// the statement changes no row.
const raise = `
	INSERT INTO fences (resource, token) VALUES ($1, $2)
	ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE fences.token <= excluded.token`

// service is one process of a service, with a client for locks and a connection to the database.
type service struct {
	*testing.T
	locks *lock.Client
	db    *sql.DB
}

// bench has what all processes of a test share: the ensemble, and the file of the database.
type bench struct {
	*testing.T
	ctx      context.Context
	ensemble *locktest.Ensemble
	file     string
}

func newBench(t *testing.T) *bench {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	b := &bench{t, ctx, locktest.Start(t, locktest.Options{}), filepath.Join(t.TempDir(), "shop.db")}
	iferr.Fatal(t, iferr.Of(b.service().db.Exec(schema)))
	return b
}

func (b *bench) service() *service {
	locks, err := lock.Dial(b.ctx, b.ensemble.Servers(), lock.WithDialer(b.ensemble.Dial), lock.WithTTL(ttl), lock.WithGrace(grace))
	iferr.Fatal(b, err)
	// A transaction that is going to write waits at its beginning until other writers have ended.
	db, err := sql.Open("sqlite", "file:"+b.file+"?_pragma=busy_timeout(30000)&_pragma=synchronous(off)&_txlock=immediate")
	iferr.Fatal(b, err)
	db.SetMaxOpenConns(1)
	b.Cleanup(func() {
		iferr.Error(b, errors.Join(locks.Close(), db.Close()))
	})
	return &service{b.T, locks, db}
}

// take takes the lock of the till, for one lease.
func (s *service) take(ctx context.Context) *lock.Hold {
	s.Helper()
	hold, err := s.locks.Mutex("till", lock.WithMaxHold(ttl)).Lock(ctx)
	iferr.Fatal(s, err)
	return hold
}

// transact runs f in a transaction. It fails with ErrStale if a later holder has written before.
// With a nil token, the transaction is not fenced.
func (s *service) transact(ctx context.Context, token *lock.Token, f func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if token != nil {
		result, err := tx.ExecContext(ctx, raise, "till", token.String())
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return errors.Join(fence.ErrStale, err)
		}
	}
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// balance reads the amount in the till.
func (s *service) balance(ctx context.Context, token *lock.Token) (balance int, err error) {
	err = s.transact(ctx, token, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT balance FROM accounts WHERE id = 'till'`).Scan(&balance)
	})
	return balance, err
}

// setBalance writes the amount in the till.
func (s *service) setBalance(ctx context.Context, token *lock.Token, balance int) error {
	return s.transact(ctx, token, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE accounts SET balance = $1 WHERE id = 'till'`, balance)
		return err
	})
}

// TestPausedHolder: a holder reads the balance and is paused. Its lease ends, the next holder pays
// in, and the first holder writes. With fencing the database refuses the late write. Without
// fencing the payment is lost.
func TestPausedHolder(t *testing.T) {
	for _, fenced := range []bool{true, false} {
		t.Run(fmt.Sprintf("fenced %v", fenced), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			token := func(hold *lock.Hold) *lock.Token {
				if t := hold.Token(); fenced {
					return &t
				}
				return nil
			}
			payIn := func(s *service, amount int, pause func()) error {
				hold := s.take(b.ctx)
				defer hold.Unlock()
				before, err := s.balance(b.ctx, token(hold))
				if err != nil {
					return err
				}
				pause()
				return s.setBalance(b.ctx, token(hold), before+amount)
			}
			first, second := b.service(), b.service()
			paused, paidIn := make(chan bool), make(chan bool)
			late := make(chan error, 1)
			go func() {
				late <- payIn(first, 5, func() {
					close(paused)
					<-paidIn
				})
			}()
			<-paused
			if err := payIn(second, 7, func() {}); err != nil { // gets the lock when the first one's lease has ended
				t.Fatal(err)
			}
			close(paidIn)

			err, want := <-late, 7
			if !fenced {
				want = 5 // the late write has overwritten 7 with 5
			}
			if errors.Is(err, fence.ErrStale) != fenced {
				t.Errorf("the late write: %v", err)
			}
			if got, err := second.balance(b.ctx, nil); err != nil || got != want {
				t.Errorf("%d in the till, %v, want %d", got, err, want)
			}
		})
	}
}

// TestRaiseThenRead: if a holder raises its token at its read, a late write of the previous holder
// is refused. If it raises the token only at its write, the late write is acknowledged and lost.
func TestRaiseThenRead(t *testing.T) {
	for _, raised := range []bool{true, false} {
		t.Run(fmt.Sprintf("raised %v", raised), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			first, second := b.service(), b.service()
			earlier := first.take(b.ctx)
			<-earlier.Context().Done() // the first service is paused, and does not check its hold
			later := second.take(b.ctx)
			defer later.Unlock()
			old, young := earlier.Token(), later.Token()

			shown := &young
			if !raised {
				shown = nil
			}
			before, err := second.balance(b.ctx, shown)
			iferr.Fatal(t, err)
			late := first.setBalance(b.ctx, &old, 5)
			iferr.Error(t, second.setBalance(b.ctx, &young, before+7))
			if errors.Is(late, fence.ErrStale) != raised {
				t.Errorf("the late write, whose payment is lost: %v", late)
			}
			if got, err := second.balance(b.ctx, nil); err != nil || got != 7 {
				t.Errorf("%d in the till, %v", got, err)
			}
		})
	}
}

// TestConditionOnOneRow: a row with its own token needs no other table. After a later holder has
// raised the token, a write of the earlier holder is refused.
func TestConditionOnOneRow(t *testing.T) {
	b := newBench(t)
	s := b.service()
	iferr.Fatal(t, iferr.Of(s.db.Exec(`CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT, token TEXT NOT NULL DEFAULT ''); INSERT INTO orders (id) VALUES (42)`)))
	update := func(token lock.Token, state string) bool {
		result, err := s.db.ExecContext(b.ctx, `UPDATE orders SET state = coalesce($1, state), token = $2 WHERE id = $3 AND token <= $2`,
			sql.NullString{String: state, Valid: state != ""}, token.String(), 42)
		iferr.Fatal(t, err)
		n, err := result.RowsAffected()
		return err == nil && n == 1
	}
	first := s.take(b.ctx)
	if !update(first.Token(), "") || !update(first.Token(), "packed") {
		t.Error("the first holder is refused")
	}
	<-first.Context().Done()
	second := b.service().take(b.ctx)
	defer second.Unlock()
	if !update(second.Token(), "") || update(first.Token(), "shipped by the first") || !update(second.Token(), "shipped") {
		t.Error("not as the tokens say")
	}
	var state string
	if err := s.db.QueryRow(`SELECT state FROM orders WHERE id = 42`).Scan(&state); err != nil || state != "shipped" {
		t.Errorf("%q, %v", state, err)
	}
}
