package zkserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Faketime returns the environment in which a server's clock is ahead by the given
// time, or behind if that is negative: with libfaketime, which the JVM obeys. It
// is installed as [Find] installs ZooKeeper.
func Faketime(ctx context.Context, ahead time.Duration) ([]string, error) {
	env, err := faketime(ctx)
	if err != nil {
		return nil, err
	}
	return append(env, "FAKETIME="+shift(ahead)), nil
}

// faketime returns the environment that shifts a server's clock, but for by how much.
func faketime(ctx context.Context) ([]string, error) {
	const pkg = "libfaketime"
	var library string
	missing := func() ([]string, error) {
		found, err := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
		if len(found) == 0 {
			return []string{pkg}, err
		}
		library = found[0]
		return nil, err
	}
	if err := Install(ctx, missing); err != nil {
		return nil, fmt.Errorf("zkserver: no library to shift a server's clock with: %w", err)
	}
	return []string{
		"LD_PRELOAD=" + library,
		"DONT_FAKE_MONOTONIC=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "NO_FAKE_STAT=1",
		"FAKETIME_FORCE_MONOTONIC_FIX=0", // with it the JVM's timed waits return at once, and the server spins
	}, nil
}

// shift is how libfaketime takes by how much a clock is ahead.
func shift(ahead time.Duration) string { return fmt.Sprintf("%+.3fs", ahead.Seconds()) }

// Clock is a clock for servers that can be stepped while they run.
type Clock struct {
	file string
	env  []string
}

// NewClock returns a clock that is right until it is stepped. It keeps a file in dir,
// which has to stay while servers run by the clock.
func NewClock(ctx context.Context, dir string) (*Clock, error) {
	env, err := faketime(ctx)
	if err != nil {
		return nil, err
	}
	c := &Clock{file: filepath.Join(dir, "clock")}
	c.env = append(env, "FAKETIME_TIMESTAMP_FILE="+c.file, "FAKETIME_CACHE_DURATION=1")
	return c, c.Step(0)
}

// Env is the environment in which a server runs by the clock: see [Options].
func (c *Clock) Env() []string { return c.env }

// Step steps the clock, so that it is ahead by the given time, or behind if that is
// negative. Servers that run have the new time within about a second, and those that
// are started later at once.
func (c *Clock) Step(ahead time.Duration) error {
	// No process may read a file that is half written.
	next := c.file + ".next"
	if err := os.WriteFile(next, []byte(shift(ahead)+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(next, c.file)
}
