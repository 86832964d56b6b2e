package migratelock_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	pgx "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	migratetesting "github.com/golang-migrate/migrate/v4/database/testing"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/holdfast-io/holdfast/integration/hosttest"
	"github.com/holdfast-io/holdfast/integration/pgserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/adapters/migratelock"
)

// migrations would fail if they ran twice.
var migrations = fstest.MapFS{}

func init() {
	for i := 1; i <= 5; i++ {
		migrations[fmt.Sprintf("%d_t.up.sql", i)] = &fstest.MapFile{Data: fmt.Appendf(nil, "CREATE TABLE t%d (id INTEGER);", i)}
		migrations[fmt.Sprintf("%d_t.down.sql", i)] = &fstest.MapFile{Data: fmt.Appendf(nil, "DROP TABLE t%d;", i)}
	}
}

// process has a client, and a driver that locks with this client.
type process struct {
	locks  *lock.Client
	driver *migratelock.Driver
}

func newProcess(t *testing.T, servers hosttest.Servers, name, file string, wait time.Duration) process {
	t.Helper()
	locks := servers.Dial(t)
	inner, err := new(sqlite.Sqlite).Open("sqlite://" + file + "?_pragma=busy_timeout(30000)")
	if err != nil {
		t.Fatal(err)
	}
	driver, err := migratelock.New(inner, locks.Mutex(name), wait)
	if err != nil {
		t.Fatal(err)
	}
	return process{locks, driver}
}

// migrate returns a Migrate with the process's driver.
func (p process) migrate(t *testing.T) *migrate.Migrate {
	t.Helper()
	source, err := iofs.New(migrations, ".")
	if err != nil {
		t.Fatal(err)
	}
	m, err := migrate.NewWithInstance("iofs", source, "sqlite", p.driver)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func shop(t *testing.T) string { return filepath.Join(t.TempDir(), "shop.db") }

// TestDriver: Driver passes golang-migrate's own tests of drivers.
func TestDriver(t *testing.T) {
	servers := hosttest.Start(t)
	p := newProcess(t, servers, "migrations", shop(t), 5*time.Second)
	migratetesting.Test(t, p.driver, []byte("CREATE TABLE t (q INTEGER, w TEXT);"))
	p = newProcess(t, servers, "migrations", shop(t), 5*time.Second)
	again, err := p.driver.Open("sqlite://" + shop(t))
	if err != nil {
		t.Fatal(err)
	}
	migratetesting.TestLockAndUnlock(t, again)
	if err := errors.Join(again.Close(), p.driver.Close()); err != nil {
		t.Error(err)
	}
}

// TestPostgreSQL: Driver around the driver of PostgreSQL passes golang-migrate's own tests.
func TestPostgreSQL(t *testing.T) {
	url := "pgx5" + strings.TrimPrefix(pgserver.ForTest(t), "postgres")
	servers := hosttest.Start(t)
	p := newProcess(t, servers, "migrations", shop(t), 5*time.Second)
	inner, err := new(pgx.Postgres).Open(url)
	if err != nil {
		t.Fatal(err)
	}
	driver, err := migratelock.New(inner, p.locks.Mutex("migrations"), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	migratetesting.Test(t, driver, []byte("CREATE TABLE t (q INTEGER, w TEXT);"))
	if err := errors.Join(driver.Close(), p.driver.Close()); err != nil {
		t.Error(err)
	}
}

// TestMigrate: Driver passes golang-migrate's own test of migrations.
func TestMigrate(t *testing.T) {
	servers := hosttest.Start(t)
	migratetesting.TestMigrate(t, newProcess(t, servers, "migrations", shop(t), 5*time.Second).migrate(t))
}

// TestProcesses: of five processes that start at once, one migrates. The other processes find
// nothing to do.
func TestProcesses(t *testing.T) {
	servers, file := hosttest.Start(t), shop(t)
	all := make([]*migrate.Migrate, 5)
	for i := range all {
		all[i] = newProcess(t, servers, "migrations", file, time.Minute).migrate(t)
		all[i].LockTimeout = 2 * time.Minute
	}
	var wg sync.WaitGroup
	results := make(chan error, len(all))
	for _, m := range all {
		wg.Go(func() { results <- m.Up() })
	}
	wg.Wait()
	migrated := 0
	for range all {
		switch err := <-results; {
		case err == nil:
			migrated++
		case !errors.Is(err, migrate.ErrNoChange):
			t.Error(err)
		}
	}
	if version, dirty, err := all[0].Version(); migrated != 1 || version != 5 || dirty || err != nil {
		t.Errorf("%d processes have migrated, to version %d, dirty %v, %v", migrated, version, dirty, err)
	}
}

// TestLockedByAnother: the error after the wait names the process that has the lock.
func TestLockedByAnother(t *testing.T) {
	servers, file := hosttest.Start(t), shop(t)
	a, b := newProcess(t, servers, "migrations", file, time.Minute), newProcess(t, servers, "migrations", file, 2*time.Second)
	if err := a.driver.Lock(); err != nil {
		t.Fatal(err)
	}
	if err := b.driver.Lock(); !errors.Is(err, database.ErrLocked) || !errors.Is(err, lock.ErrHeld) || !strings.Contains(err.Error(), "pid") {
		t.Errorf("Lock returns %v", err)
	}
	if err := a.driver.Close(); err != nil { // unlocks
		t.Error(err)
	}
	if err := b.driver.Lock(); err != nil {
		t.Error(err)
	}
	if err := errors.Join(b.driver.Unlock(), b.driver.Close()); err != nil {
		t.Error(err)
	}
}

// TestClosedWhileItWaits: if migrate gives up before the driver's wait is over, and the driver is
// closed, the driver does not get the lock later.
func TestClosedWhileItWaits(t *testing.T) {
	servers, file := hosttest.Start(t), shop(t)
	a, b, c := newProcess(t, servers, "migrations", file, time.Minute), newProcess(t, servers, "migrations", file, time.Hour), newProcess(t, servers, "migrations", file, 10*time.Second)
	if err := a.driver.Lock(); err != nil {
		t.Fatal(err)
	}
	m := b.migrate(t)
	m.LockTimeout = time.Second
	if err := m.Up(); !errors.Is(err, migrate.ErrLockTimeout) {
		t.Errorf("Up returns %v", err)
	}
	if err := errors.Join(b.driver.Close(), a.driver.Close(), c.driver.Lock(), c.driver.Close()); err != nil {
		t.Error(err)
	}
}

// TestLost: after the loss of the lock no migration starts. A migration that has begun can still store
// its end.
func TestLost(t *testing.T) {
	p := newProcess(t, hosttest.Start(t), "migrations", shop(t), time.Minute)
	d := p.driver
	if err := errors.Join(d.Lock(), d.SetVersion(1, true), p.locks.Close()); err != nil {
		t.Fatal(err)
	}
	if err := d.SetVersion(1, false); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"Run": d.Run(strings.NewReader("CREATE TABLE t (id INTEGER)")), "SetVersion": d.SetVersion(2, true), "Drop": d.Drop(), "Unlock": d.Unlock(),
	} {
		if !errors.Is(err, lock.ErrLost) {
			t.Errorf("%s returns %v", what, err)
		}
	}
	if err := d.Lock(); !errors.Is(err, lock.ErrClosed) {
		t.Errorf("Lock returns %v", err)
	}
	if version, dirty, err := d.Version(); version != 1 || dirty || err != nil {
		t.Errorf("version %d, dirty %v, %v", version, dirty, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestBadInput(t *testing.T) {
	p := newProcess(t, hosttest.Start(t), "migrations", shop(t), time.Minute)
	defer p.driver.Close()
	mutex := p.locks.Mutex("x")
	for says, err := range map[string]error{
		"driver nil":                  second(migratelock.New(nil, mutex, 1)),
		"mutex nil":                   second(migratelock.New(p.driver, nil, 1)),
		"wait 0s: must":               second(migratelock.New(p.driver, mutex, 0)),
		"must not start with a slash": second(migratelock.New(p.driver, p.locks.Mutex("/x"), 1)),
	} {
		if !errors.Is(err, lock.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want one that says %q", err, says)
		}
	}
}

func second[T any](_ T, err error) error { return err }
