package app

import (
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// barInterval is the interval of redraws. What takes less time shows no bar.
const barInterval = 200 * time.Millisecond

// Bar shows the progress of a program on a terminal, and nothing elsewhere. It is also a writer to the
// terminal, whose lines appear above the progress. All methods are safe for concurrent use.
type Bar struct {
	io.Writer
	options []progressbar.Option
	mu      sync.Mutex
	bar     *progressbar.ProgressBar // nil: none is drawn
}

// NewBar returns a bar that says what is done, counted in the unit; "" means bytes.
func NewBar(to io.Writer, what, unit string) *Bar {
	options := []progressbar.Option{progressbar.OptionSetWriter(to), progressbar.OptionSetDescription(what), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetWidth(30), progressbar.OptionSetPredictTime(true)}
	if unit == "" {
		options = append(options, progressbar.OptionShowBytes(true))
	} else {
		options = append(options, progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString(unit))
	}
	return &Bar{Writer: to, options: options}
}

// Fd returns the descriptor of the terminal, for [IsTerminal].
func (b *Bar) Fd() uintptr {
	if f, ok := b.Writer.(interface{ Fd() uintptr }); ok {
		return f.Fd()
	}
	return ^uintptr(0) // of no file
}

// Write writes a line above the progress.
func (b *Bar) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clear()
	return b.Writer.Write(line)
}

// Follow shows the progress of what is done of what was found so far, until stop is called.
func (b *Bar) Follow(progress func() (done, found int64)) (stop func()) {
	if !IsTerminal(b.Writer) {
		return func() {}
	}
	ended := make(chan struct{})
	var drawing sync.WaitGroup
	drawing.Go(func() {
		again := time.NewTicker(barInterval)
		defer again.Stop()
		for {
			select {
			case <-again.C:
				b.draw(progress())
			case <-ended:
				return
			}
		}
	})
	return func() {
		close(ended)
		drawing.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		b.clear()
		b.bar = nil
	}
}

func (b *Bar) draw(done, found int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bar == nil {
		b.bar = progressbar.NewOptions64(1, b.options...)
	}
	b.bar.ChangeMax64(max(found, done+1)) // reaching the maximum would finish the bar
	_ = b.bar.Set64(done)                 // if it fails, only the bar is missing
}

// clear clears the bar, if there is one. If that fails, the bar stays on the screen.
func (b *Bar) clear() {
	if b.bar != nil {
		_ = b.bar.Clear()
	}
}
