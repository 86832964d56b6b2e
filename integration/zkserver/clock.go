package zkserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Clock is a clock for servers, whose JVMs use it through libfaketime. Step can change the clock
// while servers run.
type Clock struct{ file, library string }

// NewClock returns a clock that is ahead by the given time; a negative time means behind. The clock
// keeps a file in dir, so dir must exist while servers use the clock. NewClock installs libfaketime
// as [Find] installs ZooKeeper.
func NewClock(ctx context.Context, dir string, ahead time.Duration) (*Clock, error) {
	c := &Clock{file: filepath.Join(dir, "clock"+ahead.String())}
	err := Install(ctx, func() ([]string, error) {
		found, err := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
		if len(found) == 0 {
			return []string{"libfaketime"}, err
		}
		c.library = found[0]
		return nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("zkserver: no library to shift a server's clock with: %w", err)
	}
	return c, c.Step(ahead)
}

// Env returns the environment of a server with this clock; see [Options].
func (c *Clock) Env() []string {
	return []string{
		"LD_PRELOAD=" + c.library,
		"DONT_FAKE_MONOTONIC=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "NO_FAKE_STAT=1",
		"FAKETIME_FORCE_MONOTONIC_FIX=0", // with 1, the JVM's timed waits return at once, and the server spins
		"FAKETIME_TIMESTAMP_FILE=" + c.file, "FAKETIME_CACHE_DURATION=1",
	}
}

// Step steps the clock, so that it is ahead by the given time; a negative time means behind.
// Running servers use the new time within about a second, and servers that start later at once.
func (c *Clock) Step(ahead time.Duration) error {
	// No process may read an incomplete file.
	next := c.file + ".next"
	if err := os.WriteFile(next, fmt.Appendf(nil, "%+.3fs\n", ahead.Seconds()), 0o600); err != nil {
		return err
	}
	return os.Rename(next, c.file)
}
