package ticks

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
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

// aheadFile is added to package time.
const aheadFile = `package time

import "syscall"

// wallAhead is by how much the wall clock is ahead: whole seconds, and nanoseconds of 0 or more.
var wallAhead = func() (ahead struct{ sec, nsec int64 }) {
	text, ok := syscall.Getenv("` + wallEnv + `")
	n, err := atoi(text)
	if !ok || err != nil {
		return ahead
	}
	ahead.sec, ahead.nsec = int64(n)/1e9, int64(n)%1e9
	if ahead.nsec < 0 {
		ahead.sec, ahead.nsec = ahead.sec-1, ahead.nsec+1e9
	}
	return ahead
}()
`

// reading matches the statement of time.Now that reads the clocks.
var reading = regexp.MustCompile(`(?m)^func Now\(\) Time \{\n\tsec, nsec, mono := \w+\(\)\n`)

const shift = `	sum := int64(nsec) + wallAhead.nsec
	sec, nsec = sec+wallAhead.sec+sum/1e9, int32(sum%1e9)
`

// Build builds the replicas' program in dir, with a wall clock that can be off, and returns its path.
func Build(ctx context.Context, dir string) (string, error) {
	env, err := exec.CommandContext(ctx, "go", "env", "GOROOT", "GOMODCACHE").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	goroot, modules, _ := strings.Cut(strings.TrimSpace(string(env)), "\n")
	if strings.HasPrefix(goroot, modules+"/") {
		return "", fmt.Errorf("the Go in %s was downloaded as a module, and cannot be changed; install it", goroot)
	}
	now := filepath.Join(goroot, "src", "time", "time.go")
	source, err := os.ReadFile(now)
	if err != nil {
		return "", err
	}
	if n := len(reading.FindAll(source, -1)); n != 1 {
		return "", fmt.Errorf("time.Now of this version of Go reads the clocks in another way: %d matches in %s", n, now)
	}
	replace := map[string]string{}
	for path, text := range map[string][]byte{
		now: reading.ReplaceAll(source, []byte("${0}"+shift)),
		filepath.Join(goroot, "src", "time", "wall_ahead.go"): []byte(aheadFile),
	} {
		replace[path] = filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(replace[path], text, 0o600); err != nil {
			return "", err
		}
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
