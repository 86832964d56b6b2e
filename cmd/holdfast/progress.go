package main

import (
	"io"
	"runtime/debug"
	"sync/atomic"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/list"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
)

// showProgress shows the progress of a listing on a terminal, until end is called.
func showProgress(errs io.Writer, p *list.Progress) (end func()) {
	return app.NewBar(errs, "reading", "nodes").Follow(func() (done, found int64) { return p.Done.Load(), p.Found.Load() })
}

// heapGrowth is how much the heap may grow until it is collected, in percent: what is kept of each lock
// matters more than the time, and an operator may read the logs on a server.
const heapGrowth = 40

// showReading shows the progress of reading logs on a terminal, until end is called. Until then the
// heap is kept small.
func showReading(errs io.Writer, logs *txnlog.Log) (end func()) {
	usual := debug.SetGCPercent(heapGrowth)
	var read, total atomic.Int64
	logs.Progress = func(r, t int64) {
		read.Store(r)
		total.Store(t)
	}
	hide := app.NewBar(errs, "reading", "").Follow(func() (int64, int64) { return read.Load(), total.Load() })
	return func() {
		hide()
		debug.SetGCPercent(usual)
	}
}
