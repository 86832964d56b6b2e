package locktest

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Options are the settings of an ensemble. The zero value is a single server without delays.
type Options struct {
	// Members is the number of servers, at most 254; 0 means one. A single server behaves like a
	// standalone one: all its zxids have epoch 0.
	Members int

	// MinSessionTimeout and MaxSessionTimeout limit the session timeouts of clients. 0 means no
	// limit, so that tests may use very short sessions.
	MinSessionTimeout time.Duration
	MaxSessionTimeout time.Duration
	// TickTime, if set, sets the limits that are 0 as on a real server: twice and twenty times
	// the tick.
	TickTime time.Duration

	// MaxFrame is the members' jute.maxbuffer, the longest accepted request in bytes; a longer
	// one cuts the connection. 0 means ZooKeeper's default, 0xfffff.
	MaxFrame int

	// ElectionTime is the time without a leader after the ensemble has lost one, while a majority
	// runs. 0 means no time at all; clients still lose their connections.
	ElectionTime time.Duration

	// Latency is the initial function of [Ensemble.SetLatency].
	Latency func(label, member string) time.Duration

	// Quirks are differences of the servers from ZooKeeper; none by default.
	Quirks Quirks

	// Seed determines the ids and passwords of sessions. Nothing else differs between two
	// ensembles with the same history.
	Seed uint64
}

func (o *Options) check() error {
	if o.Members < 0 || o.Members > 254 {
		return fmt.Errorf("locktest: Options.Members is %d; it must be in 0..254", o.Members)
	}
	if o.MaxFrame < 0 {
		return fmt.Errorf("locktest: Options.MaxFrame is %d; it must not be negative", o.MaxFrame)
	}
	if o.MaxFrame == 0 {
		o.MaxFrame = defaultMaxFrame
	}
	for _, f := range []struct {
		name string
		d    time.Duration
	}{
		{"MinSessionTimeout", o.MinSessionTimeout}, {"MaxSessionTimeout", o.MaxSessionTimeout},
		{"TickTime", o.TickTime}, {"ElectionTime", o.ElectionTime},
	} {
		if f.d < 0 {
			return fmt.Errorf("locktest: Options.%s is %v; it must not be negative", f.name, f.d)
		}
	}
	if o.Members == 0 {
		o.Members = 1
	}
	if o.MinSessionTimeout == 0 {
		o.MinSessionTimeout = 2 * o.TickTime
	}
	if o.MaxSessionTimeout == 0 {
		o.MaxSessionTimeout = 20 * o.TickTime
	}
	if o.MaxSessionTimeout > 0 && o.MaxSessionTimeout < o.MinSessionTimeout {
		return fmt.Errorf("locktest: Options.MaxSessionTimeout is %v; it must not be below MinSessionTimeout, %v",
			o.MaxSessionTimeout, o.MinSessionTimeout)
	}
	return nil
}

// negotiate returns the session timeout of a client that requests d.
func (o *Options) negotiate(d time.Duration) time.Duration {
	if o.MaxSessionTimeout > 0 {
		d = min(d, o.MaxSessionTimeout)
	}
	return max(d, o.MinSessionTimeout, time.Millisecond)
}

// An Ensemble is a ZooKeeper ensemble in memory. All its methods are safe for concurrent use;
// they take effect before they return.
type Ensemble struct {
	opts    Options
	members []*member
	made    time.Time

	mu       sync.Mutex
	ready    []*serverConn // connections to serve before the lock is released
	alarms   alarms
	out      encoder // the frame being written
	closed   bool
	released chan struct{} // closed and replaced when hanging dials may go on

	leader      *member // nil while there is none
	electing    *alarm  // ends the election; nil: none is under way
	epoch       int64
	counter     int64
	txns        int64
	sessions    map[int64]*session
	lastSession int64

	conns     []*serverConn
	delayed   map[*serverConn]bool // connections with a delayed request, closed ones too
	labels    map[string]*label
	latency   func(label, member string) time.Duration
	listeners []net.Listener // given to Serve
	intercept func(Request) Fault
	tracer    func(Event)
	observer  func(Txn)
}

// New starts an ensemble. It fails if an option is invalid.
func New(opts Options) (*Ensemble, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	e := &Ensemble{
		opts:     opts,
		made:     time.Now(),
		released: make(chan struct{}),
		sessions: make(map[int64]*session),
		labels:   make(map[string]*label),
		delayed:  make(map[*serverConn]bool),
		latency:  opts.Latency,
	}
	for i := range opts.Members {
		e.members = append(e.members, &member{
			e: e, running: true, tree: newTree(),
			// Addresses for documentation (RFC 5737): a client without the dialer reaches no
			// server.
			addr:    fmt.Sprintf("192.0.2.%d:2181", i+1),
			watches: make(watchTable), conns: make(map[int64]*serverConn),
		})
		opts.Quirks.adopt(e.members[i].tree)
	}
	e.lock()
	defer e.unlock()
	e.elect()
	return e, nil
}

// Start starts an ensemble and closes it at the end of the test.
func Start(t testing.TB, opts Options) *Ensemble {
	t.Helper()
	e, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// Close ends all connections, timers and listeners. After it, dials fail. A second Close does
// nothing.
func (e *Ensemble) Close() {
	e.lock()
	defer e.unlock()
	if e.closed {
		return
	}
	e.closed = true
	for _, s := range slices.Clone(e.conns) {
		s.ended = true
		s.cut(io.EOF)
	}
	for _, l := range e.listeners {
		_ = l.Close()
	}
	e.silence()
	e.release()
}

// Servers returns the members' addresses, which are also their names. Pass them to zk.Connect.
func (e *Ensemble) Servers() []string {
	var addrs []string
	for _, m := range e.members {
		addrs = append(addrs, m.addr)
	}
	return addrs
}

// Leader returns the name of the leader; "" while there is none.
func (e *Ensemble) Leader() string {
	e.lock()
	defer e.unlock()
	if e.leader == nil {
		return ""
	}
	return e.leader.addr
}

// lock and unlock guard everything. Before it releases the lock, unlock serves the requests that
// have arrived; they are served at no other time. A hook runs with the lock released, so it finds
// the ensemble in a consistent state.
func (e *Ensemble) lock() { e.mu.Lock() }

func (e *Ensemble) unlock() {
	defer e.mu.Unlock()
	for len(e.ready) > 0 {
		s := popFront(&e.ready)
		s.queued = false
		s.serve()
	}
}

// popFront removes and returns the head of a short queue, and keeps its memory.
func popFront[T any](queue *[]T) T {
	head := (*queue)[0]
	*queue = slices.Delete(*queue, 0, 1)
	return head
}

// wake queues a connection to be served.
func (e *Ensemble) wake(s *serverConn) {
	if !s.queued {
		s.queued = true
		e.ready = append(e.ready, s)
	}
}

// find returns the member of that name. call is the caller's method, for the error.
func (e *Ensemble) find(call, name string) (*member, error) {
	for _, m := range e.members {
		if m.addr == name {
			return m, nil
		}
	}
	return nil, fmt.Errorf("locktest: %s: %q is no member; the members are %s",
		call, name, strings.Join(e.Servers(), ", "))
}
