package migratelock_test

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	sqlitedriver "modernc.org/sqlite"

	"github.com/holdfast-io/holdfast/integration/hosttest"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/lock"
)

// The test in this file runs the guide's code in ten processes. The third migration calls the database
// function pause(), by which the test stops the process that migrates.

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m, pod)) }

// Variables of a pod's environment.
const (
	envShop  = "POD_SHOP"
	envPause = "POD_PAUSE" // pause() stops the process that can delete this file
)

func openShop(file string) (database.Driver, error) {
	return new(sqlite.Sqlite).Open("sqlite://" + file + "?_pragma=busy_timeout(30000)")
}

func pod(_ context.Context, locks *lock.Client) error {
	sqlitedriver.MustRegisterScalarFunction("pause", 0, func(*sqlitedriver.FunctionContext, []sqldriver.Value) (sqldriver.Value, error) {
		if os.Remove(os.Getenv(envPause)) == nil {
			select {} // until it is killed
		}
		return int64(1), nil
	})
	inner, err := openShop(os.Getenv(envShop))
	if err != nil {
		return err
	}
	shop := fstest.MapFS{}
	for name, file := range migrations {
		shop[name] = file
	}
	shop["3_t.up.sql"] = &fstest.MapFile{Data: []byte("CREATE TABLE t3 (id INTEGER); INSERT INTO t3 SELECT pause();")}
	return migrateShop(locks, inner, shop)
}

func TestGuide(t *testing.T) {
	hosttest.CheckGuide(t, "../../DATABASE-MIGRATIONS.md", "guide_test.go", "// migrateShop")
}

// TestTenPods: of ten pods that start at once, one is killed in its third migration. The other pods
// refuse to go on. After the repair that the guide shows, one of ten pods migrates, and the other
// pods find nothing left to do.
func TestTenPods(t *testing.T) {
	servers, dir := hosttest.Start(t), t.TempDir()
	flag, file := filepath.Join(dir, "pause"), filepath.Join(dir, "shop.db")
	iferr.Fatal(t, os.WriteFile(flag, nil, 0o600))
	env := []string{envShop + "=" + file, envPause + "=" + flag}
	pods := servers.StartPods(t, 10, 10*time.Second, env...)
	err := wait.Until(t.Context(), 2*time.Minute, "a pod stops in its third migration", func() (bool, error) {
		_, err := os.Stat(flag)
		return errors.Is(err, os.ErrNotExist), nil
	})
	iferr.Fatal(t, err)
	pods.Kill(t, servers.Holder(t, "migrations/shop"))
	succeeded, failed := pods.Wait()
	for _, said := range failed {
		if !strings.Contains(said, "Dirty database version 3. Fix and force version.") {
			t.Errorf("a pod fails otherwise: %s", said)
		}
	}
	if len(succeeded) != 0 || len(failed) != 9 {
		t.Errorf("%d have succeeded, %d failed, after a pod was killed", len(succeeded), len(failed))
	}

	p := newProcess(t, servers, "migrations/shop", file, time.Minute)
	iferr.Fatal(t, errors.Join(p.migrate(t).Force(2), p.driver.Close()))
	succeeded, failed = servers.StartPods(t, 10, time.Hour, env...).Wait()
	waited := 0
	for _, said := range succeeded {
		waited += strings.Count(said, "another pod has migrated")
	}
	if len(succeeded) != 10 || waited != 9 {
		t.Errorf("%d have succeeded, %d of them without a migration; failed: %q", len(succeeded), waited, failed)
	}
	inner, err := openShop(file)
	iferr.Fatal(t, err)
	defer inner.Close()
	if version, dirty, err := inner.Version(); version != 5 || dirty || err != nil {
		t.Errorf("version %d, dirty %v, %v", version, dirty, err)
	}
}
