package app

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// mostAside is the largest number of writes that wait for the reader of an [Aside].
const mostAside = 1000

// Aside is a writer that never blocks: a goroutine passes the writes on to the file. While mostAside
// writes wait for a slow reader, further writes are dropped; later the file gets a line with the
// number of dropped writes. All methods are safe for concurrent use. The zero value writes to standard
// error.
type Aside struct {
	File *os.File // nil: standard error at the time of a write

	mu      sync.Mutex
	pending [][]byte // the first one is being written
	written chan struct{}
	dropped int
}

// Fd returns the descriptor of the file, for [IsTerminal].
func (a *Aside) Fd() uintptr { return a.file().Fd() }

func (a *Aside) file() *os.File {
	if a.File != nil {
		return a.File
	}
	return os.Stderr
}

// Write queues a copy of p for writing, or drops p if the queue is full. It never fails.
func (a *Aside) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.pending) >= mostAside {
		a.dropped++
		return len(p), nil
	}
	if a.pending = append(a.pending, bytes.Clone(p)); len(a.pending) == 1 {
		a.written = make(chan struct{})
		go a.pass(a.file(), a.pending[0], a.written)
	}
	return len(p), nil
}

// pass writes p and all pending writes, and then closes written.
func (a *Aside) pass(to io.Writer, p []byte, written chan struct{}) {
	defer close(written)
	for p != nil {
		_, _ = to.Write(p) // if standard error fails, there is nowhere to report it
		p = a.next()
	}
}

// next removes the finished write, and queues the line about dropped writes, if any. It returns the
// next write, or nil.
func (a *Aside) next() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pending = a.pending[1:]; a.dropped > 0 {
		a.pending = append(a.pending, fmt.Appendf(nil, "(%d lines dropped: nothing read them)\n", a.dropped))
		a.dropped = 0
	}
	if len(a.pending) == 0 {
		return nil
	}
	return a.pending[0]
}

// Flush waits until everything is written, but at most for patience.
func (a *Aside) Flush(patience time.Duration) {
	a.mu.Lock()
	written := a.written
	a.mu.Unlock()
	if written == nil {
		return
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-written:
	case <-timer.C:
	}
}

// SurvivePipe keeps this process alive when it writes to a standard output or error whose reader has
// ended: the write fails, and SIGPIPE has no effect. Programs that this process starts get the default
// action of SIGPIPE.
func SurvivePipe() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// lastWords is how long an ending program waits at most for the reader of its standard error.
const lastWords = time.Second

// within calls write, and waits at most lastWords for it.
func within(write func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		write()
	}()
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
