package gooselock_test

import (
	"context"
	"log"

	"github.com/pressly/goose/v3"

	"github.com/holdfast-io/holdfast/lock"
)

// The code below is that of lock/DATABASE-MIGRATIONS.md.

// migrateShop applies the missing migrations, in the pod that is first. The other pods wait for it.
func migrateShop(ctx context.Context, locks *lock.Client, provider *goose.Provider) error {
	// Do waits for its turn until ctx ends. If the lock is lost, it ends the context of Up.
	return locks.Mutex("migrations/shop").Do(ctx, func(ctx context.Context) error {
		applied, err := provider.Up(ctx)
		log.Printf("applied %d migrations", len(applied))
		return err
	})
}
