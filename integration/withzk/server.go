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

// startServer starts the ZooKeeper of this machine, or where there is none, one in memory,
// and makes the file for the tests that are not run.
func startServer(ctx context.Context) (*server, error) {
	notRun, err := os.CreateTemp("", "holdfast-not-run-*")
	if err != nil {
		return nil, err
	}
	defer notRun.Close() // nothing was written
	s, err := findServer(ctx)
	if err != nil {
		return nil, errors.Join(err, os.Remove(notRun.Name()))
	}
	s.env = append(s.env, zkserver.EnvNotRun+"="+notRun.Name())
	stop := s.stop
	s.stop = func() error { return errors.Join(stop(), tellNotRun(notRun.Name()), os.Remove(notRun.Name())) }
	return s, nil
}

func findServer(ctx context.Context) (*server, error) {
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

func startEmbedded() (*server, error) {
	addr, stop, err := zkserver.StartEmbedded(zkserver.Options{})
	if err != nil {
		return nil, err
	}
	say("ZooKeeper at %s, in memory as that of holdfast dev: none is installed", addr)
	return &server{[]string{zkserver.EnvServers + "=" + addr, zkserver.EnvEmbedded + "=1"}, stop}, nil
}

// tellNotRun prints the tests that were not run, by reason.
func tellNotRun(path string) error {
	data, err := os.ReadFile(path)
	if err != nil || len(data) == 0 {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	slices.Sort(lines)
	lines = slices.Compact(lines)
	text, last := "", ""
	for _, line := range lines {
		reason, test, _ := strings.Cut(line, "\t")
		if reason != last {
			text += "\n  " + reason + ":"
			last = reason
		}
		text += "\n    " + test
	}
	say("%d tests were not run:%s", len(lines), text)
	return nil
}
