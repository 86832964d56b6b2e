package zkconn

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// outage is what is known of the times without a session. An owned connection is
// told by events; a borrowed one looks, and believes requests that the connection
// has failed. A caller that gave up is no sign of any.
type outage struct {
	began    atomic.Bool  // a caller may use the connection: what comes before the first session is no outage
	down     atomic.Bool  // and now there is none, as far as was noticed
	lastDown atomic.Int64 // monotonic time at which there was last no session; -1: never
	lastID   atomic.Int64 // session id that a borrowed connection was seen with
}

// LastOutage is the monotonic time at which there was last no session; -1 if
// there has been one ever since the first.
func (c *Conn) LastOutage() time.Duration {
	if c.poll(); !c.hasSession() {
		c.noteDown()
	}
	return time.Duration(c.lastDown.Load())
}

// NoteOutage says that there has been none until now as far as can be told: a request
// of a renewal's is unanswered for too long.
func (c *Conn) NoteOutage() { c.lastDown.Store(int64(c.cfg.Now())) }

// noteDown says that there is no session.
func (c *Conn) noteDown() {
	if c.began.Load() {
		c.NoteOutage()
		c.down.Store(true)
		c.loseWatches()
	}
}

// noteUp says that there is a session.
func (c *Conn) noteUp() {
	if !c.down.Swap(false) {
		return
	}
	c.loseWatches()
	if c.cfg.Reconnected != nil && c.open.Err() == nil {
		go c.cfg.Reconnected()
	}
}

// sessionEvent is go-zookeeper's callback. It runs under locks of go-zookeeper's,
// so it must not call the zk.Conn.
func (c *Conn) sessionEvent(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	if e.State == zk.StateHasSession {
		if c.down.Load() {
			c.NoteOutage() // until now
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

// pollEvery is how often it is looked whether a borrowed connection has a session.
const pollEvery = time.Second

// poll looks whether a borrowed connection has a session, and still the same one: before
// what was known of it is relied on. An owned connection tells by itself.
func (c *Conn) poll() {
	if c.Owned() {
		return
	}
	up, id := c.hasSession(), c.zk.SessionID()
	if last := c.lastID.Swap(id); !up || last != 0 && id != last {
		c.noteDown()
	}
	if up {
		c.began.Store(true)
		c.noteUp()
	}
}

// pollBackoff is how often a borrowed connection without a session is looked at.
var pollBackoff = Backoff{5 * time.Millisecond, 250 * time.Millisecond}

// pollSession waits for a session of a borrowed connection, which tells no events. Nor
// does it tell that its owner has closed it, but by refusing requests while it stays
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

// probe asks a disconnected connection that is borrowed for something, to see whether it
// refuses at once, as it does after its owner has closed it, and not otherwise. Close does not
// wait for the answer: it is a read, and does no harm whenever it comes.
func (c *Conn) probe() {
	if c.probing.Swap(true) {
		return
	}
	go func() {
		_, _, err := c.zk.Exists("/")
		c.probing.Store(false)
		if errors.Is(err, zk.ErrConnectionClosed) && c.zk.State() == zk.StateDisconnected {
			c.shut(fmt.Errorf("%w: the zk.Conn it was given is closed", ErrClosed))
		}
	}()
}
