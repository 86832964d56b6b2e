package main

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/schollz/progressbar/v3"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock/admin/jsonout"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/reaper"
)

// sweep makes one pass over each root and prints the report, or a list of reports if the
// configuration has named roots.
func (p *program) sweep(ctx context.Context, cfg *config.Config, out io.Writer) error {
	errs, shown := p.errs, (*bar)(nil)
	if to, ok := p.errs.(terminal); ok && app.IsTerminal(to) {
		shown = newBar(to)
		errs = shown
	}
	log := app.Logger(cfg.Log, errs)
	var reports []reaper.Report
	elsewhere := true // all errors say that another reaper is the active one
	wrong := app.ForEachRoot(cfg, func(n config.Named) error {
		report, err := p.sweepRoot(ctx, n, logger(log, n), shown)
		elsewhere = elsewhere && (err == nil || report != nil && report.Skipped != "")
		if report != nil {
			reports = append(reports, *report)
		}
		return failed(err)
	})
	if wrong != nil && elsewhere {
		wrong = &app.Exit{Status: statusElsewhere, Err: wrong}
	}
	var printed any = reports
	if len(cfg.Roots) == 0 {
		if len(reports) == 0 {
			return wrong
		}
		printed = reports[0]
	}
	return errors.Join(wrong, jsonout.Document(out, printed))
}

// statusElsewhere is the exit status if nothing was wrong but that another reaper is the active one.
const statusElsewhere = 3

// sweepRoot makes one pass over a root. The report is nil if the pass did not begin.
func (p *program) sweepRoot(ctx context.Context, n config.Named, log zerolog.Logger, shown *bar) (_ *reaper.Report, err error) {
	locks, err := app.DialChecked(ctx, n.Config, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, locks.Close()) }()
	r, err := reaper.New(locks, p.options(n, &log))
	if err != nil {
		return nil, err
	}
	if shown != nil {
		defer shown.follow(r.Monitor())()
	}
	report, err := r.Sweep(ctx)
	return &report, err
}

// terminal is a writer with a file descriptor, for [app.IsTerminal].
type terminal interface {
	io.Writer
	Fd() uintptr
}

// bar shows the progress of a sweep on a terminal. It is also the writer of the log, whose lines
// appear above the progress.
type bar struct {
	terminal
	mu  sync.Mutex
	bar *progressbar.ProgressBar
}

func newBar(to terminal) *bar {
	return &bar{terminal: to, bar: progressbar.NewOptions(1, progressbar.OptionSetWriter(to), progressbar.OptionSetDescription("sweeping"),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("nodes"), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetWidth(30), progressbar.OptionSetPredictTime(true))}
}

func (b *bar) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.bar.Clear(); err != nil {
		return 0, err
	}
	return b.terminal.Write(line)
}

// barInterval is the interval of redraws.
const barInterval = 200 * time.Millisecond

// follow shows the progress of the sweep until stop is called.
func (b *bar) follow(m *reaper.Monitor) (stop func()) {
	done := make(chan struct{})
	var drawing sync.WaitGroup
	drawing.Go(func() {
		again := time.NewTicker(barInterval)
		defer again.Stop()
		for {
			for _, p := range m.Progress() {
				b.draw(p)
			}
			select {
			case <-again.C:
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		drawing.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		_ = b.bar.Clear()
		b.bar.Reset()
	}
}

func (b *bar) draw(p reaper.Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bar.ChangeMax(max(1, p.Found, p.Done+1)) // reaching the maximum would finish the bar
	_ = b.bar.Set(p.Done)                      // if it fails, only the bar is missing
}
