// The surroundings of the snippets of package migratelock, which are compiled in its module.
package main

import (
	"github.com/golang-migrate/migrate/v4/database"

	"github.com/holdfast-io/holdfast/lock"
)

var (
	locks *lock.Client
	inner database.Driver
	_     = snippets
)

func main() {}
