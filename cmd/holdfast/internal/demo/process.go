package demo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/group"
)

// until polls until yes returns true, for at most patience. The error names what did not happen.
func until(ctx context.Context, what string, yes func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it did not happen in %v that %s", patience, what))
	defer cancel()
	for !yes() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// patience is the limit of every wait. No correct wait takes that long.
const patience = 2 * time.Minute

// process is a worker's process, or the reaper's.
type process struct {
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan string  // lines of its standard output; closed when the process has ended
	errors bytes.Buffer // its standard error; read it only after lines is closed
}

// start starts a program in its own process group, so that Ctrl-C reaches only the demo, which then
// ends the program.
func (d *demo) start(name, path string, args ...string) *process {
	p := &process{name: name, lines: make(chan string, 256)}
	p.cmd = &exec.Cmd{Path: path, Args: args, Stderr: &p.errors, SysProcAttr: group.Own()}
	in, err := p.cmd.StdinPipe()
	check(err)
	out, err := p.cmd.StdoutPipe()
	check(err)
	if err := p.cmd.Start(); err != nil {
		check(fmt.Errorf("start %s: %w", name, err))
	}
	p.in = in
	d.processes = append(d.processes, p)
	go func() {
		defer close(p.lines)
		for out := bufio.NewScanner(out); out.Scan(); {
			p.lines <- out.Text()
		}
		_ = p.cmd.Wait() // cmd.ProcessState has the result
	}()
	return p
}

// worker starts a worker. part is a key of [parts], and the arguments of its function.
func (d *demo) worker(name string, part ...string) *process {
	self, err := os.Executable()
	check(err)
	return d.start(name, self, append([]string{workerName, strings.Join(d.Servers, ","), string(d.base)}, part...)...)
}

// order sends a line to a worker. If the worker has ended, the next [process.hear] tells why.
func (p *process) order(line string) { _, _ = fmt.Fprintln(p.in, line) }

// hear waits for a worker's line with word as its first word, and returns the rest. Any other line,
// the worker's end, and a wait longer than patience end the demo.
func (p *process) hear(ctx context.Context, word string) string {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("nothing happened for too long"))
	defer cancel()
	line := p.overhear(ctx)
	got, rest, _ := strings.Cut(line, " ")
	switch {
	case line == "":
		check(fmt.Errorf("waiting for %s to say %q: %w", p.name, word, context.Cause(ctx)))
	case got != word:
		check(fmt.Errorf("%s said %q, when it should have said %q", p.name, line, word))
	}
	return rest
}

// overhear waits for a line from a worker until ctx ends, and returns "" if there is none. If the
// worker has ended, that ends the demo.
func (p *process) overhear(ctx context.Context) string {
	select {
	case line, alive := <-p.lines:
		if !alive {
			check(p.end())
		}
		return line
	case <-ctx.Done():
		return ""
	}
}

// tell sends a line to a worker, waits for a line with answer as its first word, and returns the rest.
func (p *process) tell(ctx context.Context, line, answer string) string {
	p.order(line)
	return p.hear(ctx, answer)
}

// kill kills the process with SIGKILL, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended
	for range p.lines {      // the process ends only when its output has been read
	}
}

// stop sends the process SIGTERM, and waits for its end. An exit status other than 0 ends the demo.
func (p *process) stop(ctx context.Context) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	check(until(ctx, p.name+" ends", p.ended))
	if !p.cmd.ProcessState.Success() {
		check(p.end())
	}
}

// ended reports whether the process has ended. It drops a line of the process's output, if there is
// one.
func (p *process) ended() bool {
	select {
	case _, alive := <-p.lines:
		return !alive
	default:
		return false
	}
}

// end returns an error with the status and the standard error of a process that has ended.
func (p *process) end() error {
	return fmt.Errorf("%s has ended (%v): %s", p.name, p.cmd.ProcessState, p.errors.Bytes())
}
