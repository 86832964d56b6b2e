package ticks

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/holdfast-io/holdfast/integration/repeatable"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// ReplicaEnv is the environment variable with the configuration of a replica: a [Replica] in JSON.
const ReplicaEnv = "HOLDFAST_TICKS_REPLICA"

// wallEnv names the variable with the number of nanoseconds by which a replica's wall clock is
// ahead. Go programs do not use the C library's clock, so libfaketime does not help: the replicas
// are built with another time.Now.
const wallEnv = "HOLDFAST_WALL_AHEAD"

var wallAhead = []repeatable.Change{
	{File: "time/zoneinfo.go", Old: "var utcLoc = ", New: `// wallAhead is by how much the wall clock is ahead.
var wallAhead = func() Duration {
	text, _ := syscall.Getenv("` + wallEnv + `")
	n, _ := atoi(text) // 0 without the variable
	return Duration(n)
}()

var utcLoc = `},
	{File: "time/time.go", Old: "func Now() Time {\n", New: `func Now() Time {
	t := rightNow().Add(wallAhead)
	t.ext -= int64(wallAhead) // the monotonic clock is right
	return t
}

func rightNow() Time {
`},
}

// Build builds the replicas' program in dir, with a wall clock that can be off, and returns its path.
func Build(ctx context.Context, dir string) (string, error) {
	replace, err := repeatable.Changed(dir, wallAhead)
	if err != nil {
		return "", err
	}
	overlay, err := repeatable.Overlay(dir, replace)
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "replica")
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-overlay", overlay, "-o", program, "github.com/holdfast-io/holdfast/integration/compare/ticks/replica")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the replicas: %w\n%s", err, out)
	}
	return program, nil
}

// Command returns the command of a replica.
func (r Replica) Command(program string) (*exec.Cmd, error) {
	cmd, err := zkserver.Command(program, ReplicaEnv, r)
	cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", wallEnv, r.Ahead.Nanoseconds()))
	return cmd, err
}

// clock is how far a wall clock is off.
type clock struct{ ahead time.Duration }

// timerJitter is how early a timer may fire by the wall clock.
const timerJitter = 100 * time.Millisecond

// tick returns the tick, in right time, to which a run at the time wall of this clock belongs. If the
// clock is not off by whole seconds, its seconds begin at other moments than the ticks. So tick
// returns the nearest tick.
func (c clock) tick(wall time.Time) time.Time {
	return wall.Add(timerJitter).Truncate(Interval).Add(-c.ahead).Round(Interval)
}
