package zkconn

import (
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

// largestReply is the longest frame that serverConn accepts, in bytes: ten times a listing of a
// million names of 50 bytes. A greater length means that the server is not ZooKeeper.
const largestReply = 512 << 20

// handshakeLimit returns the time limit of a handshake: a third of the session timeout, which leaves
// time to try other servers.
func handshakeLimit(sessionTimeout time.Duration) time.Duration { return sessionTimeout / 3 }

// ownership has the additional state of an owned connection.
type ownership struct {
	events <-chan zk.Event // closed when all of go-zookeeper's goroutines have ended

	life context.Context    // ends lookups, dials and connections
	cut  context.CancelFunc // ends life

	closing sync.Once
	closed  chan struct{} // closed when go-zookeeper's Close has returned

	hosts *hosts

	// unanswered is the first unanswered handshake since the last answered one: monotonic time plus 1;
	// 0: there was none.
	unanswered atomic.Int64

	denials  int                      // refusals in a row; used only by the goroutine that dials
	failures failedTries              // last failures to reach a server since there was a session
	refused  atomic.Pointer[error]    // why Dial has given up; nil: it has not
	giveUp   context.CancelFunc       // ends Dial
	live     atomic.Pointer[liveConn] // the last connection

	followed chan struct{} // closed when follow has returned; nil: it does not run
}

// Dial connects to the servers, each host:port, and waits for a session. If ctx ends first, Dial
// fails with [ErrUnavailable], the context's error, and the last failure to reach a server. It fails
// with [ErrDenied] when the SASL credentials were refused as often in a row as there are addresses.
func Dial(ctx context.Context, servers []string, cfg Config) (*Conn, error) {
	if cfg.lookup == nil {
		cfg.lookup = net.DefaultResolver.LookupHost
	}
	cfg.servers = servers
	c := newConn(cfg)
	first, giveUp := context.WithCancel(ctx)
	defer giveUp()
	c.own = &ownership{closed: make(chan struct{}), giveUp: giveUp}
	c.own.life, c.own.cut = context.WithCancel(context.Background())
	c.own.hosts = &hosts{ctx: c.own.life, cfg: cfg, began: c.noteRound}
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
		refused := c.own.refused.Load()
		c.Close(0)
		if refused != nil {
			err = *refused
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

// quietWait is the time after which Dial logs a warning that there is no session yet.
const quietWait = 3 * time.Second

// tellWaiting logs the servers once if Dial takes longer than quietWait. Dial calls end when it no
// longer waits; end waits for a log line that is being written.
func (c *Conn) tellWaiting(ctx context.Context, servers []string) (end func()) {
	done := make(chan struct{})
	timer := time.AfterFunc(quietWait, func() {
		defer close(done)
		event := c.cfg.Log.Warn().Strs("servers", servers).AnErr("last_failure", c.LastFailure())
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

// firstSession sends the configured digests, and waits for a session. Once the server has
// acknowledged a digest, go-zookeeper sends it on each later connection.
func (c *Conn) firstSession(ctx context.Context) error {
	for _, d := range c.cfg.Digests {
		_, err := read(ctx, c, func() (struct{}, error) { return struct{}{}, c.zk.AddAuth("digest", []byte(d)) })
		if err != nil && OutcomeOf(err) != Refused {
			err = c.unavailable(ctx, err)
		}
		if err != nil {
			return fmt.Errorf("authenticate: %w", err)
		}
	}
	return c.Ready(ctx)
}

// dialServer is go-zookeeper's dialer. It gets a SASL exchange, connects, makes the TLS handshake if
// configured, and returns the connection as a serverConn.
func (c *Conn) dialServer(network, address string, timeout time.Duration) (net.Conn, error) {
	if last := c.own.live.Swap(nil); last != nil {
		last.Close() // go-zookeeper does not close a connection on which it learned of an expired session
	}
	login, err := c.startLogin(c.own.life, address)
	if err != nil {
		c.noteDenied(address, fmt.Errorf("%s: %w: %w", address, ErrSASL, err))
		return nil, err
	}
	nc, err := c.dialWithin(c.own.life, network, address, timeout)
	if err != nil {
		c.noteFailure(address, of(address, err), false)
		return nil, err
	}
	live := &liveConn{address: address, plain: nc, stop: context.AfterFunc(c.own.life, func() { nc.Close() })}
	limit := time.Now().Add(handshakeLimit(c.cfg.SessionTimeout))
	ctx, cancel := context.WithDeadline(c.own.life, limit)
	defer cancel()
	if live.Conn, err = c.secure(ctx, nc, c.own.hosts.nameOf(address)); err != nil {
		live.Close()
		c.noteFailure(address, of(address, err), true)
		return nil, err
	}
	c.own.live.Store(live)
	return newServerConn(live, limit, dialed{c, address}, c.overdue, login)
}

// dialed receives the result of the handshake on a connection to the address.
type dialed struct {
	c       *Conn
	address string
}

func (d dialed) failed(why error) {
	d.c.noteFailure(d.address, fmt.Errorf("%s: %w", d.address, d.c.explain(why)), true)
}

func (d dialed) answered(timeout time.Duration) {
	d.c.own.unanswered.Store(0)
	if timeout > 0 {
		d.c.granted.Store(int64(timeout))
	}
}

func (d dialed) authenticated(err error) {
	if err != nil {
		d.c.noteDenied(d.address, fmt.Errorf("%s: %w: %w", d.address, ErrSASL, err))
		return
	}
	d.c.own.denials = 0
}

// noteDenied records why SASL failed. If the credentials were refused, Dial gives up after as many
// refusals in a row as there are addresses: a server may lock out a user after too many refusals.
func (c *Conn) noteDenied(address string, err error) {
	if c.noteFailure(address, err, true); !errors.Is(err, ErrDenied) {
		return
	}
	if c.own.denials++; c.own.denials >= c.own.hosts.Len() {
		c.own.refused.Store(&err)
		c.own.giveUp()
	}
}

// unanswered reports whether to take the session for expired: no server has answered a handshake
// for longer than the session timeout. A server that has seen fewer transactions than go-zookeeper
// always closes the connection without an answer. After the session timeout the session has ended
// on all servers that knew it, so a new session loses nothing more. Before it returns true,
// unanswered calls Config.Forgotten.
func (d dialed) unanswered(asked handshake, why error) (expired bool) {
	causes := "it has no quorum, or its maxClientCnxns is reached"
	if d.c.cfg.TLS == nil {
		causes += ", or this is its port for TLS (secureClientPort), which needs zookeeper.tls or lock.WithTLS"
	}
	if asked.zxid > 0 {
		causes += ", or it knows less than this client has seen: it has lost its data, or is of another ensemble"
	}
	d.c.noteFailure(d.address, fmt.Errorf("%s: %w: the server has closed the connection without an answer: %s", d.address, why, causes), true)
	now := d.c.cfg.Now()
	if d.c.own.unanswered.CompareAndSwap(0, int64(now)+1) || asked.session == 0 {
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
	done := make(chan result) // unbuffered: the sender knows whether the result was received
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

// liveConn is a connection that is closed when ownership.life ends.
type liveConn struct {
	address  string
	net.Conn             // over TLS, or plain
	plain    net.Conn    // the connection below TLS
	stop     func() bool // after a call of stop, the end of life does not close the connection
}

// Close closes the connection without TLS's close message, which could wait for a peer that does
// not read. A ZooKeeper session has its own close message.
func (c *liveConn) Close() error {
	c.stop()
	return c.plain.Close()
}

// of adds the server's address to an error, unless the error has it: package net mostly adds it.
func of(address string, err error) error {
	if strings.Contains(err.Error(), address) {
		return err
	}
	return fmt.Errorf("%s: %w", address, err)
}

// lastMoments is the least time that Close waits for the end of a session, and the time that it
// waits for each of the steps after that.
const lastMoments = 30 * time.Millisecond

// disconnect ends the session, and then go-zookeeper's goroutines. It waits for the server's
// acknowledgement until the time end, and then for at most lastMoments for the goroutines.
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

// closeSession makes go-zookeeper end the session and then its goroutines. The returned channel is
// closed when the server has acknowledged the end of the session, or after up to three seconds. A
// second call only returns the channel: a second Close of go-zookeeper would wait for the first.
func (c *Conn) closeSession() <-chan struct{} {
	c.own.closing.Do(func() {
		go func() {
			defer close(c.own.closed)
			c.zk.Close()
		}()
	})
	return c.own.closed
}

// awaitPause waits, for at most lastMoments, until go-zookeeper is between two rounds of servers,
// where it notices a Close. life has ended, so go-zookeeper cannot connect any more.
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

// leaveTime delays go-zookeeper for a moment when the connection is being closed. When go-zookeeper
// ends, it answers the requests that are queued then, but no later request. The delay lets requests
// that run concurrently with Close be queued before.
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
