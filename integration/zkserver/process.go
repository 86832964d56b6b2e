package zkserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Process is a child process, of a server or a client. On Linux it cannot outlive this process.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended; read err only then
	err    error
}

// StartProcess starts a command in its own process group, so that Ctrl-C in the terminal reaches
// only this process. On Linux the child dies with this process, however it ends. The command's
// credentials stay in force.
//
// The kernel sends the parent-death signal when the *thread* that started the child ends, which may
// be long before the process does. So one goroutine, locked to its thread, starts the child and
// waits for its end.
func StartProcess(cmd *exec.Cmd) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setpgid = true
	dieWithParent(cmd.SysProcAttr)
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Pid returns the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Exited returns a channel that closes when the process has ended. [Process.Err] has the result.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err returns nil if the process has ended with exit status 0, otherwise the error of
// [exec.Cmd.Wait]. Call it only after Exited is closed.
func (p *Process) Err() error { return p.err }

// Running returns an error if the process has ended.
func (p *Process) Running() error {
	select {
	case <-p.exited:
		return fmt.Errorf("%s has ended: %v", filepath.Base(p.cmd.Path), p.cmd.ProcessState)
	default:
		return nil
	}
}

// ExitCode returns the exit status of an ended process; -1 if a signal ended it.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Signal sends the process a signal. It fails if the process has ended.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Kill kills the process, stopped or not, and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended
	<-p.exited
}

// Stop sends the process a signal to end, and kills it if it has not ended after the patience. It
// returns an error if the process had ended before, or had to be killed.
func (p *Process) Stop(s os.Signal, patience time.Duration) error {
	select {
	case <-p.exited:
		return fmt.Errorf("had died by itself: %v", p.cmd.ProcessState)
	default:
	}
	_ = p.Signal(s)
	_ = p.Signal(syscall.SIGCONT) // a stopped process handles no signal
	select {
	case <-p.exited:
		return nil
	case <-time.After(patience):
		p.Kill()
		return fmt.Errorf("had to be killed: it ran on for %v after %v", patience, s)
	}
}

// Command returns a command that runs a program with a configuration, as JSON in the environment
// variable env. If program is empty, the command runs this program.
func Command(program, env string, config any) (*exec.Cmd, error) {
	text, err := json.Marshal(config)
	if err == nil && program == "" {
		program, err = os.Executable()
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), env+"="+string(text))
	return cmd, err
}

// Worker is a process that writes messages to its standard output, one a line, and may read
// commands from its standard input. It must be closed.
type Worker struct {
	*Process
	in    io.WriteCloser
	out   *os.File
	errs  *os.File // its standard error; nil: not captured
	lines chan Line
}

// Line is a line of a worker, with the time of its arrival.
type Line struct {
	Text string
	At   time.Time
}

// StartWorker starts a command as [StartProcess] does. It keeps the standard error for
// [Worker.Stderr], unless the command sets it.
func StartWorker(cmd *exec.Cmd) (_ *Worker, err error) {
	w := &Worker{lines: make(chan Line)}
	// The outputs are files: the worker's children may keep them open after its end, and exec would
	// wait for that.
	var out *os.File
	if w.out, out, err = os.Pipe(); err != nil {
		return nil, err
	}
	defer out.Close()
	defer func() {
		if err != nil {
			w.closeFiles()
		}
	}()
	if cmd.Stderr == nil {
		if w.errs, err = os.CreateTemp("", "holdfast-worker-"); err != nil {
			return nil, err
		}
		if err = os.Remove(w.errs.Name()); err != nil {
			return nil, err
		}
		cmd.Stderr = w.errs
	}
	if w.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	cmd.Stdout = out
	if w.Process, err = StartProcess(cmd); err != nil {
		return nil, err
	}
	go w.listen()
	return w, nil
}

func (w *Worker) listen() {
	defer close(w.lines)
	for r := bufio.NewReader(w.out); ; {
		line, err := r.ReadString('\n')
		if line != "" {
			w.lines <- Line{strings.TrimSuffix(line, "\n"), time.Now()}
		}
		if err != nil {
			return
		}
	}
}

// Tell sends a line to the worker, with the words separated by spaces.
func (w *Worker) Tell(words ...any) error {
	_, err := fmt.Fprintln(w.in, words...)
	return err
}

// EndInput closes the worker's standard input.
func (w *Worker) EndInput() { _ = w.in.Close() } // fails only if it is closed already

// HearAll parses each line of the worker as JSON and passes it to add, until the process has ended.
// All lines written before the end are read. It skips invalid lines, for example a line that a kill
// cut short, and returns the error of the last one.
func HearAll[T any](w *Worker, add func(T)) error {
	var wrong error
	for {
		line, err := w.Hear(context.Background())
		if err != nil {
			return wrong
		}
		var value T
		if err := json.Unmarshal([]byte(line.Text), &value); err != nil {
			wrong = fmt.Errorf("it said %q: %w", line.Text, err)
			continue
		}
		add(value)
	}
}

// Hear waits for the next line. After the last line it waits for the end of the process, and
// returns an error that wraps [io.EOF]. Errors include the standard error.
func (w *Worker) Hear(ctx context.Context) (Line, error) {
	select {
	case line, ok := <-w.lines:
		if ok {
			return line, nil
		}
		select {
		case <-w.Exited():
			return Line{}, fmt.Errorf("%w: the process has ended (%v): %s", io.EOF, w.cmd.ProcessState, strings.TrimSpace(w.Stderr()))
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
	return Line{}, fmt.Errorf("%w: %s", context.Cause(ctx), strings.TrimSpace(w.Stderr()))
}

// Stderr returns what the worker and its children have written to standard error so far.
func (w *Worker) Stderr() string {
	if w.errs == nil {
		return ""
	}
	text, err := io.ReadAll(io.NewSectionReader(w.errs, 0, math.MaxInt64))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Close closes the worker's input, kills the worker if it has not ended after the patience, and
// stops reading.
func (w *Worker) Close(patience time.Duration) {
	w.EndInput()
	select {
	case <-w.Exited():
	case <-time.After(patience):
		w.Kill()
	}
	w.closeFiles()
	for range w.lines { // until the reader of its output has ended
	}
}

func (w *Worker) closeFiles() {
	_ = w.out.Close()
	if w.errs != nil {
		_ = w.errs.Close()
	}
}
