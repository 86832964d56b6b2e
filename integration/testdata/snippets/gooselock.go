// The surroundings of the snippets of package gooselock, which are compiled in its module.
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
