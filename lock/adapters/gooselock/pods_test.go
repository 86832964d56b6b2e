package gooselock_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"

	"github.com/holdfast-io/holdfast/integration/hosttest"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
)

// The tests in this file run the guide's code, most of them in ten processes. The third migration calls
// the database function pause(), by which the test stops the process that migrates.

// envPod makes the test binary act as a pod.
const envPod = "GOOSELOCK_TEST_POD"

func TestMain(m *testing.M) {
	config := os.Getenv(envPod)
	if config == "" {
		os.Exit(m.Run())
	}
	var p pod
	if err := errors.Join(json.Unmarshal([]byte(config), &p), p.run()); err != nil {
		log.Fatal(err)
	}
}

// pod is a process that migrates the database.
type pod struct {
	hosttest.Servers
	TTL    time.Duration
	Source string // the database
	Pause  string // pause() stops the process that can delete this file
}

func (p *pod) run() error {
	sqlite.MustRegisterScalarFunction("pause", 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		if os.Remove(p.Pause) == nil {
			select {} // until it is killed
		}
		return int64(1), nil
	})
	db, err := sql.Open("sqlite", p.Source)
	if err != nil {
		return err
	}
	defer db.Close()
	shop := fstest.MapFS{}
	for name, file := range migrations {
		shop[name] = file
	}
	shop["00003_t.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\nCREATE TABLE t3 (id INTEGER);\nINSERT INTO t3 SELECT pause();\n")}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, shop)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	locks, err := lock.Dial(ctx, p.Addresses, lock.WithRoot(p.Root), lock.WithTTL(p.TTL), lock.WithGrace(500*time.Millisecond))
	if err != nil {
		return err
	}
	defer locks.Close()
	return migrateShop(ctx, locks, provider)
}

func TestGuide(t *testing.T) {
	hosttest.CheckGuide(t, "../../DATABASE-MIGRATIONS.md", "guide_test.go", "// migrateShop")
}

// TestTenPods: of ten pods that start at once, one migrates, and the other pods find nothing left
// to do. If the first pod is killed in its third migration, the next pod goes on from there.
func TestTenPods(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed %v", killed), func(t *testing.T) {
			dir := t.TempDir()
			p := pod{hosttest.Start(t), time.Hour, "file:" + filepath.Join(dir, "shop.db") + "?_pragma=synchronous(off)", filepath.Join(dir, "pause")}
			want, migrates := 10, "applied 5 migrations"
			if killed {
				t.Parallel() // it mostly waits
				iferr.Fatal(t, os.WriteFile(p.Pause, nil, 0o600))
				p.TTL, want, migrates = 10*time.Second, 9, "applied 3 migrations"
			}
			var pods []*zkserver.Worker
			for range 10 {
				cmd, err := zkserver.Command("", envPod, p)
				iferr.Fatal(t, err)
				w, err := zkserver.StartWorker(cmd)
				iferr.Fatal(t, err)
				t.Cleanup(func() { w.Close(0) })
				pods = append(pods, w)
			}
			if killed {
				err := wait.Until(t.Context(), 2*time.Minute, "a pod stops in its third migration", func() (bool, error) {
					_, err := os.Stat(p.Pause)
					return os.IsNotExist(err), nil
				})
				iferr.Fatal(t, err)
				_, err = p.Dial(t).Mutex("migrations/shop").TryLock(t.Context())
				var held *lock.HeldError
				if !errors.As(err, &held) {
					t.Fatalf("the lock has no holder: %v", err)
				}
				pods[slices.IndexFunc(pods, func(w *zkserver.Worker) bool { return w.Pid() == held.PID })].Kill()
			}
			succeeded, one, none := 0, 0, 0
			for _, w := range pods {
				<-w.Exited()
				said := w.Stderr()
				if w.Err() == nil {
					succeeded++
				} else if w.ExitCode() >= 0 { // it was not killed
					t.Errorf("a pod failed: %s", said)
				}
				one += strings.Count(said, migrates)
				none += strings.Count(said, "applied 0 migrations")
			}
			if succeeded != want || one != 1 || none != want-1 {
				t.Errorf("%d have succeeded, %d migrated, %d found nothing to do", succeeded, one, none)
			}
			var versions, highest int
			row := open(t, "sqlite", p.Source).QueryRow("SELECT count(*), max(version_id) FROM goose_db_version WHERE version_id > 0")
			if err := row.Scan(&versions, &highest); err != nil || versions != 5 || highest != 5 {
				t.Errorf("%d versions are recorded up to %d, %v", versions, highest, err)
			}
		})
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
