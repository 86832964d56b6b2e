package main

import (
	"context"
	"net"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// redisServer is a Redis that syncs each write to disk before it answers, as ZooKeeper does.
type redisServer struct {
	crew.Given
	program, dir string
	process      *zkserver.Process
}

// startRedis starts a server with its data in dir. It installs Redis if it is missing.
func startRedis(ctx context.Context, dir string) (crew.Cluster, error) {
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
	s.Given = crew.Given{net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))}
	return s, s.Restart(ctx, 0)
}

// Restart starts the server with the data of its earlier run, if any, and waits until it answers.
func (s *redisServer) Restart(ctx context.Context, _ int) (err error) {
	_, port, _ := net.SplitHostPort(s.Given[0])
	cmd := exec.Command(s.program, "--bind", "127.0.0.1", "--port", port, "--dir", s.dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", "always")
	if s.process, err = zkserver.StartProcess(cmd); err != nil {
		return err
	}
	client := redis.NewClient(&redis.Options{Addr: s.Given[0], MaxRetries: -1})
	defer client.Close()
	return wait.Until(ctx, time.Minute, "redis-server answers", func() (bool, error) {
		return client.Ping(ctx).Err() == nil, s.process.Running()
	})
}

func (s *redisServer) Kill(int) error { s.process.Kill(); return nil }
func (s *redisServer) Stop() error    { return s.process.Stop(syscall.SIGTERM, 10*time.Second) }
