package gooselock_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"

	"github.com/holdfast-io/holdfast/integration/hosttest"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/pgserver"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/lock"
)

// The tests in this file run the guide's code, most of them in ten processes. The third migration calls
// the database function pause(), by which the test stops the process that migrates.

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m, pod)) }

// Variables of a pod's environment.
const (
	envDriver = "POD_DRIVER"
	envSource = "POD_SOURCE"
	envPause  = "POD_PAUSE" // SQLite: pause() stops the process that can delete this file
)

func pod(ctx context.Context, locks *lock.Client) error {
	dialect := goose.DialectPostgres
	if os.Getenv(envDriver) == "sqlite" {
		dialect = goose.DialectSQLite3
		sqlite.MustRegisterScalarFunction("pause", 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
			if os.Remove(os.Getenv(envPause)) == nil {
				select {} // until it is killed
			}
			return int64(1), nil
		})
	}
	db, err := sql.Open(os.Getenv(envDriver), os.Getenv(envSource))
	if err != nil {
		return err
	}
	defer db.Close()
	shop := fstest.MapFS{}
	for name, file := range migrations {
		shop[name] = file
	}
	shop["00003_t.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\nCREATE TABLE t3 (id INTEGER);\nINSERT INTO t3 SELECT pause();\n")}
	provider, err := goose.NewProvider(dialect, db, shop)
	if err != nil {
		return err
	}
	return migrateShop(ctx, locks, provider)
}

// database is the database that the pods migrate.
type database struct {
	driver, source string
	*sql.DB
	pause  func()               // makes the first pod stop in the third migration
	paused func() (bool, error) // reports whether a pod has stopped there
	env    []string
}

func onSQLite(t *testing.T) database {
	source := "file:" + filepath.Join(t.TempDir(), "shop.db") + "?_pragma=synchronous(off)"
	flag := filepath.Join(t.TempDir(), "pause")
	return database{
		driver: "sqlite", source: source, DB: open(t, "sqlite", source), env: []string{envPause + "=" + flag},
		pause: func() {
			iferr.Fatal(t, os.WriteFile(flag, nil, 0o600))
		},
		paused: func() (bool, error) { _, err := os.Stat(flag); return os.IsNotExist(err), nil },
	}
}

func onPostgreSQL(t *testing.T) database {
	source := pgserver.ForTest(t)
	db := open(t, "pgx", source)
	db.SetMaxOpenConns(1) // whose session has the lock with which pause waits
	exec := func(statement string) {
		t.Helper()
		iferr.Fatal(t, iferr.Of(db.Exec(statement)))
	}
	// So the server notices that a pod was killed, and ends its statement.
	exec("ALTER DATABASE postgres SET client_connection_check_interval = '1s'")
	exec("CREATE SEQUENCE pauses")
	exec("CREATE FUNCTION pause() RETURNS integer LANGUAGE sql AS 'SELECT CASE nextval(''pauses'') WHEN 1 THEN pg_advisory_xact_lock(42)::text END; SELECT 1'")
	return database{
		driver: "pgx", source: source, DB: db,
		pause: func() { exec("SELECT pg_advisory_lock(42)") },
		paused: func() (yes bool, err error) {
			err = db.QueryRow("SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)").Scan(&yes)
			return yes, err
		},
	}
}

func TestGuide(t *testing.T) {
	hosttest.CheckGuide(t, "../../DATABASE-MIGRATIONS.md", "guide_test.go", "// migrateShop")
}

// TestTenPods: of ten pods that start at once, one migrates, and the other pods find nothing left
// to do. If the first pod is killed in its third migration, the next pod goes on from there.
func TestTenPods(t *testing.T) {
	for _, killed := range []bool{false, true} {
		for name, on := range map[string]func(*testing.T) database{"SQLite": onSQLite, "PostgreSQL": onPostgreSQL} {
			t.Run(fmt.Sprintf("%s, killed %v", name, killed), func(t *testing.T) {
				servers, db := hosttest.Start(t), on(t)
				ttl, want, migrates := time.Hour, 10, "applied 5 migrations"
				if killed {
					t.Parallel() // it mostly waits
					db.pause()
					ttl, want, migrates = 10*time.Second, 9, "applied 3 migrations"
				}
				pods := servers.StartPods(t, 10, ttl, append(db.env, envDriver+"="+db.driver, envSource+"="+db.source)...)
				if killed {
					iferr.Fatal(t, wait.Until(t.Context(), 2*time.Minute, "a pod stops in its third migration", db.paused))
					pods.Kill(t, servers.Holder(t, "migrations/shop"))
				}
				succeeded, failed := pods.Wait()
				one, none := 0, 0
				for _, said := range succeeded {
					one += strings.Count(said, migrates)
					none += strings.Count(said, "applied 0 migrations")
				}
				if len(succeeded) != want || one != 1 || none != want-1 {
					t.Errorf("%d have succeeded, %d migrated, %d found nothing to do; failed: %q", len(succeeded), one, none, failed)
				}
				var versions, highest int
				if err := db.QueryRow("SELECT count(*), max(version_id) FROM goose_db_version WHERE version_id > 0").Scan(&versions, &highest); err != nil || versions != 5 || highest != 5 {
					t.Errorf("%d versions are recorded up to %d, %v", versions, highest, err)
				}
			})
		}
	}
}

// TestStopsWhenLost: if the lock is lost during a migration, the migration's context ends, and
// migrateShop returns ErrLost.
func TestStopsWhenLost(t *testing.T) {
	locks := hosttest.Start(t).Dial(t)
	db := open(t, "sqlite", filepath.Join(t.TempDir(), "shop.db"))
	waits := goose.NewGoMigration(1, &goose.GoFunc{RunTx: func(ctx context.Context, _ *sql.Tx) error {
		if err := locks.Close(); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}}, nil)
	p, err := goose.NewProvider(goose.DialectSQLite3, db, nil, goose.WithGoMigrations(waits))
	iferr.Fatal(t, err)
	if err := migrateShop(t.Context(), locks, p); !errors.Is(err, lock.ErrLost) {
		t.Errorf("it returns %v, want one that says that the lock was lost", err)
	}
}
