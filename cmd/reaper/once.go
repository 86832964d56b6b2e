package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/schollz/progressbar/v3"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/reaper"
)

// sweep makes one pass over each root and prints the report, or a list of reports if the
// configuration has named roots.
func (p *program) sweep(ctx context.Context, cfg *policy.Config, dryRun bool, out io.Writer) error {
	errs, bar := p.errs, (*bar)(nil)
	if app.IsTerminal(p.errs) {
		bar = newBar(p.errs)
		errs = bar
	}
	log := app.Logger(cfg.Log, errs)
	if cfg.Log.Format == "console" {
		log = app.Logger(cfg.Log, p.errs) // not errs: Logger does not take a bar for a terminal
		if bar != nil {
			log = log.Output(zerolog.ConsoleWriter{Out: bar, TimeFormat: time.TimeOnly})
		}
	}
	reports := []reaper.Report{} // not nil, which would be null in JSON
	var wrong []error
	for _, n := range cfg.Each() {
		report, err := p.sweepRoot(ctx, n, logger(log, n), dryRun, bar)
		if err != nil && n.Name != "" {
			err = fmt.Errorf("root %q: %w", n.Name, err)
		}
		wrong = append(wrong, err)
		if report != nil {
			reports = append(reports, *report)
		}
	}
	var printed any = reports
	if len(cfg.Roots) == 0 {
		if len(reports) == 0 {
			return errors.Join(wrong...)
		}
		printed = reports[0]
	}
	text, err := json.MarshalIndent(printed, "", "  ")
	if err == nil {
		_, err = fmt.Fprintln(out, string(text))
	}
	return errors.Join(append(wrong, err)...)
}

// sweepRoot makes one pass over a root. The report is nil if the pass did not begin.
func (p *program) sweepRoot(ctx context.Context, n policy.Named, log zerolog.Logger, dryRun bool, bar *bar) (_ *reaper.Report, err error) {
	locks, err := app.DialChecked(ctx, n.Config, log)
	if err != nil {
		return nil, failed(err)
	}
	defer func() { err = failed(errors.Join(err, locks.Close())) }()
	o := p.options(n)
	o.DryRun, o.Log, o.Monitor = dryRun, &log, reaper.NewMonitor(p.about(n))
	r, err := reaper.New(locks, o)
	if err != nil {
		return nil, err
	}
	if bar != nil {
		defer bar.follow(r.Monitor())()
	}
	report, err := r.Sweep(ctx)
	return &report, err
}

// bar shows the progress of a sweep on a terminal, below the log lines that are written to it.
type bar struct {
	mu  sync.Mutex
	out io.Writer
	bar *progressbar.ProgressBar // nil: not shown
}

func newBar(out io.Writer) *bar { return &bar{out: out} }

func (b *bar) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bar != nil {
		if err := b.bar.Clear(); err != nil {
			return 0, err
		}
	}
	return b.out.Write(line)
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
		b.end()
	}
}

// draw shows a sweep's progress.
func (b *bar) draw(p reaper.Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bar == nil {
		b.bar = progressbar.NewOptions(max(1, p.Found), progressbar.OptionSetWriter(b.out), progressbar.OptionSetDescription("sweeping"),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("nodes"), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetWidth(30), progressbar.OptionSetPredictTime(true))
	}
	b.bar.ChangeMax(max(1, p.Found, p.Done+1)) // reaching the maximum would finish the bar
	_ = b.bar.Set(p.Done)                      // if it fails, only the bar is missing
}

func (b *bar) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bar != nil {
		_ = b.bar.Clear()
		b.bar = nil
	}
}
