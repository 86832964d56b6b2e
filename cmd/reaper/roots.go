package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/reaper"
)

// unlockTimeout is the time for which a stopping daemon tries to release its lock. Before it, the
// daemon finishes its current batch, and after it, the daemon closes the connection. All three must
// take less than 30 s, when many supervisors kill the process.
const unlockTimeout = 5 * time.Second

// root is a root that a daemon sweeps.
type root struct {
	config.Named                // configuration at its start
	inForce      *config.Config // configuration of the last reload
	daemon       *reaper.Daemon
	log          zerolog.Logger
	stop         context.CancelFunc
	done         chan struct{} // closed when its sweeps have ended
	err          error         // result of its sweeps; read err only after done is closed
}

// livePolicies are the policies in force. The client uses them for the reaper's own lock.
type livePolicies struct{ *reaper.Monitor }

// Policy implements [lock.Policies].
func (l livePolicies) Policy(name string) lock.Policy { return l.Policies().Policy(name) }

func (d *daemon) newRoot(n config.Named) (*root, error) {
	r := &root{Named: n, inForce: n.Config, log: logger(d.log, n)}
	o := d.options(n, &r.log)
	var err error
	r.daemon, err = reaper.NewDaemon(func(ctx context.Context) (*lock.Client, error) {
		return app.DialChecked(ctx, n.Config, r.log, lock.WithPolicies(livePolicies{o.Monitor}), lock.WithUnlockTimeout(unlockTimeout))
	}, o)
	return r, err
}

// begin starts the sweeps of the root, until ctx ends or the root is removed. If the sweeps end
// earlier, it sends the root to d.ended.
func (d *daemon) begin(ctx context.Context, r *root) {
	ctx, r.stop = context.WithCancel(ctx)
	r.done = make(chan struct{})
	go func() {
		r.err = d.keepSwept(ctx, r)
		close(r.done)
		select {
		case d.ended <- r:
		case <-ctx.Done():
		}
	}()
}

// The pause before the next attempt to sweep a failed root doubles from firstRetryPause up to maxRetryPause.
const (
	firstRetryPause = 5 * time.Second
	maxRetryPause   = 5 * time.Minute
)

// keepSwept sweeps the root until ctx ends. After a permanent error it returns if there is no other
// root. Otherwise it logs the error and tries again after a pause.
func (d *daemon) keepSwept(ctx context.Context, r *root) error {
	for tries, pause := 1, firstRetryPause; ; tries, pause = tries+1, min(2*pause, maxRetryPause) {
		err := r.daemon.Run(ctx)
		if ctx.Err() != nil || !d.several.Load() {
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

// setRoots sets the roots to sweep. It stops removed roots before it starts new ones, because a new
// root may have the node of a removed one. It returns the changes, and the changed keys that need a
// restart. It does not fail if app.CheckReapers has accepted the configuration.
func (d *daemon) setRoots(ctx context.Context, each []config.Named) (changed, later []string, err error) {
	var roots, begun []*root
	for _, n := range each {
		r := d.same(n)
		if r == nil {
			if r, err = d.newRoot(n); err != nil {
				return nil, nil, err
			}
			begun = append(begun, r)
			changed = append(changed, "root "+cmp.Or(n.Name, n.Root)+": added")
		} else {
			different, fixed, err := r.reload(n)
			if err != nil {
				return nil, nil, err
			}
			changed, later = append(changed, different...), append(later, fixed...)
		}
		roots = append(roots, r)
	}
	for _, r := range d.roots {
		if !slices.Contains(roots, r) {
			r.giveUp()
			changed = append(changed, "root "+cmp.Or(r.Name, r.Root)+": removed")
		}
	}
	atStart := d.roots == nil
	d.roots = roots
	d.several.Store(len(roots) > 1)
	if err := d.page.show(roots); err != nil {
		return nil, nil, err
	}
	for _, r := range begun {
		if !atStart {
			r.log.Info().Str("root", r.Root).Msg("this root is new in the configuration: it is swept from now on")
		}
		d.begin(ctx, r)
	}
	return changed, later, nil
}

// same returns the running root for n, or nil: the root of the same name and, if it has a name,
// with the same locks.
func (d *daemon) same(n config.Named) *root {
	for _, r := range d.roots {
		if _, elsewhere := changedForGood(r.Config, n.Config); r.Name == n.Name && (n.Name == "" || !elsewhere) {
			return r
		}
	}
	return nil
}

// reload applies a new configuration to the root. It returns the changes, and the changed keys
// that need a restart.
func (r *root) reload(n config.Named) (changed, later []string, err error) {
	fixed, elsewhere := changedForGood(r.Config, n.Config)
	for _, key := range fixed {
		later = append(later, r.of(key))
	}
	if elsewhere { // the policies of n are for other locks, so the old ones stay
		r.daemon.Monitor().Refuse(nil)
		return nil, later, nil
	}
	if err := r.daemon.Reload(app.ReaperOptions(n.Config)); err != nil {
		return nil, nil, err
	}
	for _, difference := range differences(r.inForce, n.Config) {
		changed = append(changed, r.of(difference))
	}
	r.inForce = n.Config
	return changed, later, nil
}

// of puts the root's name, if it has one, before a text for the log.
func (r *root) of(what string) string {
	if r.Name == "" {
		return what
	}
	return "root " + r.Name + ": " + what
}

// giveUp ends the sweeps of the root, and waits for their end.
func (r *root) giveUp() {
	r.stop()
	<-r.done
	r.log.Info().AnErr("at_its_end", r.err).Str("root", r.Root).Msg("this root is not in the configuration any more: it is not swept from now on")
}
