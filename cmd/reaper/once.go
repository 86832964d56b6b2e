package main

import (
	"context"
	"errors"
	"io"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock/admin/jsonout"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/reaper"
)

// sweep makes one pass over each root and prints the report, or a list of reports if the
// configuration has named roots.
func (p *program) sweep(ctx context.Context, cfg *config.Config, out io.Writer) error {
	bar := app.NewBar(p.errs, "sweeping", "nodes")
	log := app.Logger(cfg.Log, bar)
	var reports []reaper.Report
	elsewhere := true // all errors say that another reaper is the active one
	wrong := app.ForEachRoot(cfg, func(n config.Named) error {
		report, err := p.sweepRoot(ctx, n, logger(log, n), bar)
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
func (p *program) sweepRoot(ctx context.Context, n config.Named, log zerolog.Logger, bar *app.Bar) (_ *reaper.Report, err error) {
	locks, err := app.DialChecked(ctx, n.Config, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, locks.Close()) }()
	r, err := reaper.New(locks, p.options(n, &log))
	if err != nil {
		return nil, err
	}
	defer bar.Follow(func() (done, found int64) {
		for _, pass := range r.Monitor().Progress() {
			done, found = int64(pass.Done), int64(pass.Found)
		}
		return done, found
	})()
	report, err := r.Sweep(ctx)
	return &report, err
}
