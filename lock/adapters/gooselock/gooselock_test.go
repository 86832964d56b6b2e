package gooselock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	gooselocks "github.com/pressly/goose/v3/lock"
	"github.com/pressly/goose/v3/lock/locktesting"
	_ "modernc.org/sqlite"

	"github.com/holdfast-io/holdfast/integration/hosttest"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/pgserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/adapters/gooselock"
)

// migrations would fail if they ran twice.
var migrations = fstest.MapFS{}

func init() {
	for i := 1; i <= 5; i++ {
		migrations[fmt.Sprintf("%05d_t.sql", i)] = &fstest.MapFile{Data: fmt.Appendf(nil,
			"-- +goose Up\nCREATE TABLE t%d (id INTEGER);\n-- +goose Down\nDROP TABLE t%[1]d;\n", i)}
	}
}

// newLocker returns a locker like that of a separate process, and its client.
func newLocker(t *testing.T, servers hosttest.Servers) (*gooselock.Locker, *lock.Client) {
	t.Helper()
	locks := servers.Dial(t)
	l, err := gooselock.New(locks.Mutex("migrations"))
	iferr.Fatal(t, err)
	return l, locks
}

func open(t *testing.T, driver, source string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, source)
	iferr.Fatal(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// testProviders runs goose's own test of providers: of five providers, one applies all migrations.
func testProviders(t *testing.T, dialect goose.Dialect, driver string, source func(*testing.T) string) {
	for _, session := range []bool{false, true} {
		t.Run(fmt.Sprintf("session %v", session), func(t *testing.T) {
			servers, source := hosttest.Start(t), source(t)
			locktesting.TestProviderLocking(t, func(t *testing.T) *goose.Provider {
				l, _ := newLocker(t, servers)
				with := goose.WithLocker(l)
				if session {
					with = goose.WithSessionLocker(l.Session())
				}
				p, err := goose.NewProvider(dialect, open(t, driver, source), migrations, with)
				iferr.Fatal(t, err)
				return p
			})
		})
	}
}

func TestSQLite(t *testing.T) {
	testProviders(t, goose.DialectSQLite3, "sqlite", func(t *testing.T) string {
		return "file:" + filepath.Join(t.TempDir(), "shop.db") + "?_pragma=busy_timeout(30000)&_pragma=synchronous(off)"
	})
}

func TestPostgreSQL(t *testing.T) {
	testProviders(t, goose.DialectPostgres, "pgx", func(t *testing.T) string { return pgserver.ForTest(t) })
}

// TestLockers runs goose's own test of lockers: of five lockers, one gets the lock, and the other
// lockers give up.
func TestLockers(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared %v", shared), func(t *testing.T) {
			t.Parallel()
			servers := hosttest.Start(t)
			one, _ := newLocker(t, servers)
			locktesting.TestConcurrentLocking(t, open(t, "sqlite", ":memory:"), func(t *testing.T) gooselocks.Locker {
				if shared {
					return one
				}
				l, _ := newLocker(t, servers)
				return l
			}, 1500*time.Millisecond)
		})
	}
}

// TestLost: if the lock is lost during the migrations, Up returns ErrLost.
func TestLost(t *testing.T) {
	l, locks := newLocker(t, hosttest.Start(t))
	db := open(t, "sqlite", filepath.Join(t.TempDir(), "shop.db"))
	forget := goose.NewGoMigration(1, &goose.GoFunc{RunTx: func(context.Context, *sql.Tx) error { return locks.Close() }}, nil)
	p, err := goose.NewProvider(goose.DialectSQLite3, db, nil, goose.WithGoMigrations(forget), goose.WithLocker(l))
	iferr.Fatal(t, err)
	if _, err := p.Up(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("Up returns %v, want one that says that the lock was lost", err)
	}
}

// TestBadUse: New refuses a nil mutex and a mutex without a client. Unlock without a lock, and Lock
// with an ended context, return errors.
func TestBadUse(t *testing.T) {
	if _, err := gooselock.New(nil); err == nil {
		t.Error("no error of a nil mutex")
	}
	if _, err := gooselock.New(new(lock.Mutex)); !errors.Is(err, lock.ErrInvalid) {
		t.Errorf("%v of a mutex without a client", err)
	}
	l, _ := newLocker(t, hosttest.Start(t))
	if err := l.Unlock(t.Context(), nil); !errors.Is(err, lock.ErrUnlocked) {
		t.Errorf("an unlock without a lock: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Lock(ended, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a lock with a context that has ended: %v", err)
	}
	iferr.Error(t, l.Session().SessionLock(t.Context(), nil))
	iferr.Error(t, l.Session().SessionUnlock(t.Context(), nil))
}
