// The world of the tests: members on an ensemble in memory, in virtual time, and what they must never do.

package shard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast/integration/audited"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/bubble"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/shard"
	"github.com/holdfast-io/holdfast/lock/znode"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ttl   = 15 * time.Second
	grace = time.Second
	group = "orders/partitions"
)

// world is an ensemble, and what is known of the owners of one group's shards.
type world struct {
	*bubble.World
	mu     sync.Mutex
	shards []track
	logs   strings.Builder
}

// track is what is known of one shard.
type track struct {
	calls []*call // functions that run
	last  lock.Token
	moves int       // owners that it had
	owner string    // the last one
	freed time.Time // since then it has no owner; zero: it has one
	gap   time.Duration
}

// call is a running function.
type call struct {
	member string // label of the process, and number of its Run
	ctx    context.Context
	hold   shard.Owned
}

func simulate(t *testing.T, shards int, f func(w *world)) {
	t.Helper()
	t.Parallel()
	bubble.Run(t, locktest.Options{Members: 3}, time.Minute, func(b *bubble.World) {
		audited.Test(b, b.Ensemble, func() { f(newWorld(b, shards)) })
	})
}

func newWorld(b *bubble.World, shards int) *world {
	w := &world{World: b, shards: make([]track, shards)}
	for i := range w.shards {
		w.shards[i].freed = time.Now()
	}
	return w
}

func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.logs.Write(p)
}

// tell adds a line with the time to the story that a failed test shows.
func (w *world) tell(format string, args ...any) {
	w.Logf("%s %s", time.Now().Format("04:05.000"), fmt.Sprintf(format, args...))
}

// said returns how often the log has the text.
func (w *world) said(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.logs.String(), text)
}

func (w *world) dial(label string, opts ...lock.Option) *lock.Client {
	w.Helper()
	c, err := lock.Dial(w.Ctx, w.Servers(), append([]lock.Option{
		lock.WithDialer(w.Dialer(label)), lock.WithTTL(ttl), lock.WithGrace(grace), lock.WithSessionTimeout(6 * time.Second), lock.WithOwner(label),
	}, opts...)...)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		w.Heal(label)
		w.Thaw(label)
		if err := c.Close(); err != nil {
			w.Errorf("close %s: %v", label, err)
		}
	})
	return c
}

// began checks the start of a function: no other function of the process has the shard, and none of another
// process whose hold is not lost.
func (w *world) began(member string, ctx context.Context, s shard.Owned) *call {
	c := &call{member, ctx, s}
	w.mu.Lock()
	defer w.mu.Unlock()
	t := &w.shards[s.Index]
	for _, other := range t.calls {
		if other.member == member {
			w.Errorf("two functions of %s have shard %d", member, s.Index)
		} else if err := other.hold.Txn(w.Ctx); !errors.Is(err, lock.ErrLost) { // without operations it only says why the hold has ended
			w.Errorf("shard %d has two owners, %s and %s", s.Index, other.member, member)
		}
	}
	if s.Token().Compare(t.last) < 0 {
		w.Errorf("shard %d: token %v of %s after %v", s.Index, s.Token(), member, t.last)
	}
	t.last = s.Token()
	w.tell("%s begins %d", member, s.Index)
	if t.owner != member {
		t.owner = member
		t.moves++
	}
	if !t.freed.IsZero() {
		t.gap = max(t.gap, time.Since(t.freed))
	}
	t.freed = time.Time{}
	t.calls = append(t.calls, c)
	return c
}

func (w *world) ended(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := &w.shards[c.hold.Index]
	w.tell("%s ends %d: %v", c.member, c.hold.Index, context.Cause(c.ctx))
	running := len(t.calls)
	t.calls = slices.DeleteFunc(t.calls, func(other *call) bool { return other == c })
	if len(t.calls) == 0 && running > 0 {
		t.freed = time.Now()
	}
}

// work returns a function that is checked, and lasts until its context ends, and then until last has
// returned.
func (w *world) work(member string, last ...func(context.Context, shard.Owned)) shard.Func {
	return func(ctx context.Context, s shard.Owned) error {
		c := w.began(member, ctx, s)
		defer w.ended(c)
		<-ctx.Done()
		for _, f := range last {
			f(ctx, s)
		}
		return nil
	}
}

// owners returns how many shards each member has.
func (w *world) owners() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	owners := map[string]int{}
	for i := range w.shards {
		for _, c := range w.shards[i].calls {
			if c.ctx.Err() == nil {
				owners[c.member]++
			}
		}
	}
	return owners
}

// moves returns the number of owners that the shards had, and the longest gap of any, and begins to
// count anew.
func (w *world) moves() (moves int, gap time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.shards {
		t := &w.shards[i]
		moves, gap = moves+t.moves, max(gap, t.gap)
		t.moves, t.gap = 0, 0
	}
	return moves, gap
}

// mustOwn waits until the members own so many shards; want is the printed map.
func (w *world) mustOwn(within time.Duration, want string) {
	w.Helper()
	begun := time.Now()
	for fmt.Sprint(w.owners()) != want {
		if time.Since(begun) > within {
			w.Errorf("after %v the shards are owned by %v, want %s", within, w.owners(), want)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (w *world) options(opts ...shard.Options) shard.Options {
	var o shard.Options
	if len(opts) > 0 {
		o = opts[0]
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(w, nil))
	}
	return o
}

// start runs a member in the background. The returned function ends it and returns its error.
func (w *world) start(c *lock.Client, f shard.Func, opts ...shard.Options) (stop func() error) {
	ctx, cancel := context.WithCancel(w.Ctx)
	done := make(chan error, 1)
	go func() { done <- shard.Run(ctx, c, group, len(w.shards), f, w.options(opts...)) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	w.Cleanup(func() { _ = stop() })
	return stop
}

// breaker is the client that breaks holds in tests.
var breaker = znode.Broken{Owner: "test", Reason: "test"}

// contender returns the path of the first contender of a lock; "" if there is none.
func (w *world) contender(name string) string {
	var children []string
	for _, n := range w.Dump("/locks/" + name) {
		children = append(children, path.Base(n.Path))
	}
	if contenders := znode.Contenders(children); len(contenders) > 0 {
		return "/locks/" + name + "/" + contenders[0].Node
	}
	return ""
}
