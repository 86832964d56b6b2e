package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock/config"
)

// daemon sweeps all roots by schedule. It belongs to one goroutine, which starts and stops the
// roots' goroutines.
type daemon struct {
	*program
	log     zerolog.Logger
	began   *config.Config // configuration at the start, for keys that need a restart
	roots   []*root        // running roots, in the order of the configuration
	several atomic.Bool    // there are several roots
	page    *page          // status page; nil if there is none
	ended   chan *root     // roots whose sweeps have ended
}

// listen registers for SIGHUP and changes of the configuration file, before the file is read. On a
// terminal it does not register for SIGHUP, which there means that the terminal was closed.
func (p *program) listen() {
	if !app.IsTerminal(p.errs) {
		p.hangups = app.Hangups()
	}
	if file := p.File(); file != "" {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			p.changes = newChanges(file)
		}
	}
}

// serve sweeps all roots by schedule until ctx ends. It waits for ZooKeeper, both at the start
// and after an outage.
func (p *program) serve(ctx context.Context, cfg *config.Config) error {
	d := &daemon{program: p, log: app.Logger(cfg.Log, p.errs), began: cfg, ended: make(chan *root)}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var err error
	if d.page, err = listen(ctx, cfg.Status, d.log); err != nil {
		return err
	}
	if _, _, err := d.setRoots(ctx, cfg.Each()); err != nil {
		return err
	}
	var aside sync.WaitGroup
	if d.page != nil {
		aside.Go(func() { d.page.serve(ctx, d.log) })
	}
	var changed <-chan struct{}
	if p.changes != nil {
		aside.Go(func() { p.changes.follow(ctx) })
		changed = p.changes.C
	}
	d.follow(ctx, changed)
	stop()
	var wrong []error
	for _, r := range d.roots {
		<-r.done
		wrong = append(wrong, r.err)
	}
	aside.Wait()
	d.log.Info().Msg("stopped")
	return errors.Join(wrong...)
}

// follow reloads the configuration on SIGHUP, or when the file has changed. It ends when ctx ends, or
// when the only root has failed permanently.
func (d *daemon) follow(ctx context.Context, changed <-chan struct{}) {
	for {
		why := "the file has changed"
		select {
		case <-changed:
		case <-d.hangups:
			why = "SIGHUP"
		case r := <-d.ended:
			if slices.Contains(d.roots, r) {
				return
			}
			continue // the root was removed from the configuration
		case <-ctx.Done():
			return
		}
		switch file := d.File(); {
		case file == "":
			d.log.Warn().Msg("SIGHUP, and there is no configuration file to read again: --config names one")
		case d.changes == nil:
			d.log.Warn().Str("configuration", file).Msg("SIGHUP, and the configuration was no regular file: it cannot be read again")
		default:
			err := d.changes.look()
			if err != nil {
				why = "the file cannot be read"
			} else {
				err = d.reload(ctx, why)
			}
			if err != nil && ctx.Err() == nil {
				for _, r := range d.roots {
					r.daemon.Monitor().Refuse(err)
				}
				d.log.Error().Err(err).Str("why", why).Msg("the new configuration is refused; the one before stays in force")
			}
		}
	}
}

// reload reads the configuration, applies the parts that can change while the daemon runs, and logs
// the changes. A configuration with a mistake changes nothing.
func (d *daemon) reload(ctx context.Context, why string) error {
	next, err := d.load(ctx)
	if err != nil {
		return err
	}
	changed, later, err := d.setRoots(ctx, next.Each())
	if err != nil {
		return err
	}
	tellReloaded(d.log.With().Str("why", why).Str("configuration", d.File()).Logger(), changed, append(changedTogether(d.began, next), later...))
	return nil
}

// tellReloaded logs the changes by a reload, and the changed keys that need a restart.
func tellReloaded(log zerolog.Logger, changed, later []string) {
	event, message := log.Info(), "configuration reloaded: it is in force"
	switch {
	case len(later) > 0:
		event, message = log.Warn().Strs("takes_a_restart", later), "configuration reloaded in part: the rest takes a restart"
	case len(changed) == 0:
		message = "configuration read again: nothing is different"
	}
	if more := len(changed) - maxDifferences; more > 0 {
		changed = changed[:maxDifferences]
		event.Int("more_changed", more)
	}
	event.Strs("changed", changed).Msg(message)
}
