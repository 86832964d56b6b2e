package zkconn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// outage records the times without a session. An owned connection has events for them. A borrowed
// connection is polled. A request on a borrowed connection that fails because the connection ended
// counts as a time without a session; an abandoned call does not.
type outage struct {
	began    atomic.Bool  // there was a session; the time before the first session is no outage
	down     atomic.Bool  // there is no session now, as far as is known
	lastDown atomic.Int64 // last monotonic time without a session, or with a silent server; -1: none
	lastLost atomic.Int64 // last monotonic time without a session; -1: none
	lostAt   atomic.Int64 // monotonic time at which an owned connection lost its session

	polling sync.Mutex // of a borrowed connection: a poll records what it has read before another one reads
	lastID  int64      // last known session id of a borrowed connection; needs polling
}

// LastOutage returns the last monotonic time at which there was no session, or at which the server
// was silent for too long (NoteOutage); -1 if there was no such time since the first session.
func (c *Conn) LastOutage() time.Duration {
	c.notice()
	return time.Duration(c.lastDown.Load())
}

// LastLost returns the last monotonic time at which there was no session; -1 if there was none since
// the first session. Unlike LastOutage it does not count times at which the server was only silent.
// So a request that was sent after LastLost was answered in the present session.
func (c *Conn) LastLost() time.Duration {
	c.notice()
	return time.Duration(c.lastLost.Load())
}

// LastFailure returns why the last attempts to connect have failed: the last failure at each address,
// of at most mostFailures, see [failedTries.err]. It is nil if there is a session, if no attempt has failed
// since there was one, and for a borrowed connection.
func (c *Conn) LastFailure() error {
	if !c.Owned() || c.hasSession() {
		return nil
	}
	return c.own.failures.err()
}

// noteFailure records why the server at the address could not be reached, unless the connection is
// being closed. reached is that of failedTry.
func (c *Conn) noteFailure(address string, err error, reached bool) {
	if c.own.life.Err() == nil {
		c.own.failures.note(failedTry{address, err, reached})
		c.cfg.Log.Debug().Err(err).Msg("cannot connect to a server")
	}
}

// noteRound forgets the failures at addresses that are tried no longer, and records the names that
// cannot be resolved.
func (c *Conn) noteRound(addresses []string, unknown map[string]error) {
	c.own.failures.keep(addresses)
	for _, server := range addresses {
		if err := unknown[server]; err != nil {
			c.noteFailure(server, err, false)
		}
	}
}

// NoSession returns ErrUnavailable, with the last failure to connect if that is known.
func (c *Conn) NoSession() error {
	if why := c.LastFailure(); why != nil {
		return noSession{why}
	}
	return ErrUnavailable
}

// noSession is ErrUnavailable with the last failure to connect. That may be the error of a caller's
// dialer, so only [Reveal] makes the error match it.
type noSession struct{ why error }

func (e noSession) Error() string        { return fmt.Sprintf("%v (last failure: %v)", ErrUnavailable, e.why) }
func (e noSession) LastFailure() error   { return e.why }
func (e noSession) Is(target error) bool { return target == ErrUnavailable }

// lastFailure is the last failure to connect, revealed. It does not match the errors of contexts: a dial
// that timed out says nothing about the caller's context.
type lastFailure struct{ error }

func (f lastFailure) As(target any) bool { return errors.As(f.error, target) }
func (f lastFailure) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(f.error, target)
}

// Away returns the error of NoSession if there has been no session for at least a third of the
// session timeout; otherwise nil. It is nil for a borrowed connection.
func (c *Conn) Away() error {
	if !c.Owned() || c.hasSession() || !c.down.Load() || c.cfg.Now()-time.Duration(c.lostAt.Load()) < c.SessionTimeout()/3 {
		return nil
	}
	return c.NoSession()
}

// notice records an outage that no event has reported yet.
func (c *Conn) notice() {
	if !c.Owned() {
		c.poll()
	} else if !c.hasSession() {
		c.noteDown()
	}
}

// NoteOutage records an outage until now, for example because a request is unanswered for too long.
// LastLost does not count it.
func (c *Conn) NoteOutage() { c.lastDown.Store(int64(c.cfg.Now())) }

// noteLost records that there was no session until now.
func (c *Conn) noteLost() {
	c.NoteOutage()
	c.lastLost.Store(c.lastDown.Load())
}

// noteDown records that there is no session, and fires the watches of a borrowed connection. Before
// the first session it does nothing.
func (c *Conn) noteDown() {
	if c.began.Load() {
		c.noteLost()
		if !c.down.Swap(true) {
			c.lostAt.Store(c.lastDown.Load())
		}
		c.loseWatches()
	}
}

// noteUp records that there is a session. After an outage it fires the watches of a borrowed
// connection, and calls Config.Reconnected.
func (c *Conn) noteUp() {
	if !c.down.Swap(false) {
		return
	}
	c.loseWatches()
	if c.cfg.Reconnected != nil && c.open.Err() == nil {
		go c.cfg.Reconnected()
	}
}

// sessionEvent is go-zookeeper's callback. It runs under locks of go-zookeeper, so it must not
// call the zk.Conn.
func (c *Conn) sessionEvent(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	if e.State == zk.StateHasSession {
		c.own.failures.forget()
		if c.down.Load() {
			c.noteLost()
		}
		c.noteUp()
	} else {
		c.noteDown()
	}
	c.mu.Lock()
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
	if e.State == zk.StateDisconnected {
		c.own.leaveTime()
	}
}

// pollEvery is the interval of checks whether a borrowed connection has a session.
const pollEvery = time.Second

// poll checks whether a borrowed connection has a session, and whether it is the same one as at the
// last poll. It is called each second, and before the state is used. On an owned connection, which
// has events, it does nothing.
func (c *Conn) poll() {
	if c.Owned() {
		return
	}
	c.polling.Lock()
	defer c.polling.Unlock()
	up, id := c.hasSession(), c.zk.SessionID()
	if !up || c.lastID != 0 && id != c.lastID {
		c.noteDown()
	}
	c.lastID = id
	if up {
		c.began.Store(true)
		c.noteUp()
	}
}

// pollBackoff is the backoff of checks of a borrowed connection without a session.
var pollBackoff = Backoff{5 * time.Millisecond, 250 * time.Millisecond}

// pollSession waits for a session of a borrowed connection, which has no events. It detects a
// close by the owner only indirectly: the connection refuses requests while it stays
// disconnected.
func (c *Conn) pollSession(ctx context.Context) error {
	disconnected := 0
	err := c.Retry(ctx, pollBackoff, func() error {
		if c.open.Err() != nil {
			return NotSent(context.Cause(c.open))
		}
		c.poll()
		switch c.zk.State() {
		case zk.StateHasSession:
			return nil
		case zk.StateDisconnected:
			disconnected++
		default:
			disconnected = 0
		}
		if disconnected > 3 {
			c.probe()
		}
		return NotSent(ErrUnavailable)
	})
	if err != nil && c.open.Err() != nil {
		return NotSent(context.Cause(c.open))
	}
	return err
}

// probe sends two reads, one after the other, on a borrowed connection that is disconnected. If both
// are refused at once, the owner has closed the connection. One refusal alone may be that of a new
// connection that broke under the read. Close does not wait for the answers, since a read does no
// harm.
func (c *Conn) probe() {
	if c.probing.Swap(true) {
		return
	}
	go func() {
		defer c.probing.Store(false)
		began := c.cfg.Now()
		for range 2 {
			_, _, err := c.zk.Exists("/")
			if !errors.Is(err, zk.ErrConnectionClosed) || c.zk.State() != zk.StateDisconnected {
				return
			}
		}
		if c.cfg.Now()-began < pollBackoff.First {
			c.shut(fmt.Errorf("%w: the zk.Conn it was given is closed", ErrClosed))
		}
	}()
}
