// Clients and their clocks.

package sim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/access"
	"github.com/holdfast-io/holdfast/lock/internal/bubble"
)

// simClock are the clocks of one process, with their own rate and offset.
type simClock struct {
	mu        sync.Mutex
	start     time.Time
	rate      float64       // local time per true time
	offset    time.Duration // offset of the wall clock
	counts    bool          // a suspend counts, as on Linux
	suspended time.Duration // true time that the monotonic clock has missed
	skipped   time.Duration // suspends while the test's time stood still, see sleepTogether
	asleep    time.Time     // start of the suspend; zero: not suspended
	woke      time.Time     // end of the last suspend
}

func (s *sim) clock(label string) *simClock {
	r := s.random("clock of " + label)
	c := &simClock{
		start:  time.Now(),
		rate:   1 + (r.Float64()*600-300)/1e6,
		counts: s.counts,
		offset: between(r, -24*time.Hour, 24*time.Hour),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clocks = append(s.clocks, c)
	return c
}

func (c *simClock) skip(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skipped += d
	c.woke = time.Now()
}

func (c *simClock) now() (mono, wall time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	local := func(d time.Duration) time.Duration { return time.Duration(float64(d) * c.rate) }
	awake := now.Sub(c.start)
	if c.counts {
		awake += c.skipped
	} else {
		awake -= c.suspended
		if !c.asleep.IsZero() {
			awake -= missed(now.Sub(c.asleep))
		}
	}
	return local(awake), time.Duration(c.start.UnixNano()) + c.offset + local(now.Sub(c.start)+c.skipped)
}

func (c *simClock) suspend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asleep = time.Now()
}

func (c *simClock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.suspended += missed(time.Since(c.asleep))
	c.asleep, c.woke = time.Time{}, time.Now()
}

// missed returns what the monotonic clock misses of a suspend. It does not stand still: the timers do not
// either, unlike those of a real machine, and one set for the last nanoseconds would fire without end.
func missed(asleep time.Duration) time.Duration { return asleep - asleep/1000 }

// sleptWithin reports whether the machine sleeps, or slept within d.
func (c *simClock) sleptWithin(d time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.asleep.IsZero() || !c.woke.IsZero() && time.Since(c.woke) <= d
}

func (c *simClock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
}

// client is a client of a process. Its owner is unique in the history. The label is its
// connection's, which other clients may share.
type client struct {
	*lock.Client
	owner, label string
	clock        *simClock
	once         sync.Once
	closed       chan struct{} // closed when Close has returned, and no call is running
}

// options returns the options of a simulated client: short sessions, the seeded clock, and an
// observer and a log that the checks read.
func (s *sim) options(owner string, clock *simClock) []lock.Option {
	return []lock.Option{
		lock.WithSessionTimeout(max(time.Second, s.ttl/2).Truncate(time.Millisecond)),
		lock.WithPolicies(s), lock.WithOwner(owner), lock.WithUnlockTimeout(2 * s.ttl),
		access.UseMachine(access.Machine{
			Clock: clock.now, Random: bubble.Locked(s.random("ids of " + owner)), InFlight: s.random("in flight of " + owner).IntN(3),
		}).(lock.Option),
		lock.WithObserver(s.witness(owner)),
		lock.WithLogger(zerolog.New(s).Level(zerolog.InfoLevel).With().Str("client", owner).Logger()),
	}
}

// client dials until a dial succeeds, and returns the client.
func (s *sim) client(owner, label string, clock *simClock) *client {
	r := s.random("dial of " + owner)
	options := append(s.options(owner, clock), lock.WithDialer(s.dialer(label)))
	for {
		ctx, cancel := s.limit(s.Context(), owner, between(r, 200*time.Millisecond, 30*time.Second))
		begun := time.Now()
		c, err := lock.Dial(ctx, s.Servers(), options...)
		s.inTime(owner, "Dial", ctx, begun)
		cancel()
		if err == nil {
			return &client{Client: c, owner: owner, label: label, clock: clock, closed: make(chan struct{})}
		}
		if errors.Is(err, lock.ErrInvalid) {
			panic(err)
		}
		s.say("%s: dial: %v", owner, err)
	}
}

// connect returns a go-zookeeper connection, for another program.
func (s *sim) connect(label string) *zk.Conn {
	z, _, err := zk.Connect(s.Servers(), max(time.Second, s.ttl/2), zk.WithDialer(s.dialer(label)),
		zk.WithLogInfo(false), zk.WithLogger(bubble.Silent{}), zk.WithMaxConnBufferSize(64<<10), zk.WithMaxBufferSize(64<<10))
	if err != nil {
		s.Fatal(err)
	}
	return z
}

// dialer returns a dialer whose connections set watches again in the order of their paths.
// go-zookeeper sends them in the random order of a map, so without the dialer no history would be
// repeatable.
func (s *sim) dialer(label string) func(network, address string, timeout time.Duration) (net.Conn, error) {
	dial := s.Dialer(label)
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		c, err := dial(network, address, timeout)
		if err != nil {
			return nil, err
		}
		return inOrder{c}, nil
	}
}

type inOrder struct{ net.Conn }

func (c inOrder) Write(packet []byte) (int, error) {
	const opSetWatches, lists = 101, 4 + 4 + 4 + 8 // after length, xid, type and zxid
	if len(packet) > lists && binary.BigEndian.Uint32(packet[8:]) == opSetWatches {
		sortLists(packet[lists:])
	}
	return c.Conn.Write(packet)
}

// sortLists sorts each list of strings in the data.
func sortLists(data []byte) {
	for at := 0; at < len(data); {
		n := int(int32(binary.BigEndian.Uint32(data[at:])))
		at += 4
		begin := at
		var items [][]byte
		for range max(0, n) {
			size := 4 + int(binary.BigEndian.Uint32(data[at:]))
			items = append(items, slices.Clone(data[at:at+size]))
			at += size
		}
		slices.SortFunc(items, bytes.Compare)
		copy(data[begin:], bytes.Join(items, nil))
	}
}

// closeClient closes a client, and checks that Close returns within the unlock timeout. If Close
// succeeded, the client's entries must be deleted.
func (s *sim) closeClient(c *client) {
	stats := c.Stats()
	begun := time.Now()
	err := c.Close()
	c.once.Do(func() { close(c.closed) })
	if took := time.Since(begun); took > 2*s.ttl+s.slack() {
		s.violated("%s: Close took %v; its limit is %v", c.owner, took, 2*s.ttl)
	}
	left := s.leftBy(c, begun)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally.count("entries purged", int(stats.Purged))
	s.tally.count("queued again", int(stats.Requeued))
	switch {
	case err != nil:
		s.sayLocked("%s: close: %v", c.owner, err)
		if s.quiet() {
			s.violatedLocked("%s: close: %v", c.owner, err)
		}
		return
	case len(left) > 0:
		s.violatedLocked("%s was closed without an error, and left %q", c.owner, left)
	case s.quiet() && stats.Requeued+stats.Purged > 0:
		s.violatedLocked("%s: no client died here, and %d were purged and %d queued again", c.owner, stats.Purged, stats.Requeued)
	}
	s.tally.count("clients closed clean", 1)
}
