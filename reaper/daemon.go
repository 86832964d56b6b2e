package reaper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/rs/zerolog"
)

// Dial makes a client for a reaper. An error that is [lock.ErrUnavailable] has it tried
// again.
type Dial func(context.Context) (*lock.Client, error)

// Daemon is the reaper of one root as a service has it, from before there is a session:
// it makes its client, and closes it. All methods are safe for concurrent use.
type Daemon struct {
	dial    Dial
	log     zerolog.Logger
	monitor *Monitor

	mu      sync.Mutex
	options Options
	reaper  *Reaper // nil: there was no session yet
}

// NewDaemon returns a daemon, which begins with [Daemon.Run]. The error is
// [Options.Validate]'s.
func NewDaemon(dial Dial, o Options) (*Daemon, error) {
	if dial == nil {
		return nil, fmt.Errorf("%w: reaper: dial must not be nil", lock.ErrInvalid)
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Monitor == nil {
		o.Monitor = NewMonitor(About{})
	}
	o.Monitor.inForce(o.Policies)
	d := &Daemon{dial: dial, log: zerolog.Nop(), monitor: o.Monitor, options: o}
	if o.Log != nil {
		d.log = *o.Log
	}
	return d, nil
}

// Monitor tells what the reaper does.
func (d *Daemon) Monitor() *Monitor { return d.monitor }

// Reload is [Reaper.Reload], also while there is no session yet.
func (d *Daemon) Reload(o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	o.Lock, o.DryRun, o.Format1, o.Monitor, o.Log = d.options.Lock, d.options.DryRun, d.options.Format1, d.options.Monitor, d.options.Log
	if d.reaper == nil {
		d.monitor.reloaded(o.Policies)
	} else if err := d.reaper.Reload(o); err != nil {
		return err
	}
	d.options = o
	return nil
}

// Run waits for a session and is [Reaper.Run] from then on, until ctx ends. An outage of
// ZooKeeper is no error, at the end neither.
func (d *Daemon) Run(ctx context.Context) error {
	if ctx == nil {
		return errNoContext
	}
	locks, err := d.connect(ctx)
	if locks == nil {
		return err
	}
	r, err := d.make(locks)
	if err == nil {
		err = r.Run(ctx)
	}
	connected := d.monitor.Status().Session.Connected
	closing := locks.Close()
	if closing != nil && ctx.Err() != nil && !connected {
		d.log.Warn().Err(closing).Msg("stopped without a session: what it has left in ZooKeeper expires")
		closing = nil
	}
	return errors.Join(err, closing)
}

// make makes the reaper, by the options of this moment.
func (d *Daemon) make(locks *lock.Client) (*Reaper, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r, err := New(locks, d.options)
	d.reaper = r
	return r, err
}

// dialInterval is how long to wait before a client is tried to be made again.
const dialInterval = lock.DefaultSessionTimeout / 2

// connect waits until there is a client. It returns none, and no error, when ctx ends.
func (d *Daemon) connect(ctx context.Context) (*lock.Client, error) {
	var told time.Time
	for {
		locks, err := d.dial(ctx)
		switch {
		case err == nil:
			return locks, nil
		case ctx.Err() != nil:
			return nil, nil
		case !errors.Is(err, lock.ErrUnavailable):
			return nil, err
		}
		d.mu.Lock()
		o := d.options.withDefaults()
		d.mu.Unlock()
		d.monitor.announce(d.log, o, Disconnected)
		if tries := d.monitor.fails(err); again(tries) || time.Since(told) > mostReminder {
			told = time.Now()
			d.log.Error().Err(err).Int("tries", tries).Msg("no ZooKeeper yet; trying again")
		}
		select {
		case <-time.After(dialInterval):
		case <-ctx.Done():
			return nil, nil
		}
	}
}
