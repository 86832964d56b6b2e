// Migration migrates the SQLite database that DATABASE names, shop.db by default. Run it in two
// terminals at once: one migrates, the other waits for it and finds nothing left to do.
package main

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite"

	"github.com/holdfast-io/holdfast/lock"
)

//go:embed migrations
var files embed.FS

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	servers := cmp.Or(os.Getenv("HOLDFAST_ZOOKEEPER"), "127.0.0.1:2181")
	locks, err := lock.Dial(ctx, strings.Split(servers, ","))
	if err != nil {
		return err
	}
	defer locks.Close()

	db, err := sql.Open("sqlite", "file:"+cmp.Or(os.Getenv("DATABASE"), "shop.db"))
	if err != nil {
		return err
	}
	defer db.Close()
	migrations, err := fs.Sub(files, "migrations")
	if err != nil {
		return err
	}
	shop, err := goose.NewProvider(goose.DialectSQLite3, db, migrations)
	if err != nil {
		return err
	}
	// Do waits for its turn until ctx ends. If the lock is lost, it ends the context of Up.
	return locks.Mutex("migrations/shop").Do(ctx, func(ctx context.Context) error {
		applied, err := shop.Up(ctx)
		log.Printf("applied %d migrations", len(applied))
		return err
	})
}
