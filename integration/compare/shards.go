package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/shard"
)

const (
	processes  = 8 // of each system
	shards     = 256
	shardTTL   = 10 * time.Second // also of the member list's sessions
	shardGrace = time.Second
)

var shardPeers = []peer{
	{name: holdfast, servers: startZooKeeper, work: lockShards},
	{name: "rendezvous hashing over a member list", work: memberList},
}

// Kinds of records of a process and a shard, or of a run of a job. A write has a claim if the shard was
// surely owned after it.
const (
	opBegin = "begin" // the process begins to work on the shard, and writes
	opWrite = "write"
	opEnd   = "end" // it does not work on the shard any more
)

// workOn works on a shard until ctx ends: it writes once a second. owned is nil if it is not known for
// how long the shard is owned.
func (w *worker) workOn(ctx context.Context, index int, token string, owned interface{ Remaining() time.Duration }) {
	note := func(op string) {
		r := crew.Record{Op: op, Lock: strconv.Itoa(index), Token: token, Call: monotonic.Now()}
		if owned != nil {
			r.Claim = monotonic.Ask(owned)
		}
		w.note(r)
	}
	note(opBegin)
	for wait.Sleep(ctx, time.Second) == nil {
		note(opWrite)
	}
	note(opEnd)
}

// lockShards shares the shards by package shard.
func lockShards(ctx context.Context, w *worker) error {
	locks, err := lock.Dial(ctx, w.Servers, lock.WithOwner(w.Worker), lock.WithTTL(shardTTL), lock.WithGrace(shardGrace), lock.WithSessionTimeout(shardTTL))
	if err != nil {
		return err
	}
	defer locks.Close()
	return shard.Run(ctx, locks, "race", shards, func(ctx context.Context, s shard.Owned) error {
		w.workOn(ctx, s.Index, s.Token().String(), s)
		return nil
	}, shard.Options{})
}

// members is the node below which the members are.
const members = "/members"

// memberList shares the shards as services do without locks: the owner of a shard is the member with
// the highest hash of its name and the shard.
func memberList(ctx context.Context, w *worker) error {
	z, _, err := zkserver.Connect(ctx, w.Servers, shardTTL, nil)
	if err != nil {
		return err
	}
	defer z.Close()
	var stops [shards]context.CancelFunc // of those at work
	var working sync.WaitGroup
	for ctx.Err() == nil {
		list, changed, err := w.join(z)
		if errors.Is(err, zk.ErrNoAuth) {
			return err
		}
		if err != nil || !slices.Contains(list, w.Worker) {
			continue // the next request waits for a connection, maybe of a new session, which has no node yet
		}
		for i := range stops {
			switch owner := ownerOf(i, list) == w.Worker; {
			case owner && stops[i] == nil:
				own, stop := context.WithCancel(ctx)
				stops[i] = stop
				working.Go(func() { w.workOn(own, i, "", nil) })
			case !owner && stops[i] != nil:
				stops[i]()
				stops[i] = nil
			}
		}
		select {
		case <-ctx.Done():
		case <-changed: // also when the session ends
		}
	}
	working.Wait()
	return nil
}

// join makes this process a member, if it is none, and lists the members.
func (w *worker) join(z *zk.Conn) (list []string, changed <-chan zk.Event, err error) {
	_, err = z.Create(members, nil, 0, zk.WorldACL(zk.PermAll))
	if err == nil || errors.Is(err, zk.ErrNodeExists) {
		_, err = z.Create(members+"/"+w.Worker, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	}
	if err == nil || errors.Is(err, zk.ErrNodeExists) {
		list, _, changed, err = z.ChildrenW(members)
	}
	return list, changed, err
}

// ownerOf returns the owner of a shard by rendezvous hashing.
func ownerOf(index int, list []string) string {
	hash := func(member string) string {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d/%s", index, member))
		return string(sum[:])
	}
	return slices.MaxFunc(list, func(a, b string) int { return cmp.Compare(hash(a), hash(b)) })
}

// sharesDue is what is wrong until each shard has one owner, and Holdfast's processes have equal shares.
func sharesDue(s *system, p period) (b breaches) {
	atWork, own := judgeHistory(s.History.All(), p.settled, p.settled).shares()
	wrong := len(slices.DeleteFunc(atWork, func(n int) bool { return n == 1 }))
	b.add(wrong > 0, "at the end %d shards have no owner or several", wrong)
	b.add(s.ours() && (len(own) < processes || most(own) > shards/processes), "at the end the shares are %v", own)
	return b
}

var shardHead = []string{fmt.Sprintf("%d shards, %d processes", shards, processes), "writes", "of a past owner: refused", "accepted", "refused in time",
	"two owners, shard seconds", "none, shard seconds", "longest", "moves", "fullest of the mean"}

func judgeShards(s *system, p period) (rows [][]any, broken breaches) {
	l := judgeHistory(s.History.All(), p.begun, p.ended)
	broken.add(l.inTime > 0 || l.accepted > 0, "%d writes of owners were refused, and %d of past owners accepted", l.inTime, l.accepted)
	return [][]any{{s.Name, l.writes, l.refused, l.accepted, l.inTime, fmt.Sprintf("%.3f", l.double.Seconds()), fmt.Sprintf("%.1f", l.none.Seconds()),
		fmt.Sprintf("%.1f s", l.longest.Seconds()), l.moves, fmt.Sprintf("%.2f", l.fullness/time.Duration(p.ended-p.begun).Seconds())}}, broken
}

// shardFigures are what the history of a system shows, between two moments.
type shardFigures struct {
	writes   int
	refused  int           // writes of a past owner that the store refuses by their tokens
	accepted int           // writes of a past owner, while its successor works, that the store cannot refuse
	inTime   int           // refused writes of a process that surely owned the shard
	double   time.Duration // with two processes at work, summed over the shards
	none     time.Duration // with none, summed over the shards
	longest  time.Duration // the longest time without one, of any shard
	moves    int           // shards that went to another process
	fullness float64       // seconds, each times the share of the process with the most shards, of the mean share
}

// ledger is what is known at a record of the history.
type ledger struct {
	shardFigures
	now    monotonic.Instant
	shards [shards]struct {
		owner   string        // the process that began last
		highest string        // token
		none    time.Duration // for how long no process has been at work
	}
	working map[string]map[int]bool // shards, by process
	stopped map[string]bool         // processes: they do not work
}

// judgeHistory returns what a history shows between two moments, and what is known at the second one. The
// order of its writes in time is that of the store.
func judgeHistory(records []*crew.Record, from, to monotonic.Instant) *ledger {
	l := &ledger{working: map[string]map[int]bool{}, stopped: map[string]bool{}}
	sorted := slices.SortedStableFunc(slices.Values(records), func(a, b *crew.Record) int { return cmp.Compare(a.Call, b.Call) })
	for _, end := range []monotonic.Instant{from - 1, to} {
		l.shardFigures = shardFigures{}
		for len(sorted) > 0 && sorted[0].Call <= end {
			l.pass(sorted[0].Call)
			l.record(sorted[0])
			sorted = sorted[1:]
		}
		l.pass(end)
	}
	return l
}

// shares counts the processes at work on each shard, and the shards of each process.
func (l *ledger) shares() (atWork []int, own map[string]int) {
	atWork, own = make([]int, shards), map[string]int{}
	for process, mine := range l.working {
		for i := range mine {
			if !l.stopped[process] {
				own[process]++
				atWork[i]++
			}
		}
	}
	return atWork, own
}

// most returns the number of shards of the process with the most.
func most(own map[string]int) int { return slices.Max(append(slices.Collect(maps.Values(own)), 0)) }

// pass adds the time up to a moment.
func (l *ledger) pass(at monotonic.Instant) {
	atWork, own := l.shares()
	d, all := time.Duration(at-l.now), 0
	l.now = at
	for i, n := range atWork {
		s := &l.shards[i]
		all += n
		switch {
		case n > 1:
			l.double += d
			fallthrough
		case n == 1:
			s.none = 0
		case s.owner != "": // otherwise the race has not begun
			l.none += d
			s.none += d
			l.longest = max(l.longest, s.none)
		}
	}
	if all > 0 {
		l.fullness += d.Seconds() * float64(most(own)*len(own)) / float64(all)
	}
}

func (l *ledger) record(r *crew.Record) {
	i, _ := strconv.Atoi(r.Lock)
	switch r.Op {
	case crew.OpKilled:
		delete(l.working, r.Worker)
	case crew.OpStopped, crew.OpContinued:
		l.stopped[r.Worker] = r.Op == crew.OpStopped
	case opEnd:
		delete(l.working[r.Worker], i)
	case opBegin:
		if l.shards[i].owner != r.Worker {
			l.moves++
		}
		if l.working[r.Worker] == nil {
			l.working[r.Worker] = map[int]bool{}
		}
		l.working[r.Worker][i], l.shards[i].owner = true, r.Worker
		l.write(i, r)
	case opWrite:
		l.write(i, r)
	}
}

func (l *ledger) write(i int, r *crew.Record) {
	s := &l.shards[i]
	l.writes++
	switch {
	case r.Token != "" && r.Token < s.highest:
		if l.refused++; r.Claim != nil {
			l.inTime++
		}
	case s.owner != r.Worker && l.working[s.owner][i] && !l.stopped[s.owner]:
		l.accepted++
	}
	s.highest = max(s.highest, r.Token)
}
