package main

import (
	"io"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/list"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
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

// heapGrowth is how much the heap may grow until it is collected, in percent: what is kept of each lock
// matters more than the time, and an operator may read the logs on a server.
const heapGrowth = 40

// showReading shows the progress of reading logs on a terminal, after barInterval and until end is
// called. Elsewhere it shows nothing. Until then the heap is kept small.
func showReading(errs io.Writer, logs *txnlog.Log) (end func()) {
	usual := debug.SetGCPercent(heapGrowth)
	if !app.IsTerminal(errs) {
		return func() { debug.SetGCPercent(usual) }
	}
	var bar *progressbar.ProgressBar
	began := time.Now()
	var once atomic.Bool
	logs.Progress = func(read, total int64) {
		if time.Since(began) < barInterval {
			return
		}
		if bar == nil {
			bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(errs), progressbar.OptionSetDescription("reading"),
				progressbar.OptionShowBytes(true), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30),
				progressbar.OptionSetPredictTime(true), progressbar.OptionThrottle(barInterval))
		}
		_ = bar.Set64(min(read, total-1)) // reaching the maximum would finish the bar
	}
	return func() {
		debug.SetGCPercent(usual)
		if bar != nil && once.CompareAndSwap(false, true) {
			_ = bar.Clear() // if it fails, the bar stays on the screen
		}
	}
}
