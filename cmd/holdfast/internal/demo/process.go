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

// patience is how long the demo waits for anything: more than it ever takes.
const patience = 2 * time.Minute

// process is a program that plays a part: one of our workers, or the reaper.
type process struct {
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan string   // of its standard output, but for the next; closed at its end
	news   chan session  // ZooKeeper sessions that it was given
	gone   chan struct{} // closed when it has ended
	errors bytes.Buffer  // its standard error; to be read when it has ended
}

// start starts a program. It has a process group of its own, so that Ctrl-C
// reaches only us, and we end it.
func (d *demo) start(name, path string, args ...string) (*process, error) {
	p := &process{name: name, lines: make(chan string, 256), news: make(chan session, 256), gone: make(chan struct{})}
	p.cmd = &exec.Cmd{Path: path, Args: args, Stderr: &p.errors, SysProcAttr: group.Own()}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.in = in
	d.processes = append(d.processes, p)
	go func() {
		defer close(p.gone)
		for out := bufio.NewScanner(out); out.Scan(); {
			var s session
			if n, _ := fmt.Sscanf(out.Text(), sessionFormat, &s.server, &s.id, &s.secret); n == 3 {
				p.news <- s
			} else {
				p.lines <- out.Text()
			}
		}
		close(p.lines)
		_ = p.cmd.Wait() // cmd.ProcessState tells
	}()
	return p, nil
}

// worker starts a worker that plays a part: see [Helper].
func (d *demo) worker(name, part string, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return d.start(name, self, append([]string{workerName, part, strings.Join(d.Servers, ","), string(d.Base)}, args...)...)
}

// order sends a worker a line.
func (p *process) order(line string) error {
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		return fmt.Errorf("%s does not listen: %w", p.name, err)
	}
	return nil
}

// hear waits for a line with that first word from a worker, and returns the rest.
// Any other line, and the worker's end, is an error.
func (p *process) hear(ctx context.Context, word string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("nothing happened for too long"))
	defer cancel()
	select {
	case line, alive := <-p.lines:
		if !alive {
			<-p.gone
			return "", fmt.Errorf("%s has ended (%v), when it should have said %q: %s", p.name, p.cmd.ProcessState, word, p.errors.Bytes())
		}
		got, rest, _ := strings.Cut(line, " ")
		if got != word {
			return "", fmt.Errorf("%s said %q, when it should have said %q", p.name, line, word)
		}
		return rest, nil
	case <-ctx.Done():
		return "", fmt.Errorf("waiting for %s to say %q: %w", p.name, word, context.Cause(ctx))
	}
}

// session waits for a session of a worker's that is another than the last one.
func (p *process) session(ctx context.Context, last session) (session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("it got none"))
	defer cancel()
	for {
		select {
		case s := <-p.news:
			if s.id != last.id {
				return s, nil
			}
		case <-p.gone:
			return session{}, fmt.Errorf("%s has ended (%v): %s", p.name, p.cmd.ProcessState, p.errors.Bytes())
		case <-ctx.Done():
			return session{}, fmt.Errorf("waiting for the session of %s: %w", p.name, context.Cause(ctx))
		}
	}
}

// overhear waits for a line from a worker that should say nothing until ctx ends,
// and returns "" if it does not.
func (p *process) overhear(ctx context.Context) (string, error) {
	select {
	case line, alive := <-p.lines:
		if !alive {
			<-p.gone
			return "", fmt.Errorf("%s has ended (%v): %s", p.name, p.cmd.ProcessState, p.errors.Bytes())
		}
		return line, nil
	case <-ctx.Done():
		return "", nil
	}
}

// tell sends a worker a line and waits for its answer.
func (p *process) tell(ctx context.Context, line, answer string) (string, error) {
	if err := p.order(line); err != nil {
		return "", err
	}
	return p.hear(ctx, answer)
}

// kill ends the process with SIGKILL, and returns when it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if it is gone
	for range p.lines {      // which its output has to be read for
	}
	<-p.gone
}

// stop ends the process with SIGTERM.
func (p *process) stop(ctx context.Context) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("it does not end"))
	defer cancel()
	select {
	case <-p.gone:
	case <-ctx.Done():
		return fmt.Errorf("stopping %s: %w", p.name, context.Cause(ctx))
	}
	if !p.cmd.ProcessState.Success() {
		return fmt.Errorf("%s: %v: %s", p.name, p.cmd.ProcessState, p.errors.Bytes())
	}
	return nil
}

var errTooLong = errors.New("it did not come to that")

// await asks until the answer is yes. It fails with errTooLong if that takes too
// long.
func await(ctx context.Context, what string, yes func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errTooLong)
	defer cancel()
	for {
		ok, err := yes()
		if err != nil || ok {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, context.Cause(ctx))
		}
	}
}
