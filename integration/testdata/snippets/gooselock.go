// The code that the snippets of package gooselock assume. The snippets are compiled in the
// package's module, but not run.
package main

import (
	"context"
	"database/sql"
	"embed"

	"github.com/holdfast-io/holdfast/lock"
)

var (
	ctx        = context.Background()
	locks      *lock.Client
	db         *sql.DB
	migrations embed.FS
	_          = snippets
)

func main() {}
