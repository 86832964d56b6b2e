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

// patience is the limit of every wait. No correct wait takes that long.
const patience = 2 * time.Minute

// process is a worker's process, or the reaper's.
type process struct {
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan string   // lines of its standard output; closed at the end of the output
	gone   chan struct{} // closed when the process has ended
	errors bytes.Buffer  // its standard error; read it only after gone is closed
}

// start starts a program in its own process group, so that Ctrl-C reaches only the demo, which then
// ends the program.
func (d *demo) start(name, path string, args ...string) *process {
	p := &process{name: name, lines: make(chan string, 256), gone: make(chan struct{})}
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
		defer close(p.gone)
		for out := bufio.NewScanner(out); out.Scan(); {
			p.lines <- out.Text()
		}
		close(p.lines)
		_ = p.cmd.Wait() // cmd.ProcessState has the result
	}()
	return p
}

// worker starts a worker. part is a key of [parts], and the arguments of its function.
func (d *demo) worker(name string, part ...string) *process {
	self, err := os.Executable()
	check(err)
	return d.start(name, self, append([]string{workerName, strings.Join(d.Servers, ","), string(d.Base)}, part...)...)
}

// order sends a line to a worker.
func (p *process) order(line string) {
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		check(fmt.Errorf("%s does not listen: %w", p.name, err))
	}
}

// hear waits for a worker's line with that first word, and returns the rest. Any other line, and
// the worker's end, ends the demo.
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

// tell sends a line to a worker and waits for its answer.
func (p *process) tell(ctx context.Context, line, answer string) string {
	p.order(line)
	return p.hear(ctx, answer)
}

// kill kills the process with SIGKILL, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended
	for range p.lines {      // the process ends only when its output has been read
	}
	<-p.gone
}

// stop ends the process with SIGTERM.
func (p *process) stop(ctx context.Context) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	check(await(ctx, p.name+" ends", p.ended))
	if !p.cmd.ProcessState.Success() {
		check(p.end())
	}
}

func (p *process) ended() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// end waits for the end of the process, and returns an error with its status and standard error.
func (p *process) end() error {
	<-p.gone
	return fmt.Errorf("%s has ended (%v): %s", p.name, p.cmd.ProcessState, p.errors.Bytes())
}

var errTooLong = errors.New("it did not come to that")

// await polls until yes returns true. It fails with errTooLong if that takes too long.
func await(ctx context.Context, what string, yes func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errTooLong)
	defer cancel()
	for !yes() {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, context.Cause(ctx))
		}
	}
	return nil
}
