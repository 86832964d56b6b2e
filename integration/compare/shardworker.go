package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
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

// shardWorker is the work of a process.
type shardWorker struct {
	client
	crew.Teller
	end context.CancelCauseFunc // ends the process's work
}

// Kinds of records of a process and a shard. A write has a claim if the shard was surely owned after it.
const (
	opBegin = "begin" // the process begins to work on the shard, and writes
	opWrite = "write"
	opEnd   = "end" // it does not work on the shard any more
)

func ownShards(c client) error {
	ctx, end := context.WithCancelCause(crew.UntilInputEnds())
	w := &shardWorker{c, crew.Teller{Worker: c.name()}, end}
	i := slices.IndexFunc(shardPeers, func(p shardPeer) bool { return p.name == c.System })
	if err := shardPeers[i].work(w, ctx); ctx.Err() == nil {
		return err
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// own works on a shard until ctx ends: it writes once a second. If a write fails, all work of the
// process ends. owned is nil if it is not known for how long the shard is owned.
func (w *shardWorker) own(ctx context.Context, index int, token string, owned interface{ Remaining() time.Duration }) {
	tell := func(op string) {
		r := crew.Record{Op: op, Lock: strconv.Itoa(index), Token: token, Call: monotonic.Now()}
		if owned != nil {
			r.Claim = monotonic.Ask(owned)
		}
		if err := w.Tell(r); err != nil {
			w.end(err)
		}
	}
	tell(opBegin)
	for wait.Sleep(ctx, time.Second) == nil {
		tell(opWrite)
	}
	tell(opEnd)
}

func (w *shardWorker) holdfast(ctx context.Context) error {
	locks, err := lock.Dial(ctx, w.Servers, lock.WithOwner(w.Worker), lock.WithTTL(shardTTL), lock.WithGrace(shardGrace), lock.WithSessionTimeout(shardTTL))
	if err != nil {
		return err
	}
	defer locks.Close()
	return shard.Run(ctx, locks, "race", shards, func(ctx context.Context, s shard.Owned) error {
		w.own(ctx, s.Index, s.Token().String(), s)
		return nil
	}, shard.Options{})
}

// members is the node below which the members of the other team are.
const members = "/members"

// memberList shares the shards as services do without locks: the owner of a shard is the member with
// the highest hash of its name and the shard.
func (w *shardWorker) memberList(ctx context.Context) error {
	z, events, err := zkserver.Connect(ctx, w.Servers, shardTTL, nil)
	if err != nil {
		return err
	}
	defer z.Close()
	running := map[int]context.CancelFunc{}
	var functions sync.WaitGroup
	defer functions.Wait()
	defer func() {
		for _, stop := range running {
			stop()
		}
	}()
	for {
		list, _, changed, err := w.list(z)
		var retry <-chan time.Time
		if err != nil {
			retry = time.After(200 * time.Millisecond)
		} else {
			w.follow(ctx, owned(list, w.Worker), running, &functions)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-retry:
		case <-events: // maybe of a new session, which has no node yet
		}
	}
}

// list returns the members, this one included.
func (w *shardWorker) list(z *zk.Conn) ([]string, *zk.Stat, <-chan zk.Event, error) {
	if _, err := z.Create(members, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
		return nil, nil, nil, err
	}
	if _, err := z.Create(members+"/"+w.Worker, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
		return nil, nil, nil, err
	}
	return z.ChildrenW(members)
}

// follow stops the functions of shards that are not the member's any more, and starts those of new
// ones.
func (w *shardWorker) follow(ctx context.Context, mine []int, running map[int]context.CancelFunc, functions *sync.WaitGroup) {
	for index, stop := range running {
		if !slices.Contains(mine, index) {
			stop()
			delete(running, index)
		}
	}
	for _, index := range mine {
		if running[index] != nil {
			continue
		}
		ctx, stop := context.WithCancel(ctx)
		running[index] = stop
		functions.Go(func() { w.own(ctx, index, "", nil) })
	}
}

// owned returns the shards of a member by rendezvous hashing.
func owned(list []string, name string) (mine []int) {
	for index := range shards {
		hash := func(member string) string {
			sum := sha256.Sum256(fmt.Appendf(nil, "%d/%s", index, member))
			return string(sum[:])
		}
		if name == slices.MaxFunc(list, func(a, b string) int { return cmp.Compare(hash(a), hash(b)) }) {
			mine = append(mine, index)
		}
	}
	return mine
}
