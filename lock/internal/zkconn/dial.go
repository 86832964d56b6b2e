package zkconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"
)

// largestReply is the longest frame that we accept from a server: ten times a listing of a
// million names of 50 bytes. A greater length means that the server is not ZooKeeper.
const largestReply = 512 << 20

// handshakeLimit returns the time limit of a handshake. It leaves time within a session timeout
// to try other servers.
func handshakeLimit(sessionTimeout time.Duration) time.Duration { return sessionTimeout / 3 }

// ownership has the additional state of an owned connection.
type ownership struct {
	events <-chan zk.Event // closed when all of go-zookeeper's goroutines have ended

	life context.Context    // ends lookups, dials and connections
	cut  context.CancelFunc // ends life

	closing sync.Once
	closed  chan struct{} // closed when go-zookeeper's Close has returned

	hosts *hosts

	// The first unanswered handshake since the last answer, and the first refusal of our SASL
	// credentials since they were accepted: monotonic time plus 1; 0: there was none.
	unanswered, denied atomic.Int64

	denials     int                      // refusals in a row; used only by the goroutine that dials
	lastFailure atomic.Pointer[error]    // last failure to reach a server
	giveUp      context.CancelCauseFunc  // ends Dial
	live        atomic.Pointer[liveConn] // the last connection

	followed chan struct{} // closed when follow has returned; nil: it does not run
}

// Dial connects to the servers, each host:port, and waits for a session. If ctx ends first, it
// fails with [ErrUnavailable], the context's error, and the last server's failure. If as many tries as
// there are addresses end because SASL credentials are refused, it fails with [ErrDenied].
func Dial(ctx context.Context, servers []string, cfg Config) (*Conn, error) {
	if cfg.lookup == nil {
		cfg.lookup = net.DefaultResolver.LookupHost
	}
	cfg.servers = servers
	c := newConn(cfg)
	first, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	c.own = &ownership{closed: make(chan struct{}), giveUp: giveUp}
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
	err = c.firstSession(first)
	told()
	if err != nil {
		why, denied := c.own.lastFailure.Load(), context.Cause(first)
		c.Close(0)
		if errors.Is(denied, ErrDenied) {
			err = denied
		} else if why != nil {
			err = &unreached{err, *why}
		}
		return nil, fmt.Errorf("connect to ZooKeeper at %s: %w", strings.Join(servers, ","), err)
	}
	if c.began.Store(true); !c.hasSession() {
		c.noteDown()
	}
	if cfg.Follow {
		c.own.followed = make(chan struct{})
		go c.follow()
	}
	return c, nil
}

// unreached is an error of Dial, with the last server's failure.
type unreached struct {
	error
	why error
}

func (e *unreached) Error() string      { return fmt.Sprintf("%v; last failure: %v", e.error, e.why) }
func (e *unreached) Unwrap() []error    { return []error{e.error, e.why} }
func (e *unreached) LastFailure() error { return e.why }

// quietWait is the time after which Dial logs that it still waits.
const quietWait = 3 * time.Second

// tellWaiting logs the servers once if Dial takes longer than quietWait. Dial calls the returned
// function when it has ended.
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

// firstSession waits for a session with our credentials. Once the server has acknowledged them,
// go-zookeeper sends them on each later connection.
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

// dialServer is go-zookeeper's dialer. It begins the SASL exchange, connects, makes the connection
// secure, and returns it as a serverConn.
func (c *Conn) dialServer(network, address string, timeout time.Duration) (net.Conn, error) {
	if last := c.own.live.Swap(nil); last != nil {
		last.Close() // go-zookeeper does not, if the connection brought the session's end
	}
	login, err := c.startLogin(c.own.life, address)
	if err != nil {
		c.noteDenied(fmt.Errorf("%s: %w: %w", address, ErrSASL, err))
		return nil, err
	}
	nc, err := c.dialWithin(c.own.life, network, address, timeout)
	if err != nil {
		c.noteFailure(of(address, err))
		return nil, err
	}
	live := &liveConn{address: address, plain: nc, stop: context.AfterFunc(c.own.life, func() { nc.Close() })}
	limit := time.Now().Add(handshakeLimit(c.cfg.SessionTimeout))
	ctx, cancel := context.WithDeadline(c.own.life, limit)
	defer cancel()
	if live.Conn, err = c.secure(ctx, nc, c.own.hosts.nameOf(address)); err != nil {
		live.Close()
		c.noteFailure(of(address, err))
		return nil, err
	}
	c.own.live.Store(live)
	return newServerConn(live, limit, dialed{c, address}, c.overdue, login)
}

// dialed receives the result of the handshake with a server.
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

func (d dialed) authenticated(err error) {
	if err != nil {
		d.c.noteDenied(fmt.Errorf("%s: %w: %w", d.address, ErrSASL, err))
		return
	}
	d.c.own.denied.Store(0)
	d.c.own.denials = 0
}

// noteDenied records why SASL failed. If the credentials are refused, Dial gives up after as many
// tries as there are addresses: a server may lock out a user after too many.
func (c *Conn) noteDenied(err error) {
	if c.noteFailure(err); !errors.Is(err, ErrDenied) {
		return
	}
	c.own.denied.CompareAndSwap(0, int64(c.cfg.Now())+1)
	if c.own.denials++; c.own.denials >= c.own.hosts.Len() {
		c.own.giveUp(err)
	}
}

// unanswered reports whether to take the session for expired: no server has answered a handshake
// for longer than the session timeout. A server that knows less than go-zookeeper has seen always
// closes the connection without an answer. By then the session has ended on all servers that knew
// it, so a new session loses nothing more.
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
	d.c.own.hosts.forget()
	if d.c.cfg.Forgotten != nil {
		d.c.cfg.Forgotten()
	}
	return true
}

// Refused returns the reason if servers have closed all connections without an answer, or have
// refused our SASL credentials, for longer than a third of the session timeout; otherwise nil.
func (c *Conn) Refused() error {
	if !c.Owned() {
		return nil
	}
	since, why := cmp.Or(c.own.unanswered.Load(), c.own.denied.Load()), c.own.lastFailure.Load()
	if since == 0 || why == nil || c.hasSession() || c.cfg.Now()-time.Duration(since-1) < c.SessionTimeout()/3 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, *why)
}

// dialWithin dials until ctx ends, also with a dialer that takes no context.
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

// liveConn is a connection that closes when its owner's life ends.
type liveConn struct {
	address  string
	net.Conn             // over TLS, or plain
	plain    net.Conn    // the connection below TLS
	stop     func() bool // the owner's end closes the connection unless this was called
}

// Close closes the connection without TLS's close message, which could wait for a peer that does
// not read. A ZooKeeper session has its own close message.
func (c *liveConn) Close() error {
	c.stop()
	return c.plain.Close()
}

// of adds the server's address to an error, unless it is there: package net mostly adds it.
func of(address string, err error) error {
	if strings.Contains(err.Error(), address) {
		return err
	}
	return fmt.Errorf("%s: %w", address, err)
}

// noteFailure records why a server could not be reached, unless we gave up.
func (c *Conn) noteFailure(err error) {
	if c.own.life.Err() == nil {
		c.own.lastFailure.Store(&err)
		c.cfg.Log.Debug().Err(err).Msg("cannot connect to a server")
	}
}

// lastMoments is the least wait for the end of a session, and the wait for the end of the cut
// connection after that.
const lastMoments = 30 * time.Millisecond

// disconnect ends the session, in an orderly way if there is time, and then all of go-zookeeper's
// work.
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

// closeSession makes go-zookeeper end the session and then its goroutines. The returned channel
// is closed when the server has acknowledged that, or after up to three seconds. It does so once:
// a second call of go-zookeeper's Close would wait for the first one.
func (c *Conn) closeSession() <-chan struct{} {
	c.own.closing.Do(func() {
		go func() {
			defer close(c.own.closed)
			c.zk.Close()
		}()
	})
	return c.own.closed
}

// awaitPause waits until go-zookeeper, which cannot connect any more, is between rounds of
// servers. There it notices that it must end.
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

// leaveTime delays go-zookeeper for a moment when it is about to end for good. go-zookeeper then
// answers the requests that are queued, but no later one. The last request of a concurrent Close
// must be queued by then.
func (o *ownership) leaveTime() {
	if o.life.Err() != nil {
		time.Sleep(time.Millisecond)
	}
}

// printfLogger forwards go-zookeeper's log lines, at level debug.
type printfLogger struct{ log zerolog.Logger }

func (l printfLogger) Printf(format string, args ...any) {
	l.log.Debug().Str("from", "go-zookeeper").Msgf(format, args...)
}
