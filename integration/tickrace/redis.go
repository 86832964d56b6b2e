package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// redisLocker locks jobs of gocron as gocron-redis-lock v2 does with the options that its README
// shows: it tries once to lock a mutex of redsync with the job's name.
type redisLocker struct {
	mutexes *redsync.Redsync
	options []redsync.Option
}

func newRedisLocker(client redis.UniversalClient, expiry time.Duration) gocron.Locker {
	l := &redisLocker{redsync.New(goredis.NewPool(client)), []redsync.Option{redsync.WithTries(1)}}
	if expiry > 0 {
		l.options = append(l.options, redsync.WithExpiry(expiry))
	}
	return l
}

func (l *redisLocker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	m := l.mutexes.NewMutex(job, l.options...)
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	return redisLock{m}, nil
}

type redisLock struct{ *redsync.Mutex }

func (l redisLock) Unlock(ctx context.Context) error {
	if held, err := l.UnlockContext(ctx); err != nil || !held {
		return errors.Join(err, errors.New("the lock was not held any more"))
	}
	return nil
}

// redisServer is a Redis that syncs each write to disk before it answers, as ZooKeeper does.
type redisServer struct {
	program, dir string
	port         int
	process      *zkserver.Process
}

// startRedis starts a server with its data in dir. It installs Redis if it is missing.
func startRedis(ctx context.Context, dir string) (*redisServer, error) {
	s := &redisServer{dir: dir}
	err := zkserver.Install(ctx, func() (missing []string, err error) {
		if s.program, err = exec.LookPath("redis-server"); err != nil {
			return []string{"redis-server"}, nil
		}
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	ports, err := zkserver.FreePorts(1)
	if err != nil {
		return nil, err
	}
	s.port = ports[0]
	return s, s.start(ctx)
}

func (s *redisServer) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// start starts the server with the data of its earlier run, if any, and waits until it answers.
func (s *redisServer) start(ctx context.Context) (err error) {
	cmd := exec.Command(s.program, "--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--dir", s.dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", "always")
	if s.process, err = zkserver.StartProcess(cmd); err != nil {
		return err
	}
	client := redis.NewClient(&redis.Options{Addr: s.addr(), MaxRetries: -1})
	defer client.Close()
	return wait.Until(ctx, time.Minute, "redis-server answers", func() (bool, error) {
		select {
		case <-s.process.Exited():
			return false, fmt.Errorf("redis-server has ended: %w", s.process.Err())
		default:
			return client.Ping(ctx).Err() == nil, nil
		}
	})
}

// restart kills the server and starts it again.
func (s *redisServer) restart(ctx context.Context) error {
	s.process.Kill()
	return s.start(ctx)
}

func (s *redisServer) stop() error { return s.process.Stop(syscall.SIGTERM, 10*time.Second) }
