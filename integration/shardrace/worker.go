package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/shard"
)

// workerEnv is the environment variable that makes this program a worker. Its value is a worker in
// JSON.
const workerEnv = "HOLDFAST_SHARDRACE_WORKER"

// worker is a process of a team. It ends when its standard input ends.
type worker struct {
	Ours      bool
	Name      string
	ZooKeeper []string
	Log       string

	log *os.File
}

// Words of the log. A line has the word, the monotonic time, the shard, the process, the token or -,
// and 1 if its last write of the shard was surely in time.
const (
	wordBegin     = "begin" // the process begins to work on the shard, and writes
	wordWrite     = "write"
	wordEnd       = "end" // it does not work on the shard any more
	wordKilled    = "killed"
	wordStopped   = "stopped"
	wordContinued = "continued"
)

func work(config string) error {
	var w worker
	err := json.Unmarshal([]byte(config), &w)
	if err != nil {
		return err
	}
	if w.log, err = os.OpenFile(w.Log, os.O_APPEND|os.O_WRONLY, 0); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if w.Ours {
		return w.holdfast(ctx)
	}
	return w.memberList(ctx)
}

// own works on a shard until ctx ends: it writes once a second. remaining is the time for which the
// shard is surely owned, nil if that is not known.
func (w *worker) own(ctx context.Context, index int, token string, remaining func() time.Duration) error {
	word, inTime := wordBegin, 0
	for {
		if err := w.write(word, index, token, inTime); err != nil {
			return err
		}
		if inTime = 0; remaining != nil && remaining() > 0 {
			inTime = 1
		}
		word = wordWrite
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return w.write(wordEnd, index, token, inTime)
		}
	}
}

func (w *worker) write(word string, index int, token string, inTime int) error {
	_, err := fmt.Fprintf(w.log, "%s %d %d %s %s %d\n", word, monotonic.Now(), index, w.Name, token, inTime)
	return err
}

func (w *worker) holdfast(ctx context.Context) error {
	locks, err := lock.Dial(ctx, w.ZooKeeper, lock.WithOwner(w.Name), lock.WithTTL(ttl), lock.WithGrace(grace), lock.WithSessionTimeout(ttl))
	if err != nil {
		return err
	}
	defer locks.Close()
	err = shard.Run(ctx, locks, "race", shards, func(ctx context.Context, s shard.Owned) error {
		return w.own(ctx, s.Index, s.Token().String(), s.Remaining)
	}, shard.Options{})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// members is the node below which the members of the other team are.
const members = "/members"

// memberList shares the shards as services do without locks: the owner of a shard is the member with
// the highest hash of its name and the shard.
func (w *worker) memberList(ctx context.Context) error {
	z, events, err := zk.Connect(w.ZooKeeper, ttl, zk.WithLogger(log.New(io.Discard, "", 0)))
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
	var changed <-chan zk.Event
	for {
		list, _, watch, err := w.list(z)
		if err == nil {
			changed = watch
			w.follow(ctx, owned(list, w.Name), running, &functions)
		}
		retry := (<-chan time.Time)(nil)
		if err != nil {
			retry = time.After(200 * time.Millisecond)
		}
	again:
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-retry:
		case e := <-events:
			if e.State != zk.StateHasSession && e.State != zk.StateExpired {
				goto again
			}
		}
	}
}

// list returns the members, this one included.
func (w *worker) list(z *zk.Conn) ([]string, *zk.Stat, <-chan zk.Event, error) {
	if _, err := z.Create(members, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
		return nil, nil, nil, err
	}
	if _, err := z.Create(members+"/"+w.Name, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
		return nil, nil, nil, err
	}
	return z.ChildrenW(members)
}

// follow stops the functions of shards that are not the member's any more, and starts those of new
// ones.
func (w *worker) follow(ctx context.Context, mine []int, running map[int]context.CancelFunc, functions *sync.WaitGroup) {
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
		functions.Go(func() { _ = w.own(ctx, index, "-", nil) })
	}
}

// owned returns the shards of a member by rendezvous hashing.
func owned(list []string, name string) (mine []int) {
	for index := range shards {
		best, owner := uint64(0), ""
		for _, member := range list {
			h := fnv.New64a()
			fmt.Fprintf(h, "%d/%s", index, member)
			if sum := mix(h.Sum64()); owner == "" || sum > best {
				best, owner = sum, member
			}
		}
		if owner == name {
			mine = append(mine, index)
		}
	}
	return mine
}

// mix spreads the bits of a hash, as FNV does not.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
