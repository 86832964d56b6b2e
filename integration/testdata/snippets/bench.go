// The code that snippets assume which need packages of the benchmark's module. They are compiled in
// that module, but not run.
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
