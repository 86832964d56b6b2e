package migratelock_test

import (
	"errors"
	"io/fs"
	"log"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/adapters/migratelock"
)

// The code below is that of lock/DATABASE-MIGRATIONS.md.

// migrateShop applies the missing migrations, in the pod that is first. The other pods wait for it.
func migrateShop(locks *lock.Client, inner database.Driver, migrations fs.FS) error {
	driver, err := migratelock.New(inner, locks.Mutex("migrations/shop"), 10*time.Minute)
	if err != nil {
		return err
	}
	defer driver.Close()
	source, err := iofs.New(migrations, ".")
	if err != nil {
		return err
	}
	m, err := migrate.NewWithInstance("iofs", source, "shop", driver)
	if err != nil {
		return err
	}
	m.LockTimeout = 11 * time.Minute // longer than the wait; by default 15 s
	err = m.Up()
	if errors.Is(err, migrate.ErrNoChange) {
		log.Print("another pod has migrated")
		return nil
	}
	return err
}
