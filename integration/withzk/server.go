package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// server is the command's ZooKeeper.
type server struct {
	env  []string // that names it, and the file for the tests that are not run
	stop func() error
}

// startServer starts this machine's ZooKeeper, or one in memory if there is none, and creates the
// file for the tests that are not run.
func startServer(ctx context.Context) (*server, error) {
	notRun, err := os.CreateTemp("", "holdfast-not-run-*")
	if err != nil {
		return nil, err
	}
	defer notRun.Close() // nothing was written
	zk, err := zkserver.StartAny(ctx)
	if err != nil {
		return nil, errors.Join(err, os.Remove(notRun.Name()))
	}
	if zk.Missing == nil {
		say("ZooKeeper at %s, of %s", zk.Addr, zk.Home)
	} else {
		if os.Getenv(zkserver.EnvNoInstall) == "" { // why it could not be installed
			say("%v", zk.Missing)
		}
		say("ZooKeeper at %s, in memory as that of holdfast dev: none is installed", zk.Addr)
	}
	return &server{
		env:  append(zk.Env(), zkserver.EnvNotRun+"="+notRun.Name()),
		stop: func() error { return errors.Join(zk.Stop(), tellNotRun(notRun.Name()), os.Remove(notRun.Name())) },
	}, nil
}

// tellNotRun prints the tests that were not run, by reason.
func tellNotRun(path string) error {
	data, err := os.ReadFile(path)
	if err != nil || len(data) == 0 {
		return err
	}
	lines := slices.Compact(slices.Sorted(strings.Lines(string(data))))
	text, last := "", ""
	for _, line := range lines {
		reason, test, _ := strings.Cut(line, "\t")
		if reason != last {
			text += "\n  " + reason + ":"
			last = reason
		}
		text += "\n    " + strings.TrimSpace(test)
	}
	say("%d tests were not run:%s", len(lines), text)
	return nil
}
