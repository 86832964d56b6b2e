package migratelock_test

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	pgx "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/holdfast-io/holdfast/integration/hosttest"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/pgserver"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/adapters/migratelock"
)

// gate is a driver whose second migration waits.
type gate struct {
	database.Driver
	runs          int
	reached, open chan struct{}
}

func (g *gate) Run(migration io.Reader) error {
	if g.runs++; g.runs == 2 {
		close(g.reached)
		<-g.open
	}
	return g.Driver.Run(migration)
}

// TestConcurrentIndex: a process can create an index concurrently while another process waits for
// the lock. With the driver's own lock that is a deadlock: CREATE INDEX CONCURRENTLY waits for the
// end of other transactions, and the statement that waits for the advisory lock is one.
func TestConcurrentIndex(t *testing.T) {
	url := pgserver.ForTest(t)
	db, err := sql.Open("pgx", url)
	iferr.Fatal(t, err)
	defer db.Close()
	servers := hosttest.Start(t)
	for i, own := range []bool{false, true} {
		t.Run(fmt.Sprintf("own lock %v", own), func(t *testing.T) {
			index := fstest.MapFS{
				"1_t.up.sql":     {Data: fmt.Appendf(nil, "CREATE TABLE t%d (id INTEGER)", i)},
				"2_index.up.sql": {Data: fmt.Appendf(nil, "CREATE INDEX CONCURRENTLY ON t%d (id)", i)},
			}
			g := &gate{reached: make(chan struct{}), open: make(chan struct{})}
			var all []*migrate.Migrate
			var clients []*lock.Client
			for process := range 2 {
				driver, err := new(pgx.Postgres).Open("pgx5" + strings.TrimPrefix(url, "postgres") + fmt.Sprintf("&x-migrations-table=versions%d", i))
				iferr.Fatal(t, err)
				if process == 0 {
					g.Driver = driver
					driver = g
				}
				if !own {
					clients = append(clients, servers.Dial(t))
					if driver, err = migratelock.New(driver, clients[process].Mutex("migrations"), time.Minute); err != nil {
						t.Fatal(err)
					}
				}
				source, err := iofs.New(index, ".")
				iferr.Fatal(t, err)
				m, err := migrate.NewWithInstance("iofs", source, "shop", driver)
				iferr.Fatal(t, err)
				defer m.Close()
				m.LockTimeout = 2 * time.Minute
				all = append(all, m)
			}
			results := make(chan error, 2)
			go func() { results <- all[0].Up() }()
			<-g.reached
			go func() { results <- all[1].Up() }()
			err := wait.Until(t.Context(), time.Minute, "the second process waits", func() (waits bool, err error) {
				if !own {
					return clients[1].Stats().Waiters == 1, nil
				}
				err = db.QueryRow("SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)").Scan(&waits)
				return waits, err
			})
			iferr.Error(t, err)
			close(g.open)
			err = errors.Join(<-results, <-results)
			if deadlock := err != nil && strings.Contains(err.Error(), "deadlock detected"); deadlock != own || !own && !errors.Is(err, migrate.ErrNoChange) {
				t.Errorf("the processes return %v", err)
			}
		})
	}
}
