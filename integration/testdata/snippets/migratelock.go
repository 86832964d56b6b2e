// The code that the snippets of package migratelock assume. The snippets are compiled in the
// package's module, but not run.
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
