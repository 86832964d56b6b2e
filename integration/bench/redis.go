package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// startRedis starts a server that syncs each write to disk before it answers.
func startRedis(ctx context.Context) (*server, error) {
	program, err := zkserver.Program(ctx, "redis-server")
	if err != nil {
		return nil, err
	}
	return startDaemon(ctx, "redis-server", func(d *daemon) error {
		look := redis.NewClient(&redis.Options{Addr: d.addr})
		d.hangUp = look.Close
		d.cmd = exec.Command(program, "--bind", "127.0.0.1", "--port", d.port, "--dir", d.dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always")
		d.ready = func(ctx context.Context) error {
			info := look.InfoMap(ctx, "server")
			d.version = fmt.Sprintf("Redis %s (one server, appendonly yes, appendfsync always)", info.Item("Server", "redis_version"))
			return info.Err()
		}
		// The number counts the changes since the last snapshot. No snapshot is made, so it counts
		// all changes.
		d.transactions = func(ctx context.Context) (int64, error) {
			info := look.InfoMap(ctx, "persistence")
			if info.Err() != nil {
				return 0, info.Err()
			}
			return strconv.ParseInt(info.Item("Persistence", "rdb_changes_since_last_save"), 10, 64)
		}
		return nil
	})
}

func openRedis(ctx context.Context, addr string) (session, error) {
	w := new(wire)
	client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: most, Dialer: w.dial})
	client.AddHook(commands{w})
	locks := redislock.New(client)
	if err := client.Ping(ctx).Err(); err != nil {
		return session{}, errors.Join(err, client.Close())
	}
	return session{counts: w.counts, close: client.Close, locker: func(path string) locker {
		var held *redislock.Lock
		return locker{
			lock: func(ctx context.Context) (err error) {
				held, err = locks.Obtain(ctx, path, lease, &redislock.Options{RetryStrategy: polling()})
				return err
			},
			unlock: func() error { return held.Release(context.Background()) },
			try: func(ctx context.Context) (_ bool, err error) {
				held, err = locks.Obtain(ctx, path, lease, nil)
				return got(err, redislock.ErrNotObtained)
			},
		}
	}}, nil
}

// commands counts a client's commands as requests.
type commands struct{ wire *wire }

func (c commands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.wire.requests.Add(1)
		return next(ctx, cmd)
	}
}

func (c commands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next // only the handshake of a connection is a pipeline, and it does not count
}

func (c commands) DialHook(next redis.DialHook) redis.DialHook {
	return next
}
