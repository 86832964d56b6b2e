package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// server is the ZooKeeper that the command gets.
type server struct {
	env  []string // that names it
	stop func() error
}

// startServer starts the ZooKeeper of this machine, or where there is none, one in memory.
func startServer(ctx context.Context) (*server, error) {
	found, err := zkserver.Find(ctx)
	if errors.Is(err, zkserver.ErrNotInstalled) && ctx.Err() == nil {
		if os.Getenv(zkserver.EnvNoInstall) == "" { // why it could not be installed
			say("%v", err)
		}
		return startEmbedded()
	}
	if err != nil {
		return nil, err
	}
	s, err := zkserver.Start(ctx, zkserver.Options{Installation: found})
	if err != nil {
		return nil, err
	}
	say("ZooKeeper at %s, of %s", s.Addr(), found.Home)
	return &server{[]string{zkserver.EnvServers + "=" + s.Addr()}, s.Stop}, nil
}

// startEmbedded starts a ZooKeeper in memory, with a file for the tests that it cannot serve.
func startEmbedded() (*server, error) {
	skipped, err := os.CreateTemp("", "holdfast-skipped-*")
	if err != nil {
		return nil, err
	}
	if err := skipped.Close(); err != nil {
		return nil, err
	}
	addr, stop, err := zkserver.StartEmbedded(zkserver.Options{})
	if err != nil {
		return nil, errors.Join(err, os.Remove(skipped.Name()))
	}
	say("ZooKeeper at %s, in memory as that of holdfast dev: none is installed", addr)
	return &server{[]string{zkserver.EnvServers + "=" + addr, zkserver.EnvEmbedded + "=" + skipped.Name()}, func() error {
		return errors.Join(stop(), tellSkipped(skipped.Name()), os.Remove(skipped.Name()))
	}}, nil
}

// tellSkipped lists the tests that were skipped because they need a real server.
func tellSkipped(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	tests := strings.Fields(string(text))
	slices.Sort(tests)
	if tests = slices.Compact(tests); len(tests) > 0 {
		say("%d tests were not run, because they need a real ZooKeeper:\n  %s", len(tests), strings.Join(tests, "\n  "))
	}
	return nil
}
