package zkconn

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"
)

// TLS returns the configuration for one connection; an empty ServerName stands for the host given to
// Dial. If it returns a configuration and an error, the connection uses the configuration, and the
// error is told if the handshake fails.
type TLS func() (*tls.Config, error)

// Config has the settings of a Conn.
type Config struct {
	Log            zerolog.Logger
	SessionTimeout time.Duration        // 0: unknown, with a borrowed connection
	Dialer         zk.Dialer            // nil: a net.Dialer
	TLS            TLS                  // nil: plain text
	SASL           SASL                 // nil: no SASL
	Digests        []string             // credentials of the scheme digest, each "user:password"
	Follow         bool                 // Dial follows the ensemble's dynamic configuration
	Now            func() time.Duration // this process's monotonic clock
	Random         *rand.Rand           // safe for concurrent use
	InFlight       int                  // shared transactions in flight at once; 0: mostInFlight

	// Reconnected, unless nil, is called in a new goroutine when there is a session again after an
	// outage.
	Reconnected func()

	// Forgotten, unless nil, is called before a new session begins because no server accepts the
	// previous one. The servers may have lost their data, or belong to another ensemble, so known
	// zxids and stamps are void.
	Forgotten func()

	lookup  lookup   // nil: the system's resolver
	servers []string // the servers given to Dial
}

// Conn is a connection to ZooKeeper. All methods are safe for concurrent use.
type Conn struct {
	zk  *zk.Conn
	cfg Config

	open  context.Context         // ends when no more requests can be made; its cause is the reason
	shut  context.CancelCauseFunc // ends open
	calls Tasks                   // calls in flight, abandoned ones included

	own     *ownership   // state of an owned connection; nil: borrowed
	granted atomic.Int64 // session timeout in ns, as the server granted it; 0: borrowed
	outage
	probing atomic.Bool // a probe of a borrowed connection has no answer yet

	transacts atomic.Bool // a server has given a complete reply to a transaction
	commit    committer

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each event of an owned session
	watches map[watchKey]watch
	sweepAt int           // length of watches at which fired watches are dropped
	lost    chan struct{} // closed and replaced when a borrowed connection may have lost its watches
}

func newConn(cfg Config) *Conn {
	c := &Conn{
		cfg: cfg, changed: make(chan struct{}), watches: map[watchKey]watch{}, sweepAt: fewWatches, lost: make(chan struct{}),
	}
	c.open, c.shut = context.WithCancelCause(context.Background())
	c.lastDown.Store(-1)
	c.lastLost.Store(-1)
	return c
}

// Borrow returns a Conn on a connection that the caller made and closes. Until Close is called, a
// goroutine checks each second whether there is a session.
func Borrow(z *zk.Conn, cfg Config) *Conn {
	c := newConn(cfg)
	c.zk = z
	c.poll()
	go func() {
		ticker := time.NewTicker(pollEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				c.poll()
			case <-c.open.Done():
				return
			}
		}
	}()
	return c
}

// Owned reports whether Dial made the connection, so that Close closes it.
func (c *Conn) Owned() bool { return c.own != nil }

// Session returns the id of the present or last session; 0 if it has expired and there is no new
// one, or if there was none.
func (c *Conn) Session() int64 { return c.zk.SessionID() }

func (c *Conn) hasSession() bool { return c.zk.State() == zk.StateHasSession }

// SessionState reports whether there is a session, and returns a channel that is closed when that
// may have changed. The channel is nil for a borrowed connection, which has no events.
func (c *Conn) SessionState() (connected bool, changed <-chan struct{}) {
	if c.Owned() {
		c.mu.Lock()
		changed = c.changed
		c.mu.Unlock()
	}
	return c.hasSession(), changed
}

// Ready waits until there is a session. Without one a request would be queued and run later,
// perhaps in another session. This package calls it before each request. Its errors are those of
// NotSent.
func (c *Conn) Ready(ctx context.Context) error {
	c.poll()
	switch {
	case c.open.Err() != nil:
		return NotSent(context.Cause(c.open))
	case c.hasSession():
		return nil
	case c.Owned():
		return c.awaitSession(ctx)
	}
	return c.pollSession(ctx)
}

// awaitSession waits for the event of a new session on an owned connection.
func (c *Conn) awaitSession(ctx context.Context) error {
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		if c.hasSession() {
			return nil
		}
		select {
		case <-changed:
		case <-c.open.Done():
			return NotSent(context.Cause(c.open))
		case <-ctx.Done():
			return NotSent(fmt.Errorf("%w: %w", c.NoSession(), ContextError(ctx)))
		}
	}
}

// Close waits for at most patience until no call is in flight. Then no call can begin any more, and
// Close ends the session of an owned connection, and with it the remaining calls. Close fails if
// calls are still in flight after that. It returns within patience and about a tenth of a second;
// go-zookeeper's goroutines may end later.
func (c *Conn) Close(patience time.Duration) error {
	end := time.Now().Add(patience)
	idle := c.calls.Seal()
	waited := WaitFor(idle, patience)
	c.shut(ErrClosed)
	if !c.Owned() {
		if !waited {
			return fmt.Errorf("close: requests were still in flight after %v because the connection is down; they end when it comes back or its owner closes it", patience)
		}
		return nil
	}
	c.disconnect(end)
	if c.own.followed != nil {
		WaitFor(c.own.followed, lastMoments)
	}
	if !WaitFor(idle, max(time.Until(end), lastMoments)) {
		return fmt.Errorf("close: requests were still in flight after %v", patience)
	}
	return nil
}

// SessionTimeout returns the session timeout that the server has granted; 0 for a borrowed
// connection.
func (c *Conn) SessionTimeout() time.Duration { return time.Duration(c.granted.Load()) }
