package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/locktest/wire"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/rs/zerolog"
)

// Times that suit a loaded machine: a server may be silent for seconds, and may take half a minute
// to start.
const (
	long           = 5 * time.Minute  // lease of a client that survives all faults
	ttl            = 12 * time.Second // lease of a client that is killed: tests wait for its end
	grace          = 500 * time.Millisecond
	sessionTimeout = 2 * time.Second
	patience       = 2 * time.Minute
	wholeTest      = 15 * time.Minute // limit of a test, shorter than that of go test
)

// bench is the environment of a test: servers, a root of its own, and a connection without package
// lock.
type bench struct {
	testing.TB
	ctx     context.Context
	servers []string
	ens     *locktest.Ensemble // the servers, if they are in memory, in virtual time; nil: real ones
	root    string
	raw     steady
}

// onShared returns a bench on the server that the tests share.
func onShared(t testing.TB) *bench { return on(t, zkserver.External()) }

// on returns a bench on the servers. The test fails if nodes are left at its end.
func on(t testing.TB, servers []string) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wholeTest)
	t.Cleanup(cancel)
	b := &bench{TB: t, ctx: ctx, servers: servers, root: "/it-" + znode.NewID()}
	b.raw = steady{b.connect(), ctx}
	zkserver.Root(t, b.root)
	t.Cleanup(func() {
		if left := b.nodes(); len(left) > 0 && !t.Failed() {
			t.Errorf("left behind: %q", left)
		}
		b.wipe()
	})
	return b
}

// byHand declares that the test deletes an entry by hand, so that the audit of the server's log
// does not report it.
func (b *bench) byHand(entry string) {
	zkserver.Root(b, path.Dir(entry), audit.Purge, audit.Overlap)
}

// connect returns a connection without package lock, through the tap if one is given.
func (b *bench) connect(taps ...*zkserver.Tap) *zk.Conn {
	b.Helper()
	dial := (&zkserver.Tap{Dialer: dialAnswered}).Dial
	switch {
	case len(taps) > 0:
		dial = taps[0].Dial
	case b.ens != nil:
		dial = b.ens.Dial
	}
	z, _, err := zk.Connect(b.servers, time.Minute, zk.WithLogInfo(false), zk.WithLogger(testLog{}), zk.WithDialer(dial))
	iferr.Fatal(b, err)
	b.Cleanup(z.Close)
	return z
}

type testLog struct{}

func (testLog) Printf(string, ...any) {}

// client returns a client below the bench's root.
func (b *bench) client(opts ...lock.Option) *lock.Client {
	b.Helper()
	opts = append([]lock.Option{
		lock.WithRoot(b.root), lock.WithTTL(long), lock.WithGrace(grace), lock.WithSessionTimeout(sessionTimeout),
		lock.WithUnlockTimeout(patience),
		lock.WithLogger(zerolog.New(zerolog.NewTestWriter(b.TB)).Level(zerolog.WarnLevel).With().Timestamp().Logger()),
	}, opts...)
	return dial(b, b.ctx, b.servers, append(b.network(), opts...)...)
}

// network returns the option with which a client reaches the servers, unless they are real ones.
func (b *bench) network() []lock.Option {
	if b.ens == nil {
		return nil
	}
	return []lock.Option{lock.WithDialer(b.ens.Dial)}
}

// dial returns a client that is closed at the end of the test.
func dial(t testing.TB, ctx context.Context, servers []string, opts ...lock.Option) *lock.Client {
	t.Helper()
	c, err := lock.Dial(ctx, servers, opts...)
	iferr.Fatal(t, err)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// tapped returns a client, and the tap on its connection.
func (b *bench) tapped(opts ...lock.Option) (*lock.Client, *zkserver.Tap) {
	tap := new(zkserver.Tap)
	return b.client(append(opts, lock.WithDialer(tap.Dial))...), tap
}

// expire ends the session of a tapped client. If the session has ended already, expire does
// nothing.
func (b *bench) expire(tap *zkserver.Tap) {
	if err := tap.Expire(b.ctx, b.servers[0]); err != nil && !errors.Is(err, wire.ErrSessionGone) && b.ctx.Err() == nil {
		b.Error(err)
	}
}

func (b *bench) lock(c *lock.Client, name string, opts ...lock.LockOption) *lock.Hold {
	b.Helper()
	h, err := c.Mutex(name, opts...).Lock(b.ctx)
	if err != nil {
		b.Fatalf("lock %s: %v", name, err)
	}
	return h
}

func (b *bench) unlock(h *lock.Hold) {
	b.Helper()
	if err := h.Unlock(); err != nil {
		b.Errorf("unlock: %v", err)
	}
}

// nodes lists the nodes below the root, except nodes with reserved names.
func (b *bench) nodes() []string {
	b.Helper()
	var paths []string
	var walk func(string)
	walk = func(p string) {
		children, _, err := b.raw.Children(p)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			b.Fatalf("list %s: %v", p, err)
		}
		slices.Sort(children)
		for _, c := range children {
			if p != b.root || !znode.Reserved(c) {
				paths = append(paths, p+"/"+c)
			}
			walk(p + "/" + c)
		}
	}
	walk(b.root)
	return paths
}

// mark returns the path of the mark of the leader's epoch.
func (b *bench) mark() string { return b.root + "/" + znode.EpochMark }

// wipe deletes the root and all nodes below it. It first tries one transaction, because an anchor
// can be deleted only with its parent.
func (b *bench) wipe() {
	b.Helper()
	longestFirst := func(a, c string) int { return len(c) - len(a) }
	var ops []any
	for _, p := range slices.SortedFunc(slices.Values(b.nodes()), longestFirst) {
		ops = append(ops, &zk.DeleteRequest{Path: p, Version: -1})
	}
	if len(ops) > 0 {
		if _, err := b.raw.Multi(ops...); err != nil && !errors.Is(err, zk.ErrNoNode) {
			b.Logf("delete all below %s at once: %v", b.root, err)
		}
	}
	paths := append([]string{b.root, b.mark(), b.root + "/" + znode.Inbox}, b.nodes()...)
	slices.SortFunc(paths, longestFirst)
	for _, p := range paths {
		if err := b.raw.Delete(p, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
			b.Errorf("delete %s: %v", p, err)
		}
	}
}

// prune deletes the ancestors of locks, which only the reaper deletes otherwise.
func (b *bench) prune(names ...string) {
	b.Helper()
	for _, name := range names {
		if err := b.raw.Delete(path.Join(b.root, name), -1); err != nil {
			b.Errorf("prune: %v", err)
		}
	}
}

func (b *bench) create(path, data string, flags int32) string {
	b.Helper()
	got, err := b.raw.Create(path, []byte(data), flags, zk.WorldACL(zk.PermAll))
	if err != nil {
		b.Fatalf("create %s: %v", path, err)
	}
	return got
}

// eventually waits until the condition holds, at most for patience. Use it for changes that cause
// no event.
func (b *bench) eventually(what string, cond func() bool) {
	b.Helper()
	b.eventuallyIn(patience, what, cond)
}

func (b *bench) eventuallyIn(within time.Duration, what string, cond func() bool) {
	b.Helper()
	err := wait.Until(context.Background(), within, what, func() (bool, error) { return cond(), nil })
	if err != nil {
		b.Fatalf("%v; nodes: %q", err, b.nodes())
	}
}

// nothingLeft waits until no node is below the root.
func (b *bench) nothingLeft() {
	b.Helper()
	b.eventually("no node is left", func() bool { return len(b.nodes()) == 0 })
}

// abandon creates a lock with an entry that no client renews, with the shortest lease.
func (b *bench) abandon(name string, opts ...lock.Option) {
	b.Helper()
	iferr.Fatal(b, iferr.Of(b.lock(b.client(opts...), name).Detach(b.ctx, lock.MinTTL)))
}

// orphan abandons a lock, and waits until the reaper may delete the entry.
func (b *bench) orphan(name string, orphanAfter time.Duration) {
	b.Helper()
	b.abandon(name)
	b.overdue(b.client(), name, orphanAfter)
}

// overdue waits until grace and orphanAfter have passed since the leases of all contenders expired.
// Each client that learns the leader's time afterwards comes to the same result.
func (b *bench) overdue(c *lock.Client, name string, orphanAfter time.Duration) {
	b.Helper()
	tool := admin.New(c)
	s, err := tool.Inspect(b.ctx, name)
	if err != nil || len(s.Contenders) == 0 {
		b.Fatalf("contenders for %s: %+v, %v", name, s, err)
	}
	for _, dead := range s.Contenders {
		b.eventually("the lease has been over for long enough", func() bool {
			now, err := tool.Now(b.ctx)
			iferr.Fatal(b, err)
			return now.Earliest().After(dead.Expires.Add(grace + orphanAfter))
		})
	}
}

// room is the resource that a lock guards. It detects two holders at once.
type room struct {
	inside  atomic.Int32
	entries atomic.Int32
	doubles atomic.Int32

	mu     sync.Mutex
	count  int // read at an entry and written when that one leaves, so that of two at once one is not counted
	tokens []lock.Token
}

// enter records that a holder with the token enters. leave records that the holder leaves.
func (r *room) enter(token lock.Token) (leave func()) {
	if r.inside.Add(1) > 1 {
		r.doubles.Add(1)
	}
	r.entries.Add(1)
	r.mu.Lock()
	count := r.count
	r.tokens = append(r.tokens, token)
	r.mu.Unlock()
	return func() {
		r.mu.Lock()
		r.count = count + 1
		r.mu.Unlock()
		r.inside.Add(-1)
	}
}

// check fails the test if two holders were in the room at once. It looks for overlapping entries,
// for lost increments of the counter, and for tokens that do not rise.
func (r *room) check(t testing.TB) {
	t.Helper()
	if n := r.doubles.Load(); n > 0 {
		t.Errorf("%d double entries", n)
	}
	if n := int(r.entries.Load()); r.count != n {
		t.Errorf("%d entries, but the counter stands at %d", n, r.count)
	}
	for i := 1; i < len(r.tokens); i++ {
		if r.tokens[i].Compare(r.tokens[i-1]) <= 0 {
			t.Errorf("entry %d has token %v after %v", i, r.tokens[i], r.tokens[i-1])
		}
	}
}

// workerEnv makes this test binary a holder; see [bench.holderFor] for its value.
const workerEnv = "HOLDFAST_TEST_WORKER"

// process is a process that a test has started.
type process struct {
	*zkserver.Worker
	b   *bench
	cmd *exec.Cmd
}

// start starts a process, which is killed at the end of the test.
func (b *bench) start(cmd *exec.Cmd) *process {
	b.Helper()
	w, err := zkserver.StartWorker(cmd)
	iferr.Fatal(b, err)
	b.Cleanup(func() {
		w.Kill()
		if b.Failed() {
			b.Logf("%v said on standard error:\n%s", cmd, w.Stderr())
		}
		w.Close(0)
	})
	return &process{w, b, cmd}
}

// line waits for the next line that the process prints, and returns it.
func (p *process) line() string {
	p.b.Helper()
	line, err := p.Hear(p.b.ctx)
	if err != nil {
		p.b.Fatalf("no more output of %v: %v", p.cmd, err)
	}
	return line.Text
}

// rest returns what the process prints until its end.
func (p *process) rest() string {
	p.b.Helper()
	for text := ""; ; {
		line, err := p.Hear(p.b.ctx)
		switch {
		case errors.Is(err, io.EOF):
			return text
		case err != nil:
			p.b.Fatalf("the output of %v does not end: %v", p.cmd, err)
		}
		text += line.Text + "\n"
	}
}

// says waits for a line, which must begin with the word, and returns the rest of the line.
func (p *process) says(word string) string {
	p.b.Helper()
	line := p.line()
	rest, ok := strings.CutPrefix(line, word+" ")
	if !ok {
		p.b.Fatalf("the process says %q, want %s", line, word)
	}
	return rest
}

// holder starts a process that takes the lock, prints "held" and the token, and keeps the lock.
func (b *bench) holder(name string) *process {
	b.Helper()
	return b.holderFor(name, ttl)
}

// holderFor is like holder, but with the given TTL.
func (b *bench) holderFor(name string, ttl time.Duration) *process {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+strings.Join([]string{strings.Join(b.servers, ","), b.root, name, ttl.String()}, " "))
	return b.start(cmd)
}

// work is the main function of a holder's process.
func work(role string) int {
	words := strings.Fields(role)
	ctx := context.Background()
	ttl, err := time.ParseDuration(words[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	c, err := lock.Dial(ctx, strings.Split(words[0], ","), lock.WithRoot(words[1]), lock.WithTTL(ttl), lock.WithGrace(grace), lock.WithSessionTimeout(sessionTimeout))
	if err == nil {
		var h *lock.Hold
		if h, err = c.Mutex(words[2]).Lock(ctx); err == nil {
			fmt.Println("held", h.Token())
			<-h.Context().Done()
			err = h.Err()
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// zkCli runs commands in ZooKeeper's own command line, and returns the output. It skips the test if
// the installation lacks the command line.
func (b *bench) zkCli(commands string) string {
	b.Helper()
	zkserver.NeedReal(b)
	found, err := zkserver.Find(b.ctx)
	iferr.Fatal(b, err)
	cmd := exec.CommandContext(b.ctx, found.Java, "-cp", found.ClassPath, "org.apache.zookeeper.ZooKeeperMain", "-server", b.servers[0])
	cmd.Stdin = strings.NewReader(commands + "\nquit\n")
	cmd.Dir = b.TempDir()
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "ClassNotFoundException: org.apache.zookeeper.ZooKeeperMain") {
		zkserver.NotRun(b, "needs zkCli, which is not among %s", found.ClassPath)
	} else if err != nil {
		b.Fatalf("zkCli: %v\n%s", err, out)
	}
	return string(out)
}

// writeFile writes a file that only its owner can read, and makes its folder.
func writeFile(t testing.TB, path, text string) {
	t.Helper()
	iferr.Fatal(t, os.MkdirAll(filepath.Dir(path), 0o700))
	iferr.Fatal(t, os.WriteFile(path, []byte(text), 0o600))
}
