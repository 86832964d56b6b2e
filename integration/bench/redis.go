package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-io/holdfast/integration/zkserver"
)

type redisServer struct {
	*daemon
	look *redis.Client
}

// startRedis starts a server that syncs each write to disk before it answers.
func startRedis(ctx context.Context) (server, string, error) {
	var program string
	err := zkserver.Install(ctx, func() (missing []string, err error) {
		if program, err = exec.LookPath("redis-server"); err != nil {
			return []string{"redis-server"}, nil
		}
		return nil, nil
	})
	if err != nil {
		return nil, "", err
	}
	addr, port, err := freeAddr()
	if err != nil {
		return nil, "", err
	}
	dir, err := os.MkdirTemp("", "holdfast-bench-redis-")
	if err != nil {
		return nil, "", err
	}
	look := redis.NewClient(&redis.Options{Addr: addr})
	d, err := startDaemon(ctx, "redis-server", dir, addr,
		exec.Command(program, "--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always"),
		func(ctx context.Context) error { return look.Ping(ctx).Err() })
	if err != nil {
		return nil, "", errors.Join(err, look.Close())
	}
	s := &redisServer{d, look}
	version, err := s.info(ctx, "server", "redis_version")
	if err != nil {
		return nil, "", errors.Join(err, s.close())
	}
	return s, fmt.Sprintf("Redis %s (one server, appendonly yes, appendfsync always)", version), nil
}

// info returns what the server tells of itself.
func (s *redisServer) info(ctx context.Context, section, key string) (string, error) {
	text, err := s.look.Info(ctx, section).Result()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, key+":"); found {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("redis-server: INFO %s has no %s", section, key)
}

// transactions tells how often the data was changed, since it is never saved but
// in the log.
func (s *redisServer) transactions(ctx context.Context) (int64, error) {
	changes, err := s.info(ctx, "persistence", "rdb_changes_since_last_save")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(changes, 10, 64)
}

func (s *redisServer) close() error { return errors.Join(s.look.Close(), s.daemon.close()) }

type redisSession struct {
	wire
	client *redis.Client
	locks  *redislock.Client
}

func openRedis(ctx context.Context, addr string) (session, error) {
	s := new(redisSession)
	s.client = redis.NewClient(&redis.Options{Addr: addr, PoolSize: most, Dialer: s.dial})
	s.client.AddHook(commands{&s.wire})
	s.locks = redislock.New(s.client)
	if err := s.client.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(err, s.client.Close())
	}
	return s, nil
}

func (s *redisSession) close() error { return s.client.Close() }

func (s *redisSession) locker(path string) locker { return &redisLocker{locks: s.locks, path: path} }

type redisLocker struct {
	locks *redislock.Client
	path  string
	held  *redislock.Lock
}

func (l *redisLocker) lock(ctx context.Context) (err error) {
	l.held, err = l.locks.Obtain(ctx, l.path, lease, &redislock.Options{RetryStrategy: polling()})
	return err
}

func (l *redisLocker) unlock() error { return l.held.Release(context.Background()) }

func (l *redisLocker) try(ctx context.Context) (bool, error) {
	held, err := l.locks.Obtain(ctx, l.path, lease, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return false, nil
	}
	l.held = held
	return err == nil, err
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
	return next // a connection's handshake
}

func (c commands) DialHook(next redis.DialHook) redis.DialHook {
	return next
}
