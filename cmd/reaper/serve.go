package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/reaper"
)

// unlockTimeout is for how long a daemon that stops tries to give back its lock: with
// the batch at hand before it and the connection's end after it, this is less than the
// half minute after which many a supervisor kills.
const unlockTimeout = 5 * time.Second

// root is one of the roots that a daemon sweeps.
type root struct {
	policy.Named // as it is in force
	daemon       *reaper.Daemon
	policies     *livePolicies
	log          zerolog.Logger
}

// livePolicies are those in force, for the client: its own lock has one, too.
type livePolicies struct{ atomic.Pointer[policy.Set] }

// Policy is that of the set in force.
func (l *livePolicies) Policy(name string) lock.Policy { return l.Load().Policy(name) }

// listen has SIGHUP, and a change of the configuration file, noticed from now on: from
// before the file is read. On a terminal, SIGHUP says that the terminal has gone.
func (p *program) listen(ctx context.Context) {
	if !app.IsTerminal(p.errs) {
		p.hangups = app.Hangups(ctx)
	}
	if file := p.flags.File(); file != "" {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			p.changes = newChanges(file)
		}
	}
}

// serve sweeps all roots by schedule until ctx ends. It waits for ZooKeeper, at the
// start as after an outage.
func (p *program) serve(ctx context.Context, cfg *policy.Config) error {
	log := app.Logger(cfg.Log, p.errs)
	var roots []*root
	for _, n := range cfg.Each() {
		r, err := p.newRoot(n, logger(log, n))
		if err != nil {
			return err
		}
		roots = append(roots, r)
	}
	cfg.Status.Listen = cmp.Or(p.address, cfg.Status.Listen)
	page, err := listen(ctx, cfg.Status, roots, log)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var aside sync.WaitGroup
	aside.Go(func() { page(ctx) })
	aside.Go(func() { p.reloads(ctx, cfg, roots, log) })
	wrong := make([]error, len(roots))
	var running sync.WaitGroup
	for i, r := range roots {
		running.Go(func() { wrong[i] = r.run(ctx, len(roots) > 1) })
	}
	running.Wait()
	stop()
	aside.Wait()
	log.Info().Msg("stopped")
	return errors.Join(wrong...)
}

func (p *program) newRoot(n policy.Named, log zerolog.Logger) (*root, error) {
	r := &root{Named: n, policies: new(livePolicies), log: log}
	r.policies.Store(n.Policies)
	o := options(n.Config)
	o.Log, o.Monitor = &log, reaper.NewMonitor(p.about(n))
	var err error
	r.daemon, err = reaper.NewDaemon(func(ctx context.Context) (*lock.Client, error) {
		return app.DialChecked(ctx, n.Config, log, lock.WithPolicies(r.policies), lock.WithUnlockTimeout(unlockTimeout))
	}, o)
	return r, err
}

// Pauses after which a root that has failed is begun anew.
const (
	firstAnew = 5 * time.Second
	mostAnew  = 5 * time.Minute
)

// run sweeps the root until ctx ends. What goes wrong for good ends it, unless it is one
// of several: then it is told, and tried again.
func (r *root) run(ctx context.Context, oneOfMany bool) error {
	for tries, pause := 1, firstAnew; ; tries, pause = tries+1, min(2*pause, mostAnew) {
		err := r.daemon.Run(ctx)
		if !oneOfMany || ctx.Err() != nil {
			return err
		}
		r.log.Error().Err(err).Int("tries", tries).Stringer("again_in", pause).
			Msg("this root cannot be swept, and is tried again; the others are swept all the same")
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// reloads puts the configuration in force again whenever that is asked for, or the file
// has changed, until ctx ends.
func (p *program) reloads(ctx context.Context, cfg *policy.Config, roots []*root, log zerolog.Logger) {
	var changed <-chan struct{}
	if p.changes != nil {
		following, stop := context.WithCancel(ctx)
		var done sync.WaitGroup
		defer done.Wait()
		defer stop()
		done.Go(func() { p.changes.follow(following, log) })
		changed = p.changes.C
	}
	for {
		why := "the file has changed"
		select {
		case <-changed:
		case <-p.hangups:
			why = "SIGHUP"
		case <-ctx.Done():
			return
		}
		switch file := p.flags.File(); {
		case file == "":
			log.Warn().Msg("SIGHUP, and there is no configuration file to read again: --config names one")
		case p.changes == nil:
			log.Warn().Str("configuration", file).Msg("SIGHUP, and the configuration was no regular file: it cannot be read again")
		default:
			err := p.reload(ctx, cfg, roots, log, why)
			if err != nil && ctx.Err() == nil {
				log.Error().Err(err).Str("why", why).Msg("the new configuration is refused; the one before stays in force")
				for _, r := range roots {
					r.daemon.Monitor().Refuse(err)
				}
			}
		}
	}
}

// reload reads the configuration and puts it in force, as far as it can be changed while
// the daemon runs, that began with cfg. One that has a mistake changes nothing.
func (p *program) reload(ctx context.Context, cfg *policy.Config, roots []*root, log zerolog.Logger, why string) error {
	next, err := p.flags.LoadContext(ctx)
	if err == nil {
		err = validate(next)
	}
	if err != nil {
		return err
	}
	next.Status.Listen = cmp.Or(p.address, next.Status.Listen)
	later := changedTogether(cfg, next)
	each := next.Each()
	for _, r := range roots {
		i := slices.IndexFunc(each, func(n policy.Named) bool { return n.Name == r.Name })
		if i < 0 {
			later = append(later, fmt.Sprintf("roots: %s is no more", r.Name))
			continue
		}
		n := each[i]
		each = slices.Delete(each, i, i+1)
		fixed, elsewhere := changedForGood(r.Config, n.Config)
		for _, key := range fixed {
			if r.Name != "" {
				key = "root " + r.Name + ": " + key
			}
			later = append(later, key)
		}
		if elsewhere { // its policies are for another place
			continue
		}
		if err := r.daemon.Reload(options(n.Config)); err != nil {
			return err // validate has seen to it that there is none
		}
		r.policies.Store(n.Policies)
	}
	for _, n := range each {
		later = append(later, fmt.Sprintf("roots: %s is new", n.Name))
	}
	if len(later) > 0 {
		log.Warn().Strs("changed", later).Msg("this takes a restart, and is as before until then")
	}
	log.Info().Str("why", why).Str("configuration", p.flags.File()).Msg("configuration reloaded: it is in force")
	return nil
}
