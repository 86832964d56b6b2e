package zkconn

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"
)

// largestReply is the longest frame that is taken from a server: ten times a listing
// of a million names of 50 bytes. More is no frame.
const largestReply = 512 << 20

// handshakeLimit leaves time within a session's timeout to try other servers.
func handshakeLimit(sessionTimeout time.Duration) time.Duration { return sessionTimeout / 3 }

// ownership is what there is of a connection that is ours.
type ownership struct {
	events <-chan zk.Event // closed when all of go-zookeeper's goroutines have ended

	life context.Context // lookups, dials and connections end with it
	cut  context.CancelFunc

	closing sync.Once
	closed  chan struct{} // closed when go-zookeeper's Close has returned

	hosts *hosts

	lastFailure atomic.Pointer[error] // why a server could not be reached
	unanswered  atomic.Int64          // monotonic time plus 1 since when a session is asked for and no server answers; 0: the last one did
	live        net.Conn              // the last one, of the one goroutine that dials
}

// Dial connects to the servers, each host:port, and waits for a session, or until ctx
// ends: then it fails with [ErrUnavailable], the context's error and why the last of
// the servers could not be reached.
func Dial(ctx context.Context, servers []string, cfg Config) (*Conn, error) {
	if cfg.lookup == nil {
		cfg.lookup = net.DefaultResolver.LookupHost
	}
	cfg.servers = servers
	c := newConn(cfg)
	c.own = &ownership{closed: make(chan struct{})}
	c.own.life, c.own.cut = context.WithCancel(context.Background())
	c.own.hosts = &hosts{ctx: c.own.life, cfg: cfg, failed: c.noteFailure, stuck: c.stuck}
	z, events, err := zk.Connect(servers, cfg.SessionTimeout,
		zk.WithDialer(c.dialServer),
		zk.WithHostProvider(c.own.hosts),
		zk.WithEventCallback(c.sessionEvent),
		zk.WithLogger(printfLogger{cfg.Log}),
		zk.WithLogInfo(false))
	if err != nil {
		c.own.cut()
		return nil, fmt.Errorf("connect to ZooKeeper at %s: %w", strings.Join(servers, ","), err)
	}
	c.zk, c.own.events = z, events
	told := c.tellWaiting(ctx, servers)
	err = c.firstSession(ctx)
	told()
	if err != nil {
		why := c.own.lastFailure.Load()
		c.Close(0)
		if why != nil {
			err = &unreached{err, *why}
		}
		return nil, fmt.Errorf("connect to ZooKeeper at %s: %w", strings.Join(servers, ","), err)
	}
	if c.began.Store(true); !c.hasSession() {
		c.noteDown()
	}
	return c, nil
}

// unreached is an error together with why the last of the servers could not be reached.
type unreached struct {
	error
	why error
}

func (e *unreached) Error() string      { return fmt.Sprintf("%v; the last of them: %v", e.error, e.why) }
func (e *unreached) Unwrap() []error    { return []error{e.error, e.why} }
func (e *unreached) LastFailure() error { return e.why }

// quietWait is for how long Dial waits without a word.
const quietWait = 3 * time.Second

// tellWaiting logs once the servers that Dial waits for, if that takes longer than
// quietWait. The returned function ends that.
func (c *Conn) tellWaiting(ctx context.Context, servers []string) (end func()) {
	done := make(chan struct{})
	timer := time.AfterFunc(quietWait, func() {
		defer close(done)
		event := c.cfg.Log.Warn().Strs("servers", servers)
		if why := c.own.lastFailure.Load(); why != nil {
			event.AnErr("last_failure", *why)
		}
		if deadline, ok := ctx.Deadline(); ok {
			event.Stringer("gives_up_in", time.Until(deadline).Round(time.Millisecond)).Msg("waiting for ZooKeeper: there is no session yet")
		} else {
			event.Msg("waiting for ZooKeeper: there is no session yet, and the context has no deadline")
		}
	})
	return func() {
		if !timer.Stop() {
			<-done
		}
	}
}

// firstSession waits for a session that has our credentials. Once acknowledged they are
// kept by go-zookeeper for each later connection.
func (c *Conn) firstSession(ctx context.Context) error {
	for _, d := range c.cfg.Digests {
		_, err := read(ctx, c, func() (struct{}, error) { return struct{}{}, c.zk.AddAuth("digest", []byte(d)) })
		if err != nil && OutcomeOf(err) != Refused {
			err = unavailable(ctx, err)
		}
		if err != nil {
			return fmt.Errorf("authenticate: %w", err)
		}
	}
	return c.Ready(ctx)
}

// dialServer is go-zookeeper's dialer.
func (c *Conn) dialServer(network, address string, timeout time.Duration) (net.Conn, error) {
	if c.own.live != nil {
		c.own.live.Close() // go-zookeeper forgets to, when it has brought a session's end
		c.own.live = nil
	}
	nc, err := c.dialWithin(c.own.life, network, address, timeout)
	if err != nil {
		c.noteFailure(fmt.Errorf("%s: %w", address, err))
		return nil, err
	}
	live := &liveConn{plain: nc, stop: context.AfterFunc(c.own.life, func() { nc.Close() })}
	c.own.live = live
	limit := time.Now().Add(handshakeLimit(c.cfg.SessionTimeout))
	ctx, cancel := context.WithDeadline(c.own.life, limit)
	defer cancel()
	if live.Conn, err = c.secure(ctx, nc, c.own.hosts.nameOf(address)); err != nil {
		live.Close()
		c.noteFailure(fmt.Errorf("%s: %w", address, err))
		return nil, err
	}
	return newServerConn(live, limit, dialed{c, address}, c.overdue)
}

// dialed is told what comes of the handshake with a server.
type dialed struct {
	c       *Conn
	address string
}

func (d dialed) failed(why error) {
	d.c.noteFailure(fmt.Errorf("%s: %w", d.address, d.c.explain(why)))
}

func (d dialed) answered(timeout time.Duration) {
	d.c.own.unanswered.Store(0)
	if timeout > 0 {
		d.c.granted.Store(int64(timeout))
	}
}

// unanswered says to take the session for expired when no server has answered a handshake for
// longer than the session timeout and this one, again, has closed the connection. A server
// that knows less than go-zookeeper has seen does so, and would for ever. By then the session
// has ended wherever it was known, so all that is lost is what a new session loses.
func (d dialed) unanswered(asked handshake, why error) (expired bool) {
	causes := "its maxClientCnxns is reached, or it has no quorum"
	if d.c.cfg.TLS == nil {
		causes = "this is its port for TLS (secureClientPort), which needs zookeeper.tls or lock.WithTLS, or " + causes
	}
	if asked.zxid > 0 {
		causes += ", or it knows less than this client has seen: it has lost its data, or is of another ensemble"
	}
	d.c.noteFailure(fmt.Errorf("%s: %w: the server has closed the connection without an answer: %s", d.address, why, causes))
	if asked.session == 0 {
		return false
	}
	now := d.c.cfg.Now()
	if d.c.own.unanswered.CompareAndSwap(0, int64(now)+1) {
		return false
	}
	since := now - time.Duration(d.c.own.unanswered.Load()-1)
	if since <= d.c.SessionTimeout() {
		return false
	}
	d.c.cfg.Log.Warn().Str("server", d.address).Stringer("unanswered_for", since.Round(time.Millisecond)).
		Str("session", fmt.Sprintf("%#x", asked.session)).Str("zxid", fmt.Sprintf("%#x", asked.zxid)).
		Msg("no server answers for the session: a new session begins, on servers that may have lost their data")
	if d.c.cfg.Forgotten != nil {
		d.c.cfg.Forgotten()
	}
	return true
}

// Refused returns why servers are closing all connections without an answer, if they have
// done so for longer than a third of the session timeout; else nil.
func (c *Conn) Refused() error {
	if !c.Owned() {
		return nil
	}
	since, why := c.own.unanswered.Load(), c.own.lastFailure.Load()
	if since == 0 || why == nil || c.hasSession() || c.cfg.Now()-time.Duration(since-1) < c.SessionTimeout()/3 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, *why)
}

// dialWithin dials until ctx ends.
func (c *Conn) dialWithin(ctx context.Context, network, address string, timeout time.Duration) (net.Conn, error) {
	if c.cfg.Dialer == nil {
		return (&net.Dialer{Timeout: timeout}).DialContext(ctx, network, address)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	type result struct {
		nc  net.Conn
		err error
	}
	done := make(chan result) // unbuffered: either side knows whether the other took it
	go func() {
		nc, err := c.cfg.Dialer(network, address, timeout)
		select {
		case done <- result{nc, err}:
		case <-ctx.Done():
			if err == nil {
				nc.Close()
			}
		}
	}()
	select {
	case r := <-done:
		return r.nc, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// liveConn is a connection that closes with its owner's life.
type liveConn struct {
	net.Conn             // over TLS, or plain
	plain    net.Conn    // below that
	stop     func() bool // waiting for that
}

// Close closes it without the farewell of TLS, which could wait for a peer that takes
// nothing. Sessions have one of their own.
func (c *liveConn) Close() error {
	c.stop()
	return c.plain.Close()
}

// noteFailure remembers why a server could not be reached, unless it is because we
// gave up.
func (c *Conn) noteFailure(err error) {
	if c.own.life.Err() == nil {
		c.own.lastFailure.Store(&err)
		c.cfg.Log.Debug().Err(err).Msg("cannot connect to a server")
	}
}

// lastMoments is for how long a session's end is waited for when there is no patience
// left; and then for as long once more the end of what was cut.
const lastMoments = 30 * time.Millisecond

// disconnect ends the session, in an orderly way if it can be done in time, and then
// all that go-zookeeper does.
func (c *Conn) disconnect(end time.Time) {
	if c.hasSession() {
		WaitFor(c.closeSession(), max(time.Until(end), lastMoments))
		c.own.cut()
	} else {
		c.own.cut()
		c.awaitPause()
		c.closeSession()
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range c.own.events {
		}
	}()
	WaitFor(ended, lastMoments)
}

// closeSession has go-zookeeper end the session and then its goroutines. It returns a
// channel that is closed when the server has acknowledged that, or was waited for long
// enough, which are up to three seconds. It does so once: a second call of go-zookeeper's
// Close would wait for the first one's end.
func (c *Conn) closeSession() <-chan struct{} {
	c.own.closing.Do(func() {
		go func() {
			defer close(c.own.closed)
			c.zk.Close()
		}()
	})
	return c.own.closed
}

// awaitPause waits until go-zookeeper, which has nothing to connect to any more, is
// between rounds of servers. There it will see that it is to end.
func (c *Conn) awaitPause() {
	timer := time.NewTimer(lastMoments)
	defer timer.Stop()
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		if c.zk.State() == zk.StateConnecting {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			return
		}
	}
}

// leaveTime holds go-zookeeper up for a moment when it is about to end for good. What
// is in its queue then is answered; what comes later, as the last request of a
// concurrent Close may, is waited for in vain.
func (o *ownership) leaveTime() {
	if o.life.Err() != nil {
		time.Sleep(time.Millisecond)
	}
}

// printfLogger passes go-zookeeper's log lines on.
type printfLogger struct{ log zerolog.Logger }

func (l printfLogger) Printf(format string, args ...any) {
	l.log.Debug().Str("from", "go-zookeeper").Msgf(format, args...)
}
