package lock

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"
)

// conn is the one place that knows go-zookeeper's habits (protocol: Ambiguity,
// and go-zookeeper's habits). It adds to a *zk.Conn contexts on every call,
// classes of errors, and one watch per path shared by the whole process; and it
// issues nothing without a session. All methods are safe for concurrent use.
type conn struct {
	zk    *zk.Conn
	ended <-chan zk.Event // of an owned connection: closed when all its goroutines have ended
	cfg   *config

	open  context.Context // ends when no more requests can be made; its cause says why
	shut  context.CancelCauseFunc
	calls group // calls in flight, abandoned ones and their follow-ups included

	jobs chan func()   // to workers that are idle
	idle chan struct{} // has a token for each of them

	granted  atomic.Int64 // session timeout that the server granted, of an owned connection, in ns
	lastDown atomic.Int64 // monotonic time at which there was last no session; -1: never

	mu      sync.Mutex
	changed chan struct{} // closed and made anew at each event of an owned session
	watches map[string]<-chan zk.Event
	sweepAt int // number of watches at which those that fired are dropped
}

// borrow makes a conn of a connection that stays its owner's.
func borrow(z *zk.Conn, cfg *config) *conn {
	c := &conn{
		zk: z, cfg: cfg, jobs: make(chan func()), idle: make(chan struct{}, mostIdle),
		changed: make(chan struct{}), watches: map[string]<-chan zk.Event{}, sweepAt: 64,
	}
	c.open, c.shut = context.WithCancelCause(context.Background())
	c.lastDown.Store(-1)
	return c
}

// dial connects to the servers and waits for a session, or until ctx ends.
func dial(ctx context.Context, servers []string, cfg *config) (*conn, error) {
	c := borrow(nil, cfg)
	dialer := goodDialer(cfg, func(timeout time.Duration) { c.granted.Store(int64(timeout)) })
	var unreached atomic.Pointer[error] // the last of the servers that could not be reached
	z, ended, err := zk.Connect(servers, cfg.sessionTimeout,
		zk.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
			nc, err := dialer(network, address, timeout)
			if err != nil {
				unreached.Store(&err)
			}
			return nc, err
		}),
		zk.WithHostProvider(&hosts{cfg: cfg}),
		zk.WithEventCallback(c.sessionEvent),
		zk.WithLogger(printfLogger{cfg.log}),
		zk.WithLogInfo(false))
	if err != nil {
		return nil, fmt.Errorf("connect to ZooKeeper at %s: %w", strings.Join(servers, ","), err)
	}
	c.zk, c.ended = z, ended
	connected := func() error {
		for _, d := range cfg.digests {
			// Once acknowledged it is kept by go-zookeeper for each later connection.
			if _, err := read(ctx, c, func() (struct{}, error) { return struct{}{}, z.AddAuth("digest", []byte(d)) }); err != nil {
				return fmt.Errorf("authenticate: %w", err)
			}
		}
		return c.ready(ctx)
	}
	err = connected()
	c.lastDown.Store(-1) // to be without a session before the first is no outage
	if err != nil {
		c.close(0)
		if why := unreached.Load(); why != nil {
			err = fmt.Errorf("%w; the last of them: %w", err, *why)
		}
		return nil, fmt.Errorf("connect to ZooKeeper at %s: %w", strings.Join(servers, ","), err)
	}
	return c, nil
}

// owned reports whether the connection is ours to close.
func (c *conn) owned() bool { return c.ended != nil }

// sessionEvent is go-zookeeper's callback. It runs under locks of go-zookeeper's,
// so it must not call the zk.Conn.
func (c *conn) sessionEvent(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	if e.State != zk.StateHasSession {
		c.noteDown()
	} else if down := c.lastDown.Load(); down >= 0 { // an outage ends; not so when the first session begins
		c.lastDown.CompareAndSwap(down, int64(c.cfg.now().mono))
	}
	c.mu.Lock()
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
}

// lastOutage is the monotonic time at which there was last no session; -1 if
// there has been one ever since the first.
func (c *conn) lastOutage() time.Duration { return time.Duration(c.lastDown.Load()) }

func (c *conn) noteDown() { c.lastDown.Store(int64(c.cfg.now().mono)) }

// hasSession reports whether requests can be served now.
func (c *conn) hasSession() bool { return c.zk.State() == zk.StateHasSession }

// ready waits until there is a session. Without one a request would be queued,
// and run later, in another session even.
//
// A borrowed connection tells no events, so its state is polled; so is the
// question whether its owner has closed it, which shows by requests being
// refused while it stays disconnected.
func (c *conn) ready(ctx context.Context) error {
	if c.hasSession() && c.open.Err() == nil {
		return nil
	}
	disconnected := 0
	for wait := c.cfg.newBackoff(5*time.Millisecond, 250*time.Millisecond); ; {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		if c.open.Err() != nil {
			return context.Cause(c.open)
		}
		state := c.zk.State()
		if state == zk.StateHasSession {
			return nil
		}
		c.noteDown()
		var poll <-chan time.Time
		if !c.owned() {
			if disconnected++; state != zk.StateDisconnected {
				disconnected = 0
			}
			if disconnected > 3 && c.ownerClosed() {
				c.shut(fmt.Errorf("%w: the zk.Conn it was given is closed", ErrClosed))
				continue
			}
			poll = time.After(wait.next())
		}
		select {
		case <-changed:
		case <-poll:
		case <-c.open.Done():
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrUnavailable, contextError(ctx))
		}
	}
}

// ownerClosed reports whether a disconnected connection refuses a request at
// once, as it does after Close only. The request is a read: should it be queued
// it does no harm.
func (c *conn) ownerClosed() bool {
	ctx, cancel := context.WithTimeout(c.open, 100*time.Millisecond)
	defer cancel()
	_, err := call(ctx, c, func() (bool, error) { ok, _, err := c.zk.Exists("/"); return ok, err }, nil)
	return errors.Is(err, zk.ErrConnectionClosed) && c.zk.State() == zk.StateDisconnected
}

// inPlace is a context that nobody wants to end before its deadline, if it has one. A
// call with it may be made in the caller's goroutine, which saves two switches between
// goroutines.
type inPlace struct{ context.Context }

// timeLimit is a context that ends after a time, as context.WithTimeout's does. Its
// timer is not set before somebody waits for it: to set and stop one was a fifth of
// what an Unlock computes.
type timeLimit struct {
	context.Context
	deadline time.Time
	once     sync.Once
	done     chan struct{}
	timer    *time.Timer
}

func newTimeLimit(d time.Duration) *timeLimit {
	return &timeLimit{Context: context.Background(), deadline: time.Now().Add(d)}
}

func (l *timeLimit) Deadline() (time.Time, bool) { return l.deadline, true }

func (l *timeLimit) Done() <-chan struct{} {
	l.once.Do(func() {
		l.done = make(chan struct{})
		l.timer = time.AfterFunc(time.Until(l.deadline), func() { close(l.done) })
	})
	return l.done
}

func (l *timeLimit) Err() error {
	if time.Now().Before(l.deadline) {
		return nil
	}
	return context.DeadlineExceeded
}

// release stops the timer. Nobody may begin to wait after it.
func (l *timeLimit) release() {
	l.once.Do(func() {})
	if l.timer != nil {
		l.timer.Stop()
	}
}

// waitsInPlace reports whether a call need not heed its context once it has begun:
// the connection will have failed before that ends. It must be one of ours, which
// are known to give up a server that says nothing after two thirds of the session's
// timeout; a twelfth more is for that to be noticed.
func (c *conn) waitsInPlace(ctx context.Context) bool {
	if _, ok := ctx.(inPlace); !ok || !c.owned() {
		return false
	}
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) >= time.Duration(c.granted.Load())*3/4
}

// call runs f, a call of go-zookeeper's, which takes no context and can block for
// as long as the connection is down. If ctx ends first the call is abandoned, its
// outcome unknown; late, unless nil, gets the outcome whenever it comes.
func call[T any](ctx context.Context, c *conn, f func() (T, error), late func(T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	if ctx.Err() != nil {
		var none T
		return none, neverLeft{contextError(ctx)}
	}
	if !c.calls.enter() {
		var none T
		return none, neverLeft{ErrClosed}
	}
	if c.waitsInPlace(ctx) {
		defer c.calls.leave()
		return f()
	}
	done := make(chan result) // unbuffered: either side knows whether the other took it
	c.run(func() {
		defer c.calls.leave()
		value, err := f()
		select {
		case done <- result{value, err}:
		case <-ctx.Done():
			if late != nil {
				late(value, err)
			}
		}
	})
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, abandoned{contextError(ctx)}
	}
}

// mostIdle is how many goroutines are kept for later calls: as many as the reaper has
// in flight by default.
const mostIdle = 16

// run has f run in another goroutine: one that is idle, if there is any, because its
// stack has grown to what go-zookeeper needs.
func (c *conn) run(f func()) {
	select {
	case c.jobs <- f:
	default:
		go c.work(f)
	}
}

// work runs f and then what else comes, unless enough are idle, until the connection
// is closed.
func (c *conn) work(f func()) {
	for {
		f()
		select {
		case c.idle <- struct{}{}:
		default:
			return
		}
		select {
		case f = <-c.jobs:
			<-c.idle
		case <-c.open.Done():
			return
		}
	}
}

// abandoned is the error of a call that was not waited for to its end.
type abandoned struct{ error }

func (e abandoned) Unwrap() error { return e.error }

// outcome is what an error tells about a write.
type outcome int

const (
	applied   outcome = iota // no error
	refused                  // the server said no: a later try will be told the same
	notNow                   // not applied, and a later try may succeed
	uncertain                // it may have been applied, or may be later
)

// neverLeft is an error before anything was sent.
type neverLeft struct{ error }

func (e neverLeft) Unwrap() error { return e.error }

// refusals are the errors that a server answers a request with. Codes that
// go-zookeeper has no name for come as "unknown error: <code>".
var refusals = []error{
	zk.ErrAPIError, zk.ErrNoNode, zk.ErrNoAuth, zk.ErrBadVersion, zk.ErrNoChildrenForEphemerals,
	zk.ErrNodeExists, zk.ErrNotEmpty, zk.ErrInvalidACL, zk.ErrAuthFailed, zk.ErrBadArguments,
	zk.ErrInvalidPath, zk.ErrInvalidFlags,
}

const codeThrottled = "unknown error: -127"

// outcomeOf classifies an error of go-zookeeper's or of this file's (protocol:
// Ambiguity). Whatever is not known to be a server's answer, or never to have
// been sent, is uncertain: a closed connection, a failed write, a reply that
// could not be decoded, a call that was abandoned.
func outcomeOf(err error) outcome {
	if err == nil {
		return applied
	}
	var op *refusedError
	if errors.As(err, &op) {
		err = op.Err
	}
	var unsent neverLeft
	switch {
	case errors.As(err, &unsent) && errors.Is(err, ErrClosed):
		return refused
	case errors.As(err, &unsent), errors.Is(err, zk.ErrNoServer), errors.Is(err, zk.ErrSessionExpired),
		errors.Is(err, zk.ErrSessionMoved), err.Error() == codeThrottled:
		return notNow
	case slices.Contains(refusals, err), strings.HasPrefix(err.Error(), "unknown error: "):
		return refused
	}
	return uncertain
}

// node is what one read of a node returned.
type node struct {
	data []byte
	stat *zk.Stat
}

// get reads a node.
func (c *conn) get(ctx context.Context, path string) (node, error) {
	return read(ctx, c, func() (node, error) {
		data, stat, err := c.zk.Get(path)
		return node{data, stat}, err
	})
}

// listing is what one list of a node's children returned.
type listing struct {
	names []string
	stat  *zk.Stat
}

// children lists a node.
func (c *conn) children(ctx context.Context, path string) (listing, error) {
	return read(ctx, c, func() (listing, error) {
		names, stat, err := c.zk.Children(path)
		return listing{names, stat}, err
	})
}

// sync lets the server that the session is with catch up with the leader.
func (c *conn) sync(ctx context.Context, path string) error {
	_, err := read(ctx, c, func() (string, error) { return c.zk.Sync(path) })
	return err
}

// read runs a request that changes nothing, over again for as long as the
// connection is what fails it.
func read[T any](ctx context.Context, c *conn, f func() (T, error)) (T, error) {
	for wait := c.cfg.newBackoff(10*time.Millisecond, time.Second); ; {
		var none T
		if err := c.ready(ctx); err != nil {
			return none, err
		}
		value, err := call(ctx, c, f, nil)
		switch o := outcomeOf(err); {
		case o == applied || o == refused:
			return value, err
		case ctx.Err() != nil:
			return none, contextError(ctx)
		}
		c.noteDown()
		if err := wait.sleep(ctx); err != nil {
			return none, err
		}
	}
}

// watch reads a node and returns a channel that becomes readable when the node
// has changed since, or when the watch was lost. All who wait for a path share
// one watch: go-zookeeper cannot take one back, so each new one would stay with
// the server until the node changes. A change is a hint: it can get lost over a
// reconnect (a deletion cannot).
func (c *conn) watch(ctx context.Context, path string) (node, <-chan zk.Event, error) {
	c.mu.Lock()
	armed := c.watches[path]
	c.mu.Unlock()
	if armed != nil && !fired(armed) {
		n, err := c.get(ctx, path) // read after looking, so no change is missed
		return n, armed, err
	}
	type watched struct {
		node
		events <-chan zk.Event
	}
	w, err := read(ctx, c, func() (watched, error) {
		data, stat, events, err := c.zk.GetW(path)
		return watched{node{data, stat}, events}, err
	})
	if err != nil {
		return node{}, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.watches) >= c.sweepAt {
		for path, events := range c.watches {
			if fired(events) {
				delete(c.watches, path)
			}
		}
		c.sweepAt = max(64, 2*len(c.watches))
	}
	c.watches[path] = w.events
	return w.node, w.events, nil
}

// fired reports whether a watch has fired. go-zookeeper sends one event and
// closes the channel, so that it stays readable for everybody who shares it.
func fired(events <-chan zk.Event) bool {
	select {
	case <-events:
		return true
	default:
		return false
	}
}

// multi runs a transaction, and one of a single delete or write as what it is,
// which costs the server less. When the server refused it, the error is a
// refusedError that names the operation. Otherwise see outcomeOf. The reply of
// an abandoned call goes to late, unless that is nil.
func (c *conn) multi(ctx context.Context, late func([]zk.MultiResponse, error), ops ...any) ([]zk.MultiResponse, error) {
	if err := c.ready(ctx); err != nil {
		return nil, neverLeft{err}
	}
	replies, err := call(ctx, c, func() ([]zk.MultiResponse, error) { return c.issue(ops) }, late)
	if err != nil && len(replies) == len(ops) {
		// The operations before the failing one carry no error, those after it
		// "unknown error: -2".
		for i := range replies {
			if replies[i].Error != nil {
				return nil, &refusedError{Op: i, Err: replies[i].Error}
			}
		}
	}
	if outcomeOf(err) == uncertain || errors.Is(err, zk.ErrNoServer) {
		c.noteDown()
	}
	return replies, err
}

func (c *conn) issue(ops []any) ([]zk.MultiResponse, error) {
	if len(ops) == 1 {
		var one zk.MultiResponse
		switch op := ops[0].(type) {
		case *zk.DeleteRequest:
			one.Error = c.zk.Delete(op.Path, op.Version)
		case *zk.SetDataRequest:
			one.Stat, one.Error = c.zk.Set(op.Path, op.Data, op.Version)
		default:
			return c.zk.Multi(ops...)
		}
		if outcomeOf(one.Error) == uncertain {
			return nil, one.Error
		}
		return []zk.MultiResponse{one}, one.Error
	}
	replies, err := c.zk.Multi(ops...)
	if err == nil && len(replies) != len(ops) {
		err = fmt.Errorf("reply to %d operations has %d results", len(ops), len(replies))
	}
	return replies, err
}

// refusedError says which operation of a transaction the server refused, so that
// none was applied.
type refusedError struct {
	Op  int
	Err error
}

func (e *refusedError) Error() string { return fmt.Sprintf("operation %d: %v", e.Op, e.Err) }
func (e *refusedError) Unwrap() error { return e.Err }

// refusedOp returns the place of the operation that the server refused, and why;
// -1 if err is not such a refusal.
func refusedOp(err error) (int, error) {
	if err == nil {
		return -1, nil
	}
	if r := (*refusedError)(nil); errors.As(err, &r) {
		return r.Op, r.Err
	}
	return -1, err
}

// close waits until the calls in flight have ended, for at most the given time,
// and closes the connection if it is ours: then those that still hang end too.
func (c *conn) close(patience time.Duration) error {
	idle := c.calls.close()
	waited := waitFor(idle, patience)
	c.shut(ErrClosed)
	if c.owned() {
		c.zk.Close()
		for range c.ended { // closed when go-zookeeper's goroutines have ended
		}
		<-idle
		return nil
	}
	if !waited {
		return fmt.Errorf("close: requests were still in flight after %v because the connection is down; they end when it comes back or its owner closes it", patience)
	}
	return nil
}

// group counts what is going on, so that a close can wait for it. While it is
// being waited for, those inside may still bring in others; once it was empty
// nobody gets in.
type group struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // not nil: closing
}

func (g *group) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.idle != nil && g.n == 0 {
		return false
	}
	g.n++
	return true
}

func (g *group) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 && g.idle != nil {
		close(g.idle)
	}
}

// close returns a channel that is closed when all have left.
func (g *group) close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.idle == nil {
		g.idle = make(chan struct{})
		if g.n == 0 {
			close(g.idle)
		}
	}
	return g.idle
}

// waitFor reports whether the channel was closed within the time.
func waitFor(done <-chan struct{}, patience time.Duration) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// contextError is a context's error together with its cause.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// backoff gives growing, jittered waits between tries.
type backoff struct {
	cfg      *config
	at, most time.Duration
}

func (c *config) newBackoff(first, most time.Duration) *backoff { return &backoff{c, first, most} }

// next is the next wait: between half and all of a span that doubles up to the most.
func (b *backoff) next() time.Duration {
	d := b.cfg.jitter(b.at*3/4, b.at/4)
	b.at = min(2*b.at, b.most)
	return d
}

// jitter returns d plus or minus at most by.
func (c *config) jitter(d, by time.Duration) time.Duration {
	return d - by + time.Duration(c.random.Int64N(int64(2*by)+1))
}

// sleep waits for as long as next says, or until ctx ends.
func (b *backoff) sleep(ctx context.Context) error {
	timer := time.NewTimer(b.next())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return contextError(ctx)
	}
}

// printfLogger passes go-zookeeper's log lines on.
type printfLogger struct{ log zerolog.Logger }

func (l printfLogger) Printf(format string, args ...any) {
	l.log.Debug().Str("from", "go-zookeeper").Msgf(format, args...)
}

// goodDialer dials as zk.Connect's default does, with two better habits. Reads
// are buffered: go-zookeeper reads every packet's length and body apart. And the
// whole handshake is bounded: go-zookeeper lifts its own deadline after four
// bytes, so a server that accepts and then says nothing would hang it for ever.
// It passes on the session timeout that the server granted, which go-zookeeper does
// not tell.
func goodDialer(cfg *config, granted func(time.Duration)) zk.Dialer {
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		dial := cfg.dialer
		if dial == nil {
			dial = net.DialTimeout
		}
		nc, err := dial(network, address, timeout)
		if err != nil {
			return nil, err
		}
		h := &handshakeConn{Conn: nc, reader: bufio.NewReaderSize(nc, 16<<10), limit: time.Now().Add(handshakeLimit(cfg.sessionTimeout)), granted: granted}
		return h, nc.SetReadDeadline(h.limit)
	}
}

// handshakeLimit leaves time within a session's timeout to try other servers.
func handshakeLimit(sessionTimeout time.Duration) time.Duration { return sessionTimeout / 3 }

// handshakeConn is a buffered connection whose read deadline cannot be moved
// beyond limit before the first frame, the reply to the handshake, was read. Its
// reads and deadlines belong to one goroutine, as go-zookeeper uses them.
type handshakeConn struct {
	net.Conn
	reader  *bufio.Reader
	limit   time.Time
	granted func(time.Duration) // is told the session timeout
	head    []byte              // of the first frame, as far as it was read: its length, the protocol's version, the session timeout in ms
	read    int                 // bytes
	done    bool
}

func (c *handshakeConn) Read(p []byte) (int, error) {
	n, err := c.reader.Read(p)
	if !c.done {
		c.follow(p[:n])
	}
	return n, err
}

// follow notes how much of the first frame has been read, and what it says.
func (c *handshakeConn) follow(p []byte) {
	c.read += len(p)
	c.head = append(c.head, p[:min(12-len(c.head), len(p))]...)
	if len(c.head) < 4 {
		return
	}
	body := int(int32(binary.BigEndian.Uint32(c.head)))
	c.done = c.read >= 4+body
	if c.done && body >= 8 {
		if timeout := int32(binary.BigEndian.Uint32(c.head[8:])); timeout > 0 { // 0: the session has expired
			c.granted(time.Duration(timeout) * time.Millisecond)
		}
	}
}

func (c *handshakeConn) SetReadDeadline(t time.Time) error {
	if !c.done && (t.IsZero() || t.After(c.limit)) {
		t = c.limit
	}
	return c.Conn.SetReadDeadline(t)
}
