// Simulation: random histories of a group in virtual time.

package shard_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/audited"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/internal/bubble"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/shard"
	"github.com/holdfast-io/holdfast/lock/znode"
)

const (
	simTTL   = 9 * time.Second
	simGrace = time.Second
	// bound is the longest time without an owner once no more faults come: a dead entry blocks for TTL
	// and grace, a third of the TTL longer after an outage of the judge, and anew after a change of
	// ZooKeeper's leader; first that of the candidate and then that of the shard, if it was renewed
	// later. Then comes the plan.
	bound = 2*(simTTL*4/3+simGrace) + 20*time.Second
)

// TestShards runs random histories: 30, or as many as the environment variable HISTORIES says, from
// the seed in SEED on.
func TestShards(t *testing.T) {
	histories, seed := 30, rand.Uint64N(1_000_000)
	if n, err := strconv.Atoi(os.Getenv("HISTORIES")); err == nil {
		histories = n
	}
	if n, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64); err == nil {
		seed = n
	}
	for n := range histories {
		seed := seed + uint64(n)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			bubble.Run(t, locktest.Options{Members: 3, ElectionTime: 300 * time.Millisecond, Seed: seed}, 5*time.Minute, func(b *bubble.World) {
				random := rand.New(rand.NewPCG(seed, 0))
				h := &history{world: newWorld(b, 1+random.IntN(20)), random: random, alive: map[string]*process{}, litter: map[string]bool{}}
				audited.New(b.Ensemble, simGrace, func(v audit.Violation) { b.Errorf("audit: %v", v) })
				h.run()
			})
		})
	}
}

// history is a random history of a group.
type history struct {
	*world
	random *rand.Rand
	alive  map[string]*process // by label
	number int                 // of processes until now
	mended time.Time           // when the last fault ended
	dead   map[string]bool     // processes that were killed: what their goroutines do does not count
	litter map[string]bool     // owners of entries that stay: processes that could not reach ZooKeeper at their end
}

// process is a replica: a client that runs a member.
type process struct {
	label  string
	owner  string // of its locks
	client *lock.Client
	weight int
	cancel context.CancelFunc
	ended  chan any // error or panic of Run
	hangs  bool     // its functions do not return for a while
	poison bool     // its functions panic
	away   bool     // it cannot reach ZooKeeper
}

func (h *history) chance(percent int) bool { return h.random.IntN(100) < percent }

func (h *history) seconds(most int) time.Duration {
	return time.Duration(h.random.Int64N(int64(most) * int64(time.Second)))
}

func (h *history) run() {
	for _, server := range h.Servers() {
		iferr.Fatal(h, h.SetClock(server, h.seconds(7200)-time.Hour))
	}
	for range 1 + h.random.IntN(4) {
		h.join("")
		time.Sleep(h.seconds(3))
	}
	h.mended = time.Now()
	h.settle()
	for range 3 {
		if h.chance(40) {
			h.orderly()
			continue
		}
		h.faults()
		h.settle()
	}
	for _, label := range slices.Sorted(maps.Keys(h.alive)) {
		h.alive[label].cancel()
	}
	for _, p := range h.alive {
		<-p.ended
	}
	h.Until("nothing is left", h.clean)
}

// clean reports whether the reaper has nothing to delete but the group's ancestor, and the locks that still have
// an entry of a process that could not reach ZooKeeper at its end.
func (h *history) clean() bool {
	nodes, stays := h.Dump("/locks/"+group), map[string]bool{}
	excused := func(n locktest.Node) bool {
		r, err := znode.DecodeRecord(n.Data)
		return err == nil && h.litter[r.Owner]
	}
	for _, n := range nodes {
		if excused(n) {
			stays[path.Dir(n.Path)] = true
		}
	}
	return !slices.ContainsFunc(nodes[min(1, len(nodes)):], func(n locktest.Node) bool {
		if _, entry := znode.Parse(path.Base(n.Path)); entry {
			return !excused(n)
		}
		return !stays[n.Path] && !stays[path.Dir(n.Path)] // a lock, or its anchor
	})
}

// join starts a process, of a new host if host is "".
func (h *history) join(host string) *process {
	h.number++
	h.tell("p%d joins as %q", h.number, host)
	p := &process{label: fmt.Sprint("p", h.number), owner: host, weight: 1, ended: make(chan any, 1)}
	if h.chance(20) {
		p.weight = 1 + h.random.IntN(3)
	}
	if host == "" {
		p.owner = p.label
	}
	p.client = h.dial(p.label, lock.WithTTL(simTTL), lock.WithGrace(simGrace), lock.WithOwner(p.owner))
	ctx, cancel := context.WithCancel(h.Ctx)
	p.cancel = cancel
	h.Cleanup(cancel)
	slow := time.Duration(0)
	if h.chance(30) {
		slow = h.seconds(2)
	}
	go func() {
		defer func() {
			if v := recover(); v != nil {
				p.ended <- v
			}
		}()
		p.ended <- shard.Run(ctx, p.client, group, len(h.shards), h.function(p, slow), h.options(shard.Options{Weight: p.weight, DrainTimeout: 10 * time.Second}))
	}()
	h.alive[p.label] = p
	return p
}

func (h *history) function(p *process, slow time.Duration) shard.Func {
	fails := map[int]bool{}
	return func(ctx context.Context, s shard.Owned) error {
		h.mu.Lock()
		dead, failed := h.dead[p.label], fails[s.Index]
		fails[s.Index] = s.Index%7 == 3
		h.mu.Unlock()
		if dead {
			<-ctx.Done()
			return nil
		}
		c := h.began(p.label, ctx, s)
		defer h.ended(c)
		if s.Index%7 == 3 && !failed {
			return errors.New("this one fails the first time")
		}
		for {
			select {
			case <-time.After(time.Second):
				h.mu.Lock()
				poison := p.poison
				h.mu.Unlock()
				if poison {
					panic("poison")
				}
				continue
			case <-ctx.Done():
			}
			break
		}
		time.Sleep(slow)
		for range 40 {
			h.mu.Lock()
			hangs := p.hangs
			h.mu.Unlock()
			if !hangs {
				break
			}
			time.Sleep(time.Second)
		}
		return nil
	}
}

// some returns a living process; nil if there is none.
func (h *history) some() *process {
	labels := slices.Sorted(maps.Keys(h.alive))
	if len(labels) == 0 {
		return nil
	}
	return h.alive[labels[h.random.IntN(len(labels))]]
}

// leave ends a process in order.
func (h *history) leave(p *process) {
	p.cancel()
	delete(h.alive, p.label)
	h.litter[p.owner] = p.away
	h.tell("%s leaves", p.label)
}

// kill ends a process at once, as far as others can tell.
func (h *history) kill(p *process) {
	iferr.Fatal(h, h.Partition(p.label))
	delete(h.alive, p.label)
	h.litter[p.owner] = true
	h.tell("%s is killed", p.label)
	h.mu.Lock()
	if h.dead == nil {
		h.dead = map[string]bool{}
	}
	h.dead[p.label] = true
	h.mu.Unlock()
	h.forget(p.label)
	p.cancel()
}

// forget drops the functions of a killed process.
func (h *history) forget(member string) {
	h.mu.Lock()
	calls := []*call{}
	for i := range h.shards {
		for _, c := range h.shards[i].calls {
			if c.member == member {
				calls = append(calls, c)
			}
		}
	}
	h.mu.Unlock()
	for _, c := range calls {
		h.ended(c)
	}
}

// living mends a process, unless it was killed meanwhile.
func (h *history) living(p *process, mend func(label string)) {
	if !h.dead[p.label] {
		mend(p.label)
	}
}

// set changes a process's functions for a while.
func (h *history) set(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// faults does bad things for up to a minute, and mends what can be mended.
func (h *history) faults() {
	var mend []func()
	for range 1 + h.random.IntN(5) {
		if p := h.some(); p != nil {
			mend = append(mend, h.fault(p))
		} else {
			h.join("")
		}
		time.Sleep(h.seconds(15))
	}
	for _, m := range mend {
		if m != nil {
			m()
		}
	}
	h.mended = time.Now()
	h.tell("mended")
	time.Sleep(simTTL*4/3 + simGrace + 10*time.Second) // until then a plan may have members that are dead
	if len(h.alive) == 0 {
		h.join("")
	}
}

func (h *history) fault(p *process) (mend func()) {
	n := h.random.IntN(13)
	h.tell("fault %d of %s", n, p.label)
	switch n {
	case 0, 1:
		h.kill(p)
	case 2: // a crash loop
		for range 1 + h.random.IntN(3) {
			looping := h.join("looping")
			time.Sleep(h.seconds(20))
			h.kill(looping)
			time.Sleep(h.seconds(5))
		}
	case 3:
		iferr.Fatal(h, h.Partition(p.label))
		p.away = true
		return func() { p.away = false; h.living(p, h.Heal) }
	case 4:
		h.Freeze(p.label)
		p.away = true
		return func() { p.away = false; h.living(p, h.Thaw) }
	case 5:
		h.Cut(p.label)
	case 6:
		h.ExpireLabel(p.label)
	case 7:
		if stopped := h.StopLeader(); stopped != "" {
			time.Sleep(h.seconds(10))
			iferr.Fatal(h, h.Start(stopped))
		}
	case 8:
		h.set(func() { p.hangs = true })
		return func() { h.set(func() { p.hangs = false }) }
	case 9:
		if len(h.alive) > 1 {
			h.set(func() { p.poison = true })
			delete(h.alive, p.label)
			if time.Sleep(5 * time.Second); len(p.ended) == 0 { // it owns nothing now, and would panic later
				h.kill(p)
			}
		}
	case 10: // its candidacy, or a shard, is force-released
		name := group + "/plan"
		if h.chance(50) {
			name = fmt.Sprintf("%s/%d", group, h.random.IntN(len(h.shards)))
		}
		if path := h.contender(name); path != "" {
			ctx, cancel := context.WithTimeout(h.Ctx, 5*time.Second)
			defer cancel()
			_, _ = admin.New(p.client).Break(ctx, path, breaker) // it may be gone
		}
	case 11:
		h.join("")
	case 12:
		h.leave(p)
	}
	return nil
}

// orderly has members join or leave without faults: each shard moves at most once, and has an owner
// at all times.
func (h *history) orderly() {
	before := h.owners()
	if len(before) < len(h.alive) && len(h.shards) >= len(h.alive) {
		return // a member of a crash loop's host waits
	}
	h.moves()
	h.mended = time.Now()
	p := h.some()
	switch {
	case len(h.alive) > 1 && h.chance(40):
		h.leave(p)
	case h.chance(50): // a deploy
		h.join("")
		time.Sleep(h.seconds(4))
		h.leave(p)
	default:
		h.join("")
	}
	moves, gap := h.settle()
	most := 0
	for member, owns := range h.owners() {
		most += max(0, owns-before[member])
	}
	if moves > most {
		h.Errorf("%d moves, and %d were necessary", moves, most)
	} else if gap > 4*time.Second { // slow functions of 2 s, and a pause of 1 s
		h.Errorf("a shard had no owner for %v", gap)
	}
}

// settle waits until all shards have owners and the shares are even, and checks that this stays so. It returns
// the moves until then, and the longest gap.
func (h *history) settle() (moves int, gap time.Duration) {
	h.Helper()
	begun := h.mended
	for h.ownerless() >= 0 {
		if time.Sleep(100 * time.Millisecond); time.Since(begun) > bound {
			h.Fatalf("shard %d has no owner %v after the last fault; owners %v\n%s", h.ownerless(), bound, h.owners(), h.log())
		}
	}
	for {
		for !h.even() {
			if time.Sleep(time.Second); time.Since(begun) > 10*time.Minute { // members of a crash loop's host wait
				h.Fatalf("the shares stay uneven: %v\n%s", h.owners(), h.log())
			}
		}
		h.tell("settled")
		waits := len(h.owners()) < len(h.alive) // a member without shards: the plan changes when it need not wait any more
		time.Sleep(5 * time.Second)
		n, longest := h.moves()
		moves, gap = moves+n, max(gap, longest)
		time.Sleep(20 * time.Second)
		if n, longest = h.moves(); n == 0 && longest <= 2*time.Second {
			return moves, gap
		} else if !waits || time.Since(begun) > 10*time.Minute {
			h.Errorf("%d moves, and %v without an owner, although nothing happens", n, longest)
			return moves, gap
		}
	}
}

func (h *history) log() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.logs.String()
}

// ownerless returns a shard without an owner, or -1. One whose function failed a moment ago has one.
func (h *history) ownerless() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.shards {
		t := &h.shards[i]
		owned := !t.freed.IsZero() && time.Since(t.freed) < 2*time.Second && t.last != (lock.Token{})
		for _, c := range t.calls {
			owned = owned || c.hold.Remaining() > 0
		}
		if !owned {
			return i
		}
	}
	return -1
}

// even reports whether each member has its share.
func (h *history) even() bool {
	owners, total, owned := h.owners(), 0, 0
	for _, p := range h.alive {
		total += p.weight
	}
	for _, p := range h.alive {
		owned += owners[p.label]
		if d := owners[p.label]*total - len(h.shards)*p.weight; d <= -total || d >= total {
			return false
		}
	}
	return owned == len(h.shards)
}
