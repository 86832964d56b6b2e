package migratelock_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
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
	"github.com/holdfast-io/holdfast/integration/iferr"
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
	iferr.Fatal(t, err)
	driver, err := migratelock.New(inner, locks.Mutex(name), wait)
	iferr.Fatal(t, err)
	return process{locks, driver}
}

// migrate returns a Migrate with the process's driver.
func (p process) migrate(t *testing.T) *migrate.Migrate {
	t.Helper()
	source, err := iofs.New(migrations, ".")
	iferr.Fatal(t, err)
	m, err := migrate.NewWithInstance("iofs", source, "sqlite", p.driver)
	iferr.Fatal(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

func shop(t *testing.T) string { return filepath.Join(t.TempDir(), "shop.db") }

// TestGuide: migrateShop migrates, then finds nothing left to do, and refuses what a dead pod left.
func TestGuide(t *testing.T) {
	hosttest.CheckGuide(t, "../../DATABASE-MIGRATIONS.md", "guide_test.go", "// migrateShop")
	servers, file := hosttest.Start(t), shop(t)
	p := newProcess(t, servers, "migrations/shop", file, time.Minute)
	defer p.driver.Close()
	for _, dirty := range []bool{false, false, true} {
		inner, err := new(sqlite.Sqlite).Open("sqlite://" + file)
		iferr.Fatal(t, err)
		if dirty {
			iferr.Fatal(t, inner.SetVersion(3, true))
		}
		err = migrateShop(p.locks, inner, migrations)
		if dirty && (err == nil || !strings.Contains(err.Error(), "Dirty database version 3. Fix and force version.")) || !dirty && err != nil {
			t.Errorf("dirty %v: %v", dirty, err)
		}
	}
	iferr.Fatal(t, p.migrate(t).Force(2))
	if version, dirty, err := p.driver.Version(); version != 2 || dirty || err != nil {
		t.Errorf("version %d, dirty %v, %v", version, dirty, err)
	}
}

// TestDriver: Driver passes golang-migrate's own tests of drivers.
func TestDriver(t *testing.T) {
	servers := hosttest.Start(t)
	p := newProcess(t, servers, "migrations", shop(t), 5*time.Second)
	migratetesting.Test(t, p.driver, []byte("CREATE TABLE t (q INTEGER, w TEXT);"))
	p = newProcess(t, servers, "migrations", shop(t), 5*time.Second)
	again, err := p.driver.Open("sqlite://" + shop(t))
	iferr.Fatal(t, err)
	migratetesting.TestLockAndUnlock(t, again)
	iferr.Error(t, errors.Join(again.Close(), p.driver.Close()))
}

// TestPostgreSQL: Driver around the driver of PostgreSQL passes golang-migrate's own tests.
func TestPostgreSQL(t *testing.T) {
	url := "pgx5" + strings.TrimPrefix(pgserver.ForTest(t), "postgres")
	servers := hosttest.Start(t)
	p := newProcess(t, servers, "migrations", shop(t), 5*time.Second)
	inner, err := new(pgx.Postgres).Open(url)
	iferr.Fatal(t, err)
	driver, err := migratelock.New(inner, p.locks.Mutex("migrations"), 5*time.Second)
	iferr.Fatal(t, err)
	migratetesting.Test(t, driver, []byte("CREATE TABLE t (q INTEGER, w TEXT);"))
	iferr.Error(t, errors.Join(driver.Close(), p.driver.Close()))
}

// TestMigrate: Driver passes golang-migrate's own test of migrations.
func TestMigrate(t *testing.T) {
	servers := hosttest.Start(t)
	migratetesting.TestMigrate(t, newProcess(t, servers, "migrations", shop(t), 5*time.Second).migrate(t))
}

// TestLockedByAnother: the error after the wait names the process that has the lock.
func TestLockedByAnother(t *testing.T) {
	servers, file := hosttest.Start(t), shop(t)
	a, b := newProcess(t, servers, "migrations", file, time.Minute), newProcess(t, servers, "migrations", file, 2*time.Second)
	iferr.Fatal(t, a.driver.Lock())
	if err := b.driver.Lock(); !errors.Is(err, database.ErrLocked) || !errors.Is(err, lock.ErrHeld) || !strings.Contains(err.Error(), "pid") {
		t.Errorf("Lock returns %v", err)
	}
	iferr.Error(t, a.driver.Close()) // unlocks
	iferr.Error(t, b.driver.Lock())
	iferr.Error(t, errors.Join(b.driver.Unlock(), b.driver.Close()))
}

// TestClosedWhileItWaits: if migrate gives up before the driver's wait is over, and the driver is
// closed, the driver does not get the lock later.
func TestClosedWhileItWaits(t *testing.T) {
	servers, file := hosttest.Start(t), shop(t)
	a, b, c := newProcess(t, servers, "migrations", file, time.Minute), newProcess(t, servers, "migrations", file, time.Hour), newProcess(t, servers, "migrations", file, 10*time.Second)
	iferr.Fatal(t, a.driver.Lock())
	m := b.migrate(t)
	m.LockTimeout = time.Second
	if err := m.Up(); !errors.Is(err, migrate.ErrLockTimeout) {
		t.Errorf("Up returns %v", err)
	}
	iferr.Error(t, errors.Join(b.driver.Close(), a.driver.Close(), c.driver.Lock(), c.driver.Close()))
}

// TestLost: after the loss of the lock no migration starts. A migration that has begun can still store
// its end.
func TestLost(t *testing.T) {
	p := newProcess(t, hosttest.Start(t), "migrations", shop(t), time.Minute)
	d := p.driver
	iferr.Fatal(t, errors.Join(d.Lock(), d.SetVersion(1, true), p.locks.Close()))
	iferr.Error(t, d.SetVersion(1, false))
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
	iferr.Error(t, d.Close())
}

func TestBadInput(t *testing.T) {
	p := newProcess(t, hosttest.Start(t), "migrations", shop(t), time.Minute)
	defer p.driver.Close()
	mutex := p.locks.Mutex("x")
	for says, err := range map[string]error{
		"driver nil":                  iferr.Of(migratelock.New(nil, mutex, 1)),
		"mutex nil":                   iferr.Of(migratelock.New(p.driver, nil, 1)),
		"wait 0s: must":               iferr.Of(migratelock.New(p.driver, mutex, 0)),
		"must not start with a slash": iferr.Of(migratelock.New(p.driver, p.locks.Mutex("/x"), 1)),
	} {
		if !errors.Is(err, lock.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want one that says %q", err, says)
		}
	}
}
