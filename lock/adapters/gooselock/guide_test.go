package gooselock_test

import (
	"context"
	"database/sql"
	"io/fs"
	"log"

	"github.com/pressly/goose/v3"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/adapters/gooselock"
)

// The code below is that of lock/DATABASE-MIGRATIONS.md.

// migrateShop applies the missing migrations, in the pod that is first. The others wait for it.
func migrateShop(ctx context.Context, locks *lock.Client, dialect goose.Dialect, db *sql.DB, migrations fs.FS) error {
	locker, err := gooselock.New(locks.Mutex("migrations/shop"))
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(dialect, db, migrations, goose.WithLocker(locker))
	if err != nil {
		return err
	}
	applied, err := provider.Up(ctx) // waits for its turn until ctx ends
	log.Printf("applied %d migrations", len(applied))
	return err
}

// upWhileHeld applies the missing migrations. If the lock is lost, it stops.
func upWhileHeld(ctx context.Context, locks *lock.Client, provider *goose.Provider) error {
	return locks.Mutex("migrations/shop").Do(ctx, func(ctx context.Context) error {
		_, err := provider.Up(ctx)
		return err
	})
}
