// The code that the snippets with packages of the benchmark's module assume. The snippets are
// compiled in that module, but not run.
package main

import (
	"context"

	"github.com/redis/go-redis/v9"
)

var (
	ctx   = context.Background()
	rdb   *redis.Client
	order = "42"
	_     = snippets
)

func ship(ctx context.Context, order string) error { return ctx.Err() }

func main() {}
