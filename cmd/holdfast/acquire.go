package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/list"
	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/supervise"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/cmd/internal/text"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// effectiveTTL returns asked, or the TTL of the lock's policy if asked is 0. It fails if the TTL or
// the name is not allowed.
func effectiveTTL(cfg *config.Config, name string, asked time.Duration) (time.Duration, error) {
	if err := znode.CheckName(name); err != nil {
		return 0, app.Usage("%w", err)
	}
	p := cfg.Policies.For(name)
	if asked != 0 {
		p.TTL = asked
	}
	if p.TTL < supervise.MinTTL {
		return 0, app.Usage("ttl %v of lock %q: must be at least %v, to end a command in time; --ttl gives another than policy %q",
			p.TTL, name, supervise.MinTTL, p.Name)
	}
	if err := p.Validate(); err != nil {
		return 0, app.Usage("lock %q, policy %q: %w", name, p.Name, err)
	}
	return p.TTL, nil
}

// take connects, and acquires the lock, or attaches to the ticket's hold if there is a ticket.
// Connecting and acquiring together take at most --wait; with --wait 0, at most two session timeouts.
// Without --quiet, take tells the user after patience which client has the lock.
func (f *runFlags) take(ctx context.Context, cfg *config.Config, name string, ttl time.Duration, command string, ticket lock.Ticket) (*lock.Client, *lock.Hold, error) {
	limit := f.wait
	if limit == 0 { // wait for ZooKeeper, but not for the lock
		limit = 2 * cfg.ZooKeeper.SessionTimeout
	}
	limited := ctx
	if limit > 0 {
		var cancel func()
		limited, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	locks, err := dial(limited, cfg, ttl, command)
	if err != nil {
		return nil, nil, notAcquired(ctx, err)
	}
	asking, acquired := context.WithCancel(limited)
	defer acquired()
	if !f.quiet {
		waiting := time.AfterFunc(patience, func() { tellWhoHas(asking, locks, name) })
		defer waiting.Stop()
	}
	mutex := locks.Mutex(name, lock.WithTTL(ttl))
	how := mutex.Lock
	switch {
	case !ticket.IsZero():
		how = func(ctx context.Context) (*lock.Hold, error) { return locks.Attach(ctx, ticket, lock.WithTTL(ttl)) }
	case f.wait == 0:
		how = mutex.TryLock
	}
	hold, err := how(limited)
	if err != nil {
		return nil, nil, errors.Join(notAcquired(ctx, unanswered(err, cfg, locks)), locks.Close())
	}
	if !ticket.IsZero() {
		f.attached()
	}
	return locks, hold, nil
}

// dial connects with the command's name as the owner. The client has only this lock, so its session
// timeout may be short: with at most the TTL it notices a dead connection in time.
func dial(ctx context.Context, cfg *config.Config, ttl time.Duration, command string) (*lock.Client, error) {
	opts := append(owner(command), lock.WithSessionTimeout(min(ttl, cfg.ZooKeeper.SessionTimeout)))
	return app.Dial(ctx, cfg, app.Logger(cfg.Log, &stderr), opts...)
}

// tellWhoHas tells the user which client has the lock, or, if that is unknown, which command shows it.
// It prints nothing if ctx ends first.
func tellWhoHas(ctx context.Context, locks *lock.Client, name string) {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	state, err := admin.New(locks).Inspect(limited, name)
	switch {
	case ctx.Err() != nil:
	case err != nil || len(state.Contenders) == 0:
		tell("waiting for lock %q; holdfast show %s tells which client has it", name, text.Name(name))
	default:
		tell("waiting for lock %q, which %s has, with %d in the queue; holdfast show %s tells more",
			name, list.InTheWay(state), len(state.Contenders)-len(list.Holders(state)), text.Name(name))
	}
}

// owner returns the option that makes the command's name the owner in the lock's entry; none if that
// name is not allowed.
func owner(command string) []lock.Option {
	name := filepath.Base(command)
	if znode.CheckOwner(name) != nil {
		return nil // keeps the library's default owner
	}
	return []lock.Option{lock.WithOwner(name)}
}

// unanswered adds to an error what was waited for, and the last failure to connect, if the time was over
// and no other client held the lock: a server was silent, or there was no session.
func unanswered(err error, cfg *config.Config, locks *lock.Client) error {
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lock.ErrHeld) {
		return err
	}
	err = fmt.Errorf("%w: ZooKeeper did not answer in time, tried %s", err, strings.Join(cfg.ZooKeeper.Servers, ", "))
	if why := admin.New(locks).Session().LastFailure; why != nil && !strings.Contains(err.Error(), why.Error()) {
		err = fmt.Errorf("%w; last failure: %w", err, why)
	}
	return fmt.Errorf("%w; holdfast doctor tells more", err)
}

// notAcquired adds the status statusNotAcquired if err says that the lock was not acquired in time.
// It returns other errors, and any error after a signal, unchanged.
func notAcquired(ctx context.Context, err error) error {
	inTime := ctx.Err() == nil // false if a signal interrupted this process
	var held *lock.HeldError
	if inTime && errors.As(err, &held) { // the rest of err only says that the time is over
		err = fmt.Errorf("%w: not acquired within --wait; holdfast show %s tells more", held, text.Name(held.Lock))
	}
	if inTime && (errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)) {
		return &app.Exit{Status: statusNotAcquired, Err: err}
	}
	return err
}

// held replaces the exit status by --held-status if another client holds the lock. With --quiet it
// also drops the message.
func (f *runFlags) held(err error) error {
	var exit *app.Exit
	if !errors.As(err, &exit) || !errors.Is(err, lock.ErrHeld) {
		return err
	}
	if f.quiet {
		return &app.Exit{Status: f.heldStatus}
	}
	return &app.Exit{Status: f.heldStatus, Err: err}
}

// environment returns the command's environment: this process's variables, plus the lock's name and
// token. It leaves out the secret variables, and the lock and token of an outer run.
func environment(ours []string, name string, token lock.Token, secret []string) []string {
	env := slices.DeleteFunc(slices.Clone(ours), func(kv string) bool {
		variable, _, _ := strings.Cut(kv, "=")
		return variable == envLock || variable == envToken || slices.Contains(secret, variable)
	})
	return append(env, envLock+"="+name, envToken+"="+token.String())
}
