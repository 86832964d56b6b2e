package main

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/list"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
)

// barInterval is the interval of redraws. If reading takes less time, no bar is shown.
const barInterval = 300 * time.Millisecond

// showProgress shows the progress of a listing on a terminal, until end is called. Elsewhere it
// shows nothing.
func showProgress(errs io.Writer, p *list.Progress) (end func()) {
	if !app.IsTerminal(errs) {
		return func() {}
	}
	done, cleared := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(cleared)
		again := time.NewTicker(barInterval)
		defer again.Stop()
		var bar *progressbar.ProgressBar
		for {
			select {
			case <-again.C:
			case <-done:
				if bar != nil {
					_ = bar.Clear() // if it fails, the bar stays on the screen
				}
				return
			}
			if bar == nil {
				bar = progressbar.NewOptions(1, progressbar.OptionSetWriter(errs), progressbar.OptionSetDescription("reading"),
					progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("nodes"),
					progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30), progressbar.OptionSetPredictTime(true))
			}
			read := int(p.Done.Load())
			bar.ChangeMax(max(int(p.Found.Load()), read+1)) // reaching the maximum would finish the bar
			_ = bar.Set(read)
		}
	}()
	return func() {
		close(done)
		<-cleared
	}
}
