package reaper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/rs/zerolog"
)

// Dial makes a client for a [Daemon], which closes it. If the error matches [lock.ErrUnavailable] or
// [lock.ErrSASL], or a server failed to do a request, for example because a quota is exceeded, the daemon
// calls Dial again later. Any other error ends [Daemon.Run].
type Dial func(context.Context) (*lock.Client, error)

// Daemon is the reaper of one root for a service. It makes its client, waits while ZooKeeper is
// unavailable, and closes the client. All methods are safe for concurrent use.
type Daemon struct {
	dial    Dial
	log     zerolog.Logger
	monitor *Monitor

	mu      sync.Mutex
	options Options
	reaper  *Reaper // nil before the first session
}

// NewDaemon returns a daemon; [Daemon.Run] starts it. If dial is nil or [Options.Validate] refuses o,
// the error matches [lock.ErrInvalid].
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
	o = o.withDefaults()
	o.Monitor.serves(nil, o.Policies)
	return &Daemon{dial: dial, log: *o.Log, monitor: o.Monitor, options: o}, nil
}

// Monitor returns the monitor of the reaper.
func (d *Daemon) Monitor() *Monitor { return d.monitor }

// Reload does what [Reaper.Reload] does, also before there is a session.
func (d *Daemon) Reload(o Options) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := d.options.reloaded(o)
	if d.reaper != nil {
		if err := d.reaper.Reload(o); err != nil {
			return err
		}
	} else if err := o.Validate(); err != nil {
		return err
	} else {
		d.monitor.reloaded(next.Policies)
	}
	d.options = next
	return nil
}

// Run waits for a session, and then does what [Reaper.Run] does, until ctx ends. If ctx ends during
// an outage of ZooKeeper, Run returns nil. After Run has returned, it can be called again.
func (d *Daemon) Run(ctx context.Context) error {
	if ctx == nil {
		return errNoContext
	}
	err := d.run(ctx)
	if err != nil && ctx.Err() == nil {
		d.monitor.ended(err)
	}
	return err
}

func (d *Daemon) run(ctx context.Context) error {
	locks, err := d.connect(ctx)
	if locks == nil {
		return err
	}
	d.mu.Lock()
	d.reaper, err = New(locks, d.options)
	r := d.reaper
	d.mu.Unlock()
	if err == nil {
		err = r.Run(ctx)
	}
	connected := d.monitor.Status().Session.Connected
	closing := locks.Close()
	if closing != nil && ctx.Err() != nil && !connected {
		d.log.Warn().Err(closing).Msg("stopped without a session: its nodes in ZooKeeper expire")
		closing = nil
	}
	return errors.Join(err, closing)
}

// dialInterval is the pause between attempts to make a client.
const dialInterval = lock.DefaultSessionTimeout / 2

// connect calls dial until dial returns a client or a permanent error. If ctx ends first, connect
// returns nil, nil.
func (d *Daemon) connect(ctx context.Context) (*lock.Client, error) {
	var told time.Time
	for {
		locks, err := d.dial(ctx)
		switch {
		case err == nil:
			return locks, nil
		case ctx.Err() != nil:
			return nil, nil
		case !errors.Is(err, lock.ErrUnavailable) && !errors.Is(err, lock.ErrSASL) && !admin.ServerFailed(err):
			return nil, err
		}
		d.mu.Lock()
		o := d.options
		d.mu.Unlock()
		d.monitor.announce(d.log, o, Disconnected, "")
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
