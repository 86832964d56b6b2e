package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// fullPipe returns a pipe whose buffer is full, and its reader.
func fullPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	iferr.Fatal(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	for err == nil {
		// wall clock: a full pipe makes no event. Each write has a second, so that on a busy machine, too, it is tried.
		iferr.Fatal(t, w.SetWriteDeadline(time.Now().Add(time.Second)))
		_, err = w.Write([]byte(strings.Repeat("x", 1023) + "\n"))
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	iferr.Fatal(t, w.SetWriteDeadline(time.Time{}))
	return r, w
}

// TestAside: writes do not wait for a reader. A later reader gets the kept writes in order, and the
// number of dropped ones.
func TestAside(t *testing.T) {
	r, w := fullPipe(t)
	a := &Aside{File: w}
	for i := range mostAside + 3 {
		fmt.Fprintf(a, "line %d\n", i)
	}
	begun := time.Now()
	if a.Flush(10 * time.Millisecond); time.Since(begun) > time.Minute {
		t.Error("Flush waits for the reader")
	}
	lines := bufio.NewScanner(r)
	next := func() string {
		for lines.Scan() {
			if !strings.HasSuffix(lines.Text(), "xxx") {
				return lines.Text()
			}
		}
		return fmt.Sprint("no more: ", lines.Err())
	}
	for i := range mostAside {
		if got, want := next(), fmt.Sprint("line ", i); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
		if want := "(3 lines dropped: nothing read them)"; i == mostAside-1 {
			if got := next(); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
	}
	a.Flush(time.Minute)
	fmt.Fprintln(a, "another")
	if got := next(); got != "another" {
		t.Error(got)
	}
	a.Flush(time.Minute)
	if IsTerminal(a) {
		t.Error("a pipe is taken for a terminal")
	}
}

// TestRunWithStuckStderr: a program ends although no process reads its last message.
func TestRunWithStuckStderr(t *testing.T) {
	r, w := fullPipe(t)
	cmd := &cobra.Command{Use: "prog", RunE: func(*cobra.Command, []string) error { return errors.New("failed") }}
	status := make(chan int, 1)
	go func() { status <- Run(context.Background(), cmd, nil, nil, io.Discard, w) }()
	select {
	case got := <-status:
		if got != StatusFailed {
			t.Errorf("status %d", got)
		}
	case <-time.After(time.Minute):
		t.Error("it waits for its standard error to be read")
	}
	iferr.Error(t, iferr.Of(io.CopyN(io.Discard, r, 4096))) // the write goes on
}
