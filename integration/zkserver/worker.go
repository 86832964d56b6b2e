package zkserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Worker is a process that says what it does, in lines on its standard output, and
// may be told what to do, in lines on its standard input. It has to be closed.
type Worker struct {
	*Process
	in    io.WriteCloser
	out   *os.File
	errs  *os.File // its standard error; nil: that goes elsewhere
	lines chan Line
}

// Line is something that a worker said, and when that was heard.
type Line struct {
	Text string
	At   time.Time
}

// StartWorker starts a command as [StartProcess] does. Its standard error is kept for
// [Worker.Stderr], unless the command says where it goes.
func StartWorker(cmd *exec.Cmd) (_ *Worker, err error) {
	w := &Worker{lines: make(chan Line)}
	// Files, since children of the worker's may have them for longer than it lives.
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

// Tell says a line to the worker, the words with spaces between them.
func (w *Worker) Tell(words ...any) error {
	_, err := fmt.Fprintln(w.in, words...)
	return err
}

// EndInput tells the worker that nothing more will be said.
func (w *Worker) EndInput() { _ = w.in.Close() } // fails only if it has ended

// Hear waits for the next line. When there is none to come, it waits for the process to
// end: the error then wraps [io.EOF]. Errors tell what stands on standard error.
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

// Stderr returns what the worker, and children of its, have said on standard error so
// far.
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

// Close ends the worker's input, kills the worker unless it has ended within a time,
// and listens no more.
func (w *Worker) Close(patience time.Duration) {
	w.EndInput()
	select {
	case <-w.Exited():
	case <-time.After(patience):
		w.Kill()
	}
	w.closeFiles()
	for range w.lines { // until the listener has noticed
	}
}

func (w *Worker) closeFiles() {
	_ = w.out.Close()
	if w.errs != nil {
		_ = w.errs.Close()
	}
}
