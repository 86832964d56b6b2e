// The code that the snippets of package migratelock assume. They are compiled in its module, but not run.
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
