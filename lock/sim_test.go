package lock_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/holdfast-io/holdfast/reaper"
)

// TestSimulation runs random histories of many clients under random faults, in
// virtual time, and checks after every step what package lock promises. SEEDS is
// how many histories, SEED the first one. "SEED=17 SEEDS=1 make sim" runs the
// seventeenth as it always is; here goroutines that can run at the same time do so
// in any order. TRACE is a folder in which the traces of all of them are left.
//
// A history has up to six processes with clocks of their own, up to a day off and
// up to 300 ppm wrong, whose goroutines lock, try, extend, cancel and unlock a few
// names; processes that are stopped, suspended, and killed and started again; a
// network that delays, cuts, splits and loses requests or replies at any point;
// sessions that expire; servers that stop, start, lag and have clocks that differ
// by almost the grace; and a reaper.
func TestSimulation(t *testing.T) {
	first, seeds := env(t, "SEED", 1), env(t, "SEEDS", 20)
	next := make(chan uint64)
	go func() {
		defer close(next)
		for seed := first; seed < first+seeds; seed++ {
			next <- seed
		}
	}()
	var total tally
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := range next {
				if t.Failed() {
					continue
				}
				runtime.GC() // not inside a history, if GOGC=off
				t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
					got := history(t, seed)
					mu.Lock()
					defer mu.Unlock()
					total.add(got)
				})
			}
		})
	}
	wg.Wait()
	t.Logf("seeds %d to %d: %s", first, first+seeds-1, &total)
}

func env(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q: must be a number", name, text)
	}
	return n
}

// tally is what histories had in them.
type tally struct {
	grants, lost, unlocks, failed, cancelled, purged, requeued, swept, faults, crashes int
}

func (a *tally) add(b tally) {
	a.grants += b.grants
	a.lost += b.lost
	a.unlocks += b.unlocks
	a.failed += b.failed
	a.cancelled += b.cancelled
	a.purged += b.purged
	a.requeued += b.requeued
	a.swept += b.swept
	a.faults += b.faults
	a.crashes += b.crashes
}

func (a *tally) String() string {
	return fmt.Sprintf("%d grants, %d unlocks, %d holds lost, %d unlocks not confirmed, %d waits given up, "+
		"%d entries purged, %d swept, %d queued again, %d faults, %d crashes",
		a.grants, a.unlocks, a.lost, a.failed, a.cancelled, a.purged, a.swept, a.requeued, a.faults, a.crashes)
}

// sim is one history.
type sim struct {
	*testing.T
	*locktest.Ensemble
	seed   uint64
	begun  time.Time
	ttl    time.Duration
	grace  time.Duration
	names  []string
	counts bool            // the machines count how long they sleep
	until  context.Context // ends when the faults end, and with them what clients begin
	served context.Context // ends when somebody has waited for too long

	wg sync.WaitGroup // processes, and clients being closed

	mu     sync.Mutex
	trace  bytes.Buffer
	open   map[string][]held     // holds that nobody unlocked, by name
	last   map[string]lock.Token // the highest token granted, by name
	closed bool                  // no more checks: the history has failed
	tally  tally
}

// held is a hold and the clock of its process.
type held struct {
	*lock.Hold
	clock *simClock
}

// random returns a source of randomness for one part of the history. Each part
// has its own, so that none depends on the order in which others draw.
func (s *sim) random(part string) *rand.Rand {
	return rand.New(rand.NewPCG(s.seed, hash(part)))
}

func hash(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}

// say adds a line to the trace.
func (s *sim) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sayLocked(format, args...)
}

func (s *sim) sayLocked(format string, args ...any) {
	fmt.Fprintf(&s.trace, "%12.6f  %s\n", time.Since(s.begun).Seconds(), fmt.Sprintf(format, args...))
}

func (s *sim) Write(p []byte) (int, error) {
	s.say("%s", bytes.TrimSpace(p))
	return len(p), nil
}

// violated fails the history; s.mu is held.
func (s *sim) violated(format string, args ...any) {
	if s.closed {
		return
	}
	s.closed = true
	s.sayLocked("VIOLATED: "+format, args...)
	s.Errorf("seed %d: "+format, append([]any{s.seed}, args...)...)
}

// history runs the history of one seed.
func history(t *testing.T, seed uint64) (result tally) {
	synctest.Test(t, func(t *testing.T) {
		s := &sim{T: t, seed: seed, begun: time.Now(), open: map[string][]held{}, last: map[string]lock.Token{}}
		r := s.random("setting")
		s.ttl = between(r, 2*time.Second, 12*time.Second).Truncate(time.Millisecond)
		s.grace = between(r, lock.MinGrace, s.ttl/4).Truncate(time.Millisecond)
		s.names = []string{"a", "b/c", "b"}[:1+r.IntN(3)]
		members := []int{1, 1, 3}[r.IntN(3)]
		s.counts = r.IntN(4) > 0
		delays := map[string]*rand.Rand{}
		slow := between(r, 0, 20*time.Millisecond)
		s.Ensemble = locktest.Start(t, locktest.Options{
			Members: members, Seed: seed, ElectionTime: between(r, 0, 3*time.Second),
			Latency: func(label, member string) time.Duration {
				if delays[label] == nil {
					delays[label] = s.random("latency of " + label)
				}
				return time.Microsecond + between(delays[label], 0, slow)
			},
		})
		traces := os.Getenv("TRACE")
		if traces != "" {
			s.Trace(func(e locktest.Event) { s.say("%v", e) })
		}
		defer func() {
			if traces != "" {
				if err := os.WriteFile(filepath.Join(traces, fmt.Sprintf("seed-%d", seed)), s.trace.Bytes(), 0o600); err != nil {
					t.Error(err)
				}
			}
			if t.Failed() {
				t.Logf("the last of the trace of seed %d:\n%s", seed, s.tail(400))
			}
			result = s.tally
		}()
		s.run(r)
	})
	return result
}

func (s *sim) tail(lines int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := strings.Split(s.trace.String(), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func (s *sim) run(r *rand.Rand) {
	var stop context.CancelFunc
	s.until, stop = context.WithTimeout(s.Context(), between(r, 20*time.Second, 90*time.Second))
	defer stop()
	var giveUp context.CancelFunc
	s.served, giveUp = context.WithCancel(s.Context())
	defer giveUp()
	s.say("ttl %v, grace %v, names %q, members %d", s.ttl, s.grace, s.names, len(s.Servers()))

	others := s.raw()
	defer func() {
		others.Close()
		synctest.Wait()
	}()
	foreign := s.foreign(others, r)

	for i := range 2 + r.IntN(5) {
		s.wg.Go(func() { s.process(i) })
	}
	s.wg.Go(s.reap)
	s.faults()
	<-s.until.Done()
	s.say("no more faults, and nothing new")
	s.heal()

	finished := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(finished)
	}()
	select {
	case <-finished:
	case <-time.After(20 * time.Minute):
		s.mu.Lock()
		s.violated("somebody still waits 20 minutes after the last fault")
		s.mu.Unlock()
		giveUp()
		<-finished
	}

	// Everybody is gone. What they left goes by its time and one sweep.
	s.say("everybody is gone")
	time.Sleep(2*s.ttl + s.grace + time.Minute)
	c := s.client("sweeper", s.clock("sweeper"))
	// The first one may be the first to see the leader's epoch.
	for range 2 {
		report, err := s.reaper(c).Sweep(s.Context())
		if err != nil {
			s.Errorf("seed %d: the last sweep: %v", s.seed, err)
		}
		s.mu.Lock()
		s.tally.swept += report.Total.Deleted
		s.mu.Unlock()
		time.Sleep(2*s.ttl + s.grace + time.Minute)
	}
	if err := c.Close(); err != nil {
		s.Errorf("seed %d: close: %v", s.seed, err)
	}
	var left []string
	for _, n := range s.Dump("/locks") {
		if want, ok := foreign[n.Path]; ok {
			if want != string(n.Data) {
				s.Errorf("seed %d: the foreign node %s was changed to %q", s.seed, n.Path, n.Data)
			}
			delete(foreign, n.Path)
		} else if n.Path != "/locks" && n.Path != "/locks/"+znode.EpochMark {
			left = append(left, n.Path)
		}
	}
	if len(left) > 0 || len(foreign) > 0 {
		s.Errorf("seed %d: left behind: %q; foreign nodes gone: %v", s.seed, left, foreign)
	}
}

// foreign makes nodes that are not ours, and returns their data by path.
func (s *sim) foreign(z *zk.Conn, r *rand.Rand) map[string]string {
	nodes := map[string]string{"/locks/stranger": "10.0.0.1", "/locks/stranger/below": "", "/locks/plain": ""}
	acl := zk.WorldACL(zk.PermAll)
	for _, path := range []string{"/locks", "/locks/stranger", "/locks/stranger/below", "/locks/plain"} {
		if _, err := z.Create(path, []byte(nodes[path]), 0, acl); err != nil {
			s.Fatalf("seed %d: create %s: %v", s.seed, path, err)
		}
	}
	entry, err := z.Create("/locks/stranger/"+znode.Prefix(znode.FormatID(r.Uint64()), znode.Exclusive), []byte("garbage"), zk.FlagSequence, acl)
	if err != nil {
		s.Fatal(err)
	}
	nodes[entry] = "garbage"
	return nodes
}

func (s *sim) raw() *zk.Conn {
	z, _, err := zk.Connect(s.Servers()[:1], 30*time.Second, zk.WithDialer(s.Dialer("others")), zk.WithLogInfo(false), zk.WithLogger(silent{}))
	if err != nil {
		s.Fatal(err)
	}
	return z
}

// simClock is the clocks of one process: of a rate and an offset of their own.
type simClock struct {
	mu        sync.Mutex
	start     time.Time
	rate      float64       // of local time to true time
	offset    time.Duration // of the wall clock
	counts    bool          // the time that it sleeps, as Linux does
	suspended time.Duration // true time that the monotonic clock has missed
	asleep    time.Time     // not zero: suspended since
	woke      time.Time     // when it last was not any more
}

func (s *sim) clock(label string) *simClock {
	r := s.random("clock of " + label)
	return &simClock{
		start:  time.Now(),
		rate:   1 + (r.Float64()*600-300)/1e6,
		counts: s.counts,
		offset: between(r, -24*time.Hour, 24*time.Hour),
	}
}

func (c *simClock) now() (mono, wall time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	local := func(d time.Duration) time.Duration { return time.Duration(float64(d) * c.rate) }
	awake := now.Sub(c.start)
	if !c.counts {
		awake -= c.suspended
		if !c.asleep.IsZero() {
			awake -= now.Sub(c.asleep)
		}
	}
	return local(awake), time.Duration(c.start.UnixNano()) + c.offset + local(now.Sub(c.start))
}

func (c *simClock) suspend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asleep = time.Now()
}

func (c *simClock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.suspended += time.Since(c.asleep)
	c.asleep, c.woke = time.Time{}, time.Now()
}

// sleptWithin reports whether the machine sleeps, or did until lately.
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

// client connects a process.
func (s *sim) client(label string, clock *simClock) *lock.Client {
	for {
		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		c, err := lock.Dial(ctx, s.Servers(),
			lock.WithDialer(s.dialer(label)), lock.WithSessionTimeout(max(time.Second, s.ttl/2).Truncate(time.Millisecond)),
			lock.WithTTL(s.ttl), lock.WithGrace(s.grace), lock.WithOwner(label), lock.WithUnlockTimeout(2*s.ttl),
			lock.WithClock(clock.now), lock.WithSeed(s.seed, hash(label)),
			lock.WithLogger(zerolog.New(s).Level(zerolog.InfoLevel).With().Str("client", label).Logger()))
		cancel()
		if err == nil {
			return c
		}
		if errors.Is(err, lock.ErrInvalid) {
			panic(err)
		}
		s.say("%s: dial: %v", label, err)
	}
}

// dialer returns a dialer whose connections set watches again in the order of their
// paths. go-zookeeper has them in a map, so that no history would happen twice.
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

// sortLists sorts each of the lists of strings that the data is made of.
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

func (s *sim) reaper(c *lock.Client) *reaper.Reaper {
	all, err := policy.ParsePattern("**")
	if err != nil {
		s.Fatal(err)
	}
	set, err := policy.NewSet(policy.Policy{
		Name: "all", Match: all, OrphanAfter: time.Second,
		Policy: lock.Policy{TTL: s.ttl, Grace: s.grace},
	})
	if err != nil {
		s.Fatal(err)
	}
	r, err := reaper.New(c, reaper.Options{Policies: set})
	if err != nil {
		s.Fatal(err)
	}
	return r
}

// reap is a reaper that sweeps now and then.
func (s *sim) reap() {
	r := s.random("reaper")
	c := s.client("reaper", s.clock("reaper"))
	sweeps := s.reaper(c)
	for s.pause(r, time.Second, 15*time.Second) {
		report, err := sweeps.Sweep(s.until)
		s.mu.Lock()
		s.tally.swept += report.Total.Deleted
		if report.Total.Deleted > 0 || err != nil {
			s.sayLocked("sweep: %s, %v", report.String(), err)
		}
		s.mu.Unlock()
	}
	s.close("reaper", c)
}

// pause waits for a random time. It reports false when the history is ending.
func (s *sim) pause(r *rand.Rand, least, most time.Duration) bool {
	select {
	case <-time.After(between(r, least, most)):
		return s.until.Err() == nil
	case <-s.until.Done():
		return false
	}
}

// process is one process that is started again whenever it is killed.
func (s *sim) process(i int) {
	for life := 0; s.until.Err() == nil; life++ {
		label := fmt.Sprintf("p%d.%d", i, life)
		r := s.random(label)
		clock := s.clock(label)
		c := s.client(label, clock)
		ctx, kill := context.WithCancelCause(s.until)
		var workers sync.WaitGroup
		for w := range 1 + r.IntN(3) {
			workers.Go(func() { s.worker(ctx, fmt.Sprintf("%s/%d", label, w), c, clock) })
		}
		lives := between(r, 5*time.Second, 90*time.Second)
		end := time.Now().Add(lives)
		for time.Now().Before(end) && s.pause(r, time.Second, 20*time.Second) {
			s.disturb(r, label, clock)
		}
		if killed := s.until.Err() == nil && r.IntN(3) > 0; killed {
			// From here on nobody hears of it. Its holds and waits stay as they are
			// on the servers; what goes on in it nobody sees, so it is closed.
			s.say("%s is killed", label)
			if err := s.Partition(label); err != nil {
				s.Error(err)
			}
			s.mu.Lock()
			s.tally.crashes++
			s.mu.Unlock()
			s.wg.Go(func() {
				kill(errKilled)
				s.close(label, c)
				workers.Wait()
			})
			continue
		}
		workers.Wait()
		kill(nil)
		s.close(label, c)
	}
}

var errKilled = errors.New("killed")

// disturb does something to a process that no server does.
func (s *sim) disturb(r *rand.Rand, label string, clock *simClock) {
	switch r.IntN(4) {
	case 0: // like kill -STOP, or a garbage collection: shorter or longer than its leases
		s.say("%s is stopped", label)
		s.Freeze(label)
		s.pause(r, 0, 2*s.ttl)
		s.say("%s goes on", label)
		s.Thaw(label)
	case 1: // the machine sleeps: its monotonic clock stands still
		s.say("%s is suspended", label)
		clock.suspend()
		s.Freeze(label)
		s.pause(r, 0, 2*s.ttl)
		s.say("%s wakes up", label)
		clock.resume()
		s.Thaw(label)
	case 2:
		d := between(r, -time.Hour, time.Hour)
		if !s.counts {
			d = d.Abs() // set back it would hide that the machine slept, and nothing else tells
		}
		s.say("%s has its wall clock set by %v", label, d)
		clock.step(d)
	}
}

func (s *sim) close(label string, c *lock.Client) {
	stats := c.Stats()
	s.mu.Lock()
	s.tally.purged += int(stats.Purged)
	s.tally.requeued += int(stats.Requeued)
	s.mu.Unlock()
	if err := c.Close(); err != nil {
		s.say("%s: close: %v", label, err)
	}
}

// worker is one goroutine of a process, which takes locks and gives them back.
func (s *sim) worker(ctx context.Context, label string, c *lock.Client, clock *simClock) {
	r := s.random(label)
	for ctx.Err() == nil {
		name := s.names[r.IntN(len(s.names))]
		var opts []lock.LockOption
		if r.IntN(6) == 0 {
			opts = append(opts, lock.WithoutRenewal())
		}
		m := c.Mutex(name, opts...)
		// Whoever waits without end must be served, also after the last fault.
		waits, cancel := context.WithCancel(s.served)
		killed := context.AfterFunc(ctx, func() {
			if errors.Is(context.Cause(ctx), errKilled) {
				cancel()
			}
		})
		var hold *lock.Hold
		var err error
		switch r.IntN(4) {
		case 0:
			hold, err = m.TryLock(ctx)
		case 1:
			limited, cancel := context.WithTimeout(ctx, between(r, 0, 2*s.ttl))
			hold, err = m.Lock(limited)
			cancel()
		default:
			hold, err = m.Lock(waits)
		}
		killed()
		cancel()
		if err != nil {
			s.refused(label, name, err)
			s.pause(r, 0, s.ttl/4)
			continue
		}
		s.granted(label, hold, clock)
		s.work(ctx, r, label, hold)
		s.unlock(label, hold)
		if r.IntN(2) == 0 {
			s.pause(r, 0, s.ttl/2)
		}
	}
}

// work has a hold for a while.
func (s *sim) work(ctx context.Context, r *rand.Rand, label string, hold *lock.Hold) {
	most := []time.Duration{0, 10 * time.Millisecond, s.ttl / 2, 2 * s.ttl}[r.IntN(4)]
	if most == 0 {
		return
	}
	end := time.Now().Add(between(r, 0, most))
	for time.Now().Before(end) {
		select {
		case <-hold.Done():
			s.say("%s: %s ends: %v", label, hold.Name(), hold.Err())
			return
		case <-ctx.Done():
			return
		case <-time.After(min(time.Until(end), between(r, 0, s.ttl))):
		}
		if r.IntN(3) == 0 {
			ttl := between(r, lock.MinTTL, 2*s.ttl).Truncate(time.Millisecond)
			limited, cancel := context.WithTimeout(ctx, between(r, 0, s.ttl))
			err := hold.Extend(limited, ttl)
			cancel()
			s.say("%s: %s extended to %v: %v", label, hold.Name(), ttl, err)
		}
		s.check()
	}
}

// granted checks what must be true when somebody gets a hold.
func (s *sim) granted(label string, hold *lock.Hold, clock *simClock) {
	name := hold.Name()
	first := s.first(name)
	valid := hold.Valid()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sayLocked("%s: has %s, token %v, for %v", label, name, hold.Token(), hold.Remaining())
	s.tally.grants++
	for _, other := range s.open[name] {
		switch {
		case other.Valid():
			s.violated("%s has %s by token %v while token %v is valid", label, name, hold.Token(), other.Token())
		case other.Err() == nil && !other.clock.sleptWithin(s.toWake()):
			// A machine that sleeps cannot be told, and once awake finds out in its time.
			s.violated("%s has %s by token %v before the holder of token %v was told", label, name, hold.Token(), other.Token())
		}
	}
	if valid && first != hold.EntryPath() {
		s.violated("%s has %s by %s, out of turn: %s is first", label, name, hold.EntryPath(), first)
	}
	if last := s.last[name]; hold.Token().Compare(last) <= 0 {
		s.violated("%s has %s by token %v, after token %v", label, name, hold.Token(), last)
	}
	s.last[name] = hold.Token()
	s.open[name] = append(s.open[name], held{hold, clock})
}

// first is the entry of a lock that was queued first, of those there are. It does
// not ask the library.
func (s *sim) first(name string) string {
	path, first, least := "/locks/"+name, "", ""
	for _, n := range s.Dump(path) {
		node, below := strings.CutPrefix(n.Path, path+"/")
		if !below || strings.Contains(node, "/") || !strings.Contains(node, "-lock-") {
			continue
		}
		if seq := node[len(node)-10:]; first == "" || seq < least {
			first, least = n.Path, seq
		}
	}
	return first
}

// toWake is how long after it slept a machine may take to end a hold's context.
func (s *sim) toWake() time.Duration {
	if s.counts {
		return 1100 * time.Millisecond
	}
	return s.ttl // as long as the wall clock can hold it in doubt
}

// check checks what must be true at any time.
func (s *sim) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, holds := range s.open {
		var valid []lock.Token
		for _, h := range holds {
			if h.Valid() {
				valid = append(valid, h.Token())
			}
		}
		if len(valid) > 1 {
			s.violated("%s is held by tokens %v at once", name, valid)
		}
	}
}

// refused checks an error to take a lock.
func (s *sim) refused(label, name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sayLocked("%s: no %s: %v", label, name, err)
	s.tally.cancelled++
	for _, expected := range []error{lock.ErrHeld, context.Canceled, context.DeadlineExceeded, lock.ErrClosed} {
		if errors.Is(err, expected) {
			return
		}
	}
	s.violated("%s: lock %s: %v", label, name, err)
}

func (s *sim) unlock(label string, hold *lock.Hold) {
	s.mu.Lock()
	overtaken := s.last[hold.Name()] != hold.Token()
	s.mu.Unlock()
	err := hold.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sayLocked("%s: unlocks %s, token %v: %v", label, hold.Name(), hold.Token(), err)
	name := hold.Name()
	s.open[name] = slices.DeleteFunc(s.open[name], func(h held) bool { return h.Hold == hold })
	var unconfirmed *lock.UnlockError
	switch {
	case err == nil:
		s.tally.unlocks++
		if overtaken {
			s.violated("%s is told that it unlocked %s, but its token %v was followed by %v", label, name, hold.Token(), s.last[name])
		}
	case errors.Is(err, lock.ErrTaken), errors.Is(err, lock.ErrRemoved):
		s.violated("%s: nobody does that here: %v", label, err)
	case errors.Is(err, lock.ErrLost):
		s.tally.lost++
	case errors.As(err, &unconfirmed), errors.Is(err, lock.ErrClosed):
		s.tally.failed++
	default:
		s.violated("%s: unlock %s: %v", label, name, err)
	}
}

// faults has things happen to the network and the servers until the history ends.
func (s *sim) faults() {
	r := s.random("faults")
	s.wg.Go(func() {
		members := s.Servers()
		for s.pause(r, 50*time.Millisecond, 4*time.Second) {
			label := s.anybody(r)
			member := members[r.IntN(len(members))]
			var err error
			kind := r.IntN(10)
			switch kind {
			case 0, 1:
				s.say("fault: %s is cut", label)
				s.Cut(label)
			case 2, 3:
				s.say("fault: the sessions of %s expire", label)
				s.ExpireLabel(label)
			case 4:
				s.say("fault: %s is partitioned", label)
				if err = s.Partition(label, member); err == nil {
					s.pause(r, 0, 2*s.ttl)
					s.Heal(label)
					s.say("fault: %s is healed", label)
				}
			case 5:
				d := between(r, -s.grace*2/5, s.grace*2/5)
				s.say("fault: the clock of %s is %v off", member, d)
				err = s.SetClock(member, d)
			case 6:
				s.say("fault: %s stops", member)
				if err = s.Stop(member); err == nil {
					s.pause(r, 0, s.ttl)
					err = s.Start(member)
					s.say("fault: %s starts", member)
				}
			case 7:
				d := between(r, 0, 2*time.Second)
				s.say("fault: %s lags by %v", member, d)
				if lagging := s.Lag(member, d); lagging != nil && len(members) > 1 && s.Leader() != member {
					err = lagging
				}
			case 8, 9:
				s.lose(r)
			}
			if err != nil {
				s.Errorf("seed %d: fault %d: %v", s.seed, kind, err)
			}
			s.mu.Lock()
			s.tally.faults++
			s.mu.Unlock()
		}
	})
}

// anybody is the label of a process that is alive, or was.
func (s *sim) anybody(r *rand.Rand) string {
	var labels []string
	for label := range s.Requests() {
		if label != "others" {
			labels = append(labels, label)
		}
	}
	slices.Sort(labels)
	if len(labels) == 0 {
		return "nobody"
	}
	return labels[r.IntN(len(labels))]
}

// lose has requests and replies lost or late for a while. Whether one is, is
// drawn from its label and number, not from the order of requests.
func (s *sim) lose(r *rand.Rand) {
	odds := 1 + r.IntN(10) // in a hundred
	salt := r.Uint64()
	s.say("fault: %d %% of requests are lost or late", odds)
	s.Intercept(func(q locktest.Request) locktest.Fault {
		if q.Label == "others" {
			return locktest.Fault{}
		}
		r := rand.New(rand.NewPCG(salt, hash(fmt.Sprint(q.Label, q.Number))))
		if r.IntN(100) >= odds {
			return locktest.Fault{}
		}
		switch r.IntN(6) {
		case 0, 1:
			return locktest.Fault{Drop: locktest.BeforeApply}
		case 2, 3:
			return locktest.Fault{Drop: locktest.AfterApply}
		case 4:
			return locktest.Fault{Delay: between(r, 0, s.ttl)}
		}
		return locktest.Fault{DelayReply: between(r, 0, s.ttl)}
	})
	s.pause(r, time.Second, 20*time.Second)
	s.Intercept(nil)
	s.say("fault: no more requests are lost")
}

// heal undoes what faults left behind.
func (s *sim) heal() {
	s.Intercept(nil)
	for _, member := range s.Servers() {
		_ = s.Lag(member, 0) // the leader does not lag
	}
}
