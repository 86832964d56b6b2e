package app

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// mostAside is how many writes wait for the reader of an [Aside].
const mostAside = 1000

// Aside is a writer that never blocks: a goroutine, which is there while there is something
// to write, passes on what it is given. If the reader of the file behind it blocks, further
// writes are dropped, and the reader is told how many. All methods are safe for concurrent
// use. The zero value writes to standard error.
type Aside struct {
	File *os.File // nil: standard error, as it is when something is written

	mu      sync.Mutex
	pending [][]byte // the first one is being written
	written chan struct{}
	dropped int
}

// Fd is the descriptor of the file, by which [IsTerminal] knows a terminal.
func (a *Aside) Fd() uintptr { return a.file().Fd() }

func (a *Aside) file() *os.File {
	if a.File != nil {
		return a.File
	}
	return os.Stderr
}

// Write takes what is to be written.
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

// pass writes until nothing is pending.
func (a *Aside) pass(to io.Writer, p []byte, written chan struct{}) {
	defer close(written)
	for p != nil {
		_, _ = to.Write(p) // standard error has failed: an error has no other place to go
		p = a.next()
	}
}

// next drops what was written, and returns what is to be written next, or nil.
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

// Flush waits until all is written, and no longer than patience.
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

// lastWords is for how long a program that ends waits for the reader of its standard error.
const lastWords = time.Second

// within has something written, and waits for that no longer than lastWords.
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
