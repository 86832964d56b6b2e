package reaper_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/integration/audited"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/holdfast-io/holdfast/reaper"
	"github.com/rs/zerolog"
)

const (
	ttl    = 10 * time.Second
	grace  = time.Second
	orphan = 30 * time.Second
)

// world is an ensemble in memory and in virtual time, with the test, its context, and the log of its
// reapers.
type world struct {
	*testing.T
	*locktest.Ensemble
	ctx context.Context
	mu  sync.Mutex
	log bytes.Buffer
}

func simulate(t *testing.T, f func(w *world)) {
	t.Helper()
	simulateOf(t, locktest.Options{}, f)
}

func simulateOf(t *testing.T, opts locktest.Options, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		w := &world{T: t, Ensemble: locktest.Start(t, opts), ctx: ctx}
		defer func() {
			if t.Failed() {
				t.Log("log:\n" + w.logged())
			}
		}()
		audited.Test(t, w.Ensemble, func() { f(w) })
	})
}

func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (w *world) logged() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

func (w *world) dial(label string, opts ...lock.Option) *lock.Client {
	w.Helper()
	opts = append([]lock.Option{
		lock.WithDialer(w.Dialer(label)), lock.WithSessionTimeout(6 * time.Second), lock.WithOwner(label),
	}, opts...)
	c, err := lock.Dial(w.ctx, w.Servers(), opts...)
	iferr.Fatal(w, err)
	w.Cleanup(func() {
		if err := c.Close(); err != nil {
			w.Errorf("close %s: %v", label, err)
		}
	})
	return c
}

// lock returns a hold of a lock, of a client that has the default policies.
func (w *world) lock(label, name string) *lock.Hold {
	w.Helper()
	hold, err := w.dial(label, lock.WithPolicies(w.policies())).Mutex(name).Lock(w.ctx)
	iferr.Fatal(w, err)
	return hold
}

// reaper returns a reaper with its own client. The default policies are those of w.policies.
func (w *world) reaper(label string, o reaper.Options) *reaper.Reaper {
	w.Helper()
	if o.Policies == nil {
		o.Policies = w.policies()
	}
	log := zerolog.New(w).With().Str("reaper", label).Logger()
	o.Log = &log
	r, err := reaper.New(w.dial(label, lock.WithPolicies(o.Policies)), o)
	iferr.Fatal(w, err)
	return r
}

// policies returns the given policies, then one with kept parents, and one for all other locks.
func (w *world) policies(more ...policy.Rule) *policy.Set {
	w.Helper()
	keep := lock.Policy{Name: "kept", TTL: ttl, Grace: grace, KeepParent: true}
	rest := lock.Policy{Name: "all", TTL: ttl, Grace: grace}
	set, err := policy.NewSet(append(more,
		policy.Rule{Match: w.pattern("kept/*"), Policy: keep, OrphanAfter: orphan},
		policy.Rule{Match: w.pattern("**"), Policy: rest, OrphanAfter: orphan},
	)...)
	iferr.Fatal(w, err)
	return set
}

func (w *world) pattern(text string) policy.Pattern {
	w.Helper()
	p, err := policy.ParsePattern(text)
	iferr.Fatal(w, err)
	return p
}

func (w *world) raw(label string) *zk.Conn {
	w.Helper()
	z, _, err := zk.Connect(w.Servers(), 6*time.Second, zk.WithDialer(w.Dialer(label)), zk.WithLogInfo(false), zk.WithLogger(silent{}))
	iferr.Fatal(w, err)
	w.Cleanup(func() {
		z.Close()
		synctest.Wait()
	})
	if _, err := z.Create("/locks", znode.Parent{Kind: znode.Dir}.Encode(), 0, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
		w.Fatal(err) // the root is created here because a sweep does not create it
	}
	return z
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func (w *world) create(z *zk.Conn, path, data string, flags int32, acl ...zk.ACL) string {
	w.Helper()
	if acl == nil {
		acl = zk.WorldACL(zk.PermAll)
	}
	got, err := z.Create(path, []byte(data), flags, acl)
	if err != nil {
		w.Fatalf("create %s: %v", path, err)
	}
	return got
}

// dead creates a lock with an entry that was written just now and that no client renews. It returns the
// entry's path.
func (w *world) dead(z *zk.Conn, name string) string {
	w.Helper()
	for i := range name {
		if name[i] == '/' {
			if _, err := z.Create("/locks/"+name[:i], znode.Parent{Kind: znode.Dir}.Encode(), 0, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
				w.Fatal(err)
			}
		}
	}
	generation := w.parent(z, name, znode.Mutex)
	r := znode.Record{Owner: "dead", TTL: ttl.Milliseconds(), ExpiresAt: time.Now().Add(ttl).UnixMilli(), AcquiredAt: 1}
	return w.create(z, "/locks/"+name+"/"+znode.Prefix(generation, znode.Exclusive), string(r.Encode()), zk.FlagSequence)
}

// parent creates a lock's parent with its anchor, unless the parent exists, and returns the parent's
// generation. It turns an ancestor into a lock's parent.
func (w *world) parent(z *zk.Conn, name string, kind znode.Kind) (generation string) {
	w.Helper()
	path, generation := "/locks/"+name, znode.NewID()
	data := znode.Parent{Kind: kind, Generation: generation}.Encode()
	anchor := &zk.CreateRequest{Path: path + "/" + znode.Anchor(generation), Data: znode.AnchorData{}.Encode(), Acl: zk.WorldACL(zk.PermAll)}
	if _, err := z.Multi(&zk.CreateRequest{Path: path, Data: data, Acl: zk.WorldACL(zk.PermAll)}, anchor); err == nil {
		return generation
	}
	before, _, err := z.Get(path)
	iferr.Fatal(w, err)
	p, err := znode.DecodeParent(before)
	if err == nil && p.Kind == znode.Dir {
		_, err = z.Multi(&zk.SetDataRequest{Path: path, Data: data, Version: -1}, anchor)
		p.Generation = generation
	}
	if err != nil || p.Generation == "" {
		w.Fatalf("%s holds %s: %v", path, before, err)
	}
	return p.Generation
}

// paths returns the paths of all nodes below the root, except anchors.
func (w *world) paths() []string {
	var paths []string
	for _, n := range w.Dump("/locks") {
		if _, anchor := znode.AnchorOf(path.Base(n.Path)); !anchor {
			paths = append(paths, strings.TrimPrefix(n.Path, "/locks"))
		}
	}
	return paths
}

func (w *world) mustSweep(r *reaper.Reaper) reaper.Report {
	w.Helper()
	report, err := r.Sweep(w.ctx)
	if err != nil || !report.Complete || report.Skipped != "" {
		w.Fatalf("Sweep = %+v, %v", report, err)
	}
	return report
}

// swept returns a connection for nodes that no client of Holdfast creates, and a reaper that has made a
// first sweep.
func (w *world) swept(o reaper.Options) (*zk.Conn, *reaper.Reaper) {
	w.Helper()
	z, r := w.raw("others"), w.reaper("reaper", o)
	w.mustSweep(r)
	return z, r
}

// fails has a client's requests that match answered with a fault.
func (w *world) fails(label string, fault locktest.Fault, match func(locktest.Request) bool) {
	w.Intercept(func(q locktest.Request) locktest.Fault {
		if q.Label == label && match(q) {
			return fault
		}
		return locktest.Fault{}
	})
}

// meanwhile calls do while the nth of a reaper's requests that match is under way: it reaches the server two
// seconds late, and do is called after one. It returns the number of these requests.
func (w *world) meanwhile(nth int64, match func(locktest.Request) bool, do func()) *atomic.Int64 {
	n := new(atomic.Int64)
	w.Intercept(func(q locktest.Request) locktest.Fault {
		if q.Label != "reaper" || !match(q) || n.Add(1) != nth {
			return locktest.Fault{}
		}
		time.AfterFunc(time.Second, do)
		return locktest.Fault{Delay: 2 * time.Second}
	})
	return n
}

// touches returns a match of the transactions that concern the node or a node below it.
func touches(node string) func(locktest.Request) bool {
	return func(q locktest.Request) bool {
		return q.Op == "multi" && slices.ContainsFunc(q.Paths, func(p string) bool { return p == node || strings.HasPrefix(p, node+"/") })
	}
}

// lists reports whether a request is for the list of a node.
func lists(q locktest.Request, path string) bool {
	return q.Op == "getChildren2" && slices.Equal(q.Paths, []string{path})
}

func TestSweepDeletesOnlyAbandonedNodes(t *testing.T) {
	simulate(t, func(w *world) {
		z := w.raw("others")
		r := w.reaper("reaper", reaper.Options{})
		held := w.lock("service", "live/1")

		w.dead(z, "flat")
		w.dead(z, "deep/er/still")
		w.dead(z, "two")
		w.dead(z, "two")
		w.dead(z, "kept/1")
		w.parent(z, "orphan", znode.Mutex)
		w.create(z, "/locks/orphan-dir", string(znode.Parent{Kind: znode.Dir}.Encode()), 0)
		adopted := "/locks/adopted"
		w.create(z, adopted, string(znode.Parent{Kind: znode.Mutex, Adopted: true}.Encode()), 0)

		// Nodes that no sweep may delete.
		w.create(z, "/locks/plain", "", 0)
		w.create(z, "/locks/data", "10.0.0.1", 0)
		w.create(z, "/locks/data/below", "x", 0)
		w.create(z, "/locks/newer", `{"holdfast":3,"kind":"mutex"}`, 0)
		w.create(z, "/locks/ephemeral", string(znode.Parent{Kind: znode.Mutex}.Encode()), zk.FlagEphemeral)
		w.create(z, "/locks/mixed", string(znode.Parent{Kind: znode.Mutex}.Encode()), 0)
		w.create(z, "/locks/mixed/_c_0123456789abcdef0123456789abcdef-lock-", "", zk.FlagEphemeral|zk.FlagSequence)
		w.create(z, "/locks/mixed/"+znode.Prefix(znode.NewID(), znode.Exclusive), "garbage", zk.FlagSequence)
		w.create(z, "/locks/mixed/"+znode.Prefix(znode.NewID(), znode.Exclusive), `{"holdfast":3}`, zk.FlagSequence)
		record := (&znode.Record{Owner: "others", TTL: ttl.Milliseconds()}).Encode()
		w.create(z, "/locks/mixed/"+znode.Prefix(znode.NewID(), znode.Exclusive), string(record), zk.FlagEphemeral|zk.FlagSequence)
		w.dead(z, "data/lock-below-foreign")

		time.Sleep(ttl + grace - time.Millisecond)
		before := w.paths()
		report := w.mustSweep(r)
		if got := w.paths(); !slices.Equal(got, before) {
			t.Fatalf("swept too early: %+v\nbefore %q\nafter  %q", report.Total, before, got)
		}

		time.Sleep(orphan)
		w.parent(z, "young", znode.Mutex)
		report = w.mustSweep(r)
		t.Logf("%+v", report.Total)
		want := []string{"", "/adopted", "/data", "/data/below", "/ephemeral", "/kept", "/kept/1",
			"/live", "/live/1", strings.TrimPrefix(held.EntryPath(), "/locks"), "/mixed", "/newer", "/plain", "/young"}
		got := slices.DeleteFunc(w.paths(), func(p string) bool { return strings.HasPrefix(p, "/mixed/") })
		if !slices.Equal(got, want) {
			t.Errorf("left:\ngot  %q\nwant %q", got, want)
		}
		if n := len(w.Dump("/locks/mixed")); n != 5 { // it has no anchor
			t.Errorf("%d nodes of the mixed lock are left, want 5", n)
		}
		total := seen(report)
		total.Locks, total.Live = 0, 0
		if want := (reaper.Counts{
			Expired: 6, Orphans: 5, Ancestors: 3, Young: 1, Kept: 2, Deleted: 14, Purged: 6, Pruned: 8,
			Foreign: 6, Undecodable: 3, // plain, data, below, two ephemeral ones, zk.Lock's; newer parent, garbage, newer entry
		}); total != want {
			t.Errorf("counted\n%+v, want\n%+v", total, want)
		}
		if n := len(report.Undecodable); n != 3 || !slices.Contains(report.Undecodable, "/locks/newer") {
			t.Errorf("undecodable: %q", report.Undecodable)
		}
		if !strings.Contains(w.logged(), `"first_undecodable":"/locks/`) {
			t.Error("the log does not name an undecodable node")
		}
		if kept := report.Policies["kept"]; kept.Kept != 1 || kept.Expired != 1 || kept.Deleted != 1 {
			t.Errorf("of the policy kept: %+v", kept)
		}
		if again := w.mustSweep(r); again.Total.Deleted != 0 {
			t.Errorf("a second sweep deletes %d more", again.Total.Deleted)
		}
		iferr.Error(t, held.Unlock())
	})
}

// TestNoRoot: each sweep and each start of a daemon logs that the root is missing. A sweep does not
// create the root; the daemon's own lock does. The monitor reports a missing root until a sweep sees a lock.
func TestNoRoot(t *testing.T) {
	simulate(t, func(w *world) {
		const says = "there is no root: no lock has been taken below it yet, or it is another one than that of the programs"
		for i, o := range []reaper.Options{{DryRun: true}, {}} {
			r := w.reaper("once", o)
			if report := w.mustSweep(r); report.DryRun != o.DryRun || report.Policies["all"] == nil || len(w.Dump("/locks")) > 0 {
				t.Fatalf("%+v, and nodes %q", report, w.paths())
			}
			if lines := w.lines(says); len(lines) != i+1 || lines[i]["level"] != "warn" || lines[i]["root"] != "/locks" {
				t.Fatalf("told: %v", lines)
			}
		}
		daemon := w.reaper("daemon", reaper.Options{Schedule: "@every 10s"})
		stop := w.run(daemon)
		time.Sleep(time.Minute)
		if s := daemon.Monitor().Status(); !s.NoRoot || s.LocksSeen {
			t.Errorf("without a lock: %+v", s)
		}
		w.lock("service", "a")
		time.Sleep(11 * time.Second)
		if s := daemon.Monitor().Status(); s.NoRoot || !s.LocksSeen {
			t.Errorf("with a lock: %+v", s)
		}
		stop()
		w.mustSweep(w.reaper("once", reaper.Options{}))
		if n := len(w.lines(says)); n != 3 || len(w.Dump("/locks")) == 0 {
			t.Errorf("told %d times, nodes %q", n, w.paths())
		}
	})
}

func TestDryRunDeletesNothing(t *testing.T) {
	simulate(t, func(w *world) {
		z, dry := w.raw("others"), w.reaper("dry", reaper.Options{DryRun: true})
		entry := w.dead(z, "a/b")
		time.Sleep(ttl + grace + orphan)
		before := w.paths()
		var planned []string
		for _, p := range w.mustSweep(dry).Planned {
			planned = append(planned, p.Verdict+" "+p.Path)
		}
		if want := []string{"expired " + entry, "orphan /locks/a/b", "ancestor /locks/a"}; !slices.Equal(planned, want) {
			t.Errorf("planned %q, want %q", planned, want)
		}
		if after := w.paths(); !slices.Equal(after, before) {
			t.Errorf("a dry run changed %q to %q", before, after)
		}
		if report := w.mustSweep(w.reaper("wet", reaper.Options{})); report.Total.Deleted != len(planned) {
			t.Errorf("deleted %d, planned %d", report.Total.Deleted, len(planned))
		}
	})
}

// TestManyTreesInFewTransactions: a sweep deletes flat and nested trees, with more locks than walkers,
// and more entries in a lock than in a batch, in at most 12 transactions more than full batches take.
func TestManyTreesInFewTransactions(t *testing.T) {
	simulate(t, func(w *world) {
		z := w.raw("others")
		r := w.reaper("reaper", reaper.Options{Concurrency: 4, Batch: 50})
		if report := w.mustSweep(r); report.Total.Deleted != 0 {
			t.Fatalf("%+v", report)
		}
		const flat, nested, queued = 300, 20, 120
		for i := range flat {
			w.dead(z, fmt.Sprintf("flat-%d", i))
		}
		for i := range nested {
			w.dead(z, fmt.Sprintf("a/%d/c/%d", i%3, i))
		}
		for range queued {
			w.dead(z, "queue")
		}
		time.Sleep(ttl + grace + orphan)
		nodes := len(w.paths()) - 1
		txns := w.Transactions()
		report := w.mustSweep(r)
		if got := w.paths(); len(got) != 1 {
			t.Errorf("left: %q", got)
		}
		if report.Total.Deleted != nodes || report.Total.Missed != 0 {
			t.Errorf("deleted %d of %d, missed %d", report.Total.Deleted, nodes, report.Total.Missed)
		}
		// The reaper's own lock, samples of the time, and guards of directories need more
		// transactions.
		if n, most := int(w.Transactions()-txns), nodes/50+12; n > most {
			t.Errorf("%d transactions for %d nodes, want at most %d", n, nodes, most)
		}
	})
}

// TestRenewedSinceItWasRead: if the judged entry is written again before the delete arrives, or before
// the reaper has the reply to its read, the entry stays, and the rest of the batch is deleted.
func TestRenewedSinceItWasRead(t *testing.T) {
	for op, fault := range map[string]locktest.Fault{
		"getData": {DelayReply: time.Second},
		"multi":   {Delay: time.Second},
	} {
		simulate(t, func(w *world) {
			z, r := w.swept(reaper.Options{})
			w.dead(z, "a")
			spared := w.dead(z, "b")
			w.dead(z, "c")
			time.Sleep(ttl + grace + orphan)
			var once sync.Once
			w.Intercept(func(q locktest.Request) locktest.Fault {
				if q.Label != "reaper" || !slices.Contains(q.Paths, spared) || q.Op != op {
					return locktest.Fault{}
				}
				once.Do(func() {
					time.AfterFunc(time.Millisecond, func() {
						record := znode.Record{Owner: "back", TTL: ttl.Milliseconds()}
						iferr.Error(t, iferr.Of(z.Set(spared, record.Encode(), 0)))
					})
				})
				return fault
			})
			report := w.mustSweep(r)
			if got, want := w.paths(), []string{"", "/b", strings.TrimPrefix(spared, "/locks")}; !slices.Equal(got, want) {
				t.Errorf("%s: left: %q, want %q", op, got, want)
			}
			if report.Total.Missed != 2 || report.Total.Deleted != 4 {
				t.Errorf("%s: missed %d, deleted %d; want 2 and 4", op, report.Total.Missed, report.Total.Deleted)
			}
		})
	}
}

func TestOneActiveReaper(t *testing.T) {
	simulate(t, func(w *world) {
		first, second := w.reaper("first", reaper.Options{Schedule: "@every 1m"}), w.reaper("second", reaper.Options{Schedule: "@every 1m"})
		ctx, stop := context.WithCancel(w.ctx)
		ended := make(chan error, 2)
		go func() { ended <- first.Run(ctx) }()
		time.Sleep(time.Second)
		go func() { ended <- second.Run(w.ctx) }()
		time.Sleep(time.Second)

		report, err := second.Sweep(w.ctx)
		if !errors.Is(err, lock.ErrHeld) || report.Complete || !strings.Contains(report.Skipped, "first") || report.Policies["all"] == nil {
			t.Errorf("Sweep beside an active reaper = %+v, %v", report, err)
		}
		z := w.raw("others")
		w.dead(z, "a")
		time.Sleep(3 * time.Minute)
		if got := w.paths(); slices.Contains(got, "/a") {
			t.Errorf("the active reaper left %q", got)
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run after its context ended: %v", err)
		}
		w.dead(z, "b")
		time.Sleep(3 * time.Minute)
		if got := w.paths(); slices.Contains(got, "/b") {
			t.Errorf("the one that stood by left %q", got)
		}
	})
}

// TestSweepThatLosesItsHold: the lease of the active reaper's lock ends while a sweep waits for its
// first sample of the leader's clock. The sweep's error matches the reason.
func TestSweepThatLosesItsHold(t *testing.T) {
	simulate(t, func(w *world) {
		r := w.reaper("reaper", reaper.Options{})
		w.dead(w.raw("others"), "a")
		var sampled atomic.Bool
		w.Intercept(func(q locktest.Request) locktest.Fault {
			if q.Label != "reaper" || len(q.Paths) == 0 || !strings.HasPrefix(q.Paths[0], "/locks/clock-") || sampled.Swap(true) {
				return locktest.Fault{}
			}
			time.AfterFunc(time.Second, func() {
				iferr.Error(t, w.Partition("reaper"))
			})
			return locktest.Fault{DelayReply: time.Minute}
		})
		report, err := r.Sweep(w.ctx)
		if !errors.Is(err, lock.ErrExpired) || report.Complete {
			t.Errorf("complete: %v, and the error: %v", report.Complete, err)
		}
		w.Heal("reaper")
	})
}

// TestStopFinishesTheBatchesAtHand: a sweep that is stopped finishes the transactions in flight, at most
// four, and counts their deletes. The next sweep deletes the rest.
func TestStopFinishesTheBatchesAtHand(t *testing.T) {
	simulate(t, func(w *world) {
		z, r := w.swept(reaper.Options{Batch: 10})
		for i := range 50 {
			w.dead(z, fmt.Sprint(i))
		}
		time.Sleep(ttl + grace + orphan)
		ctx, stop := context.WithCancelCause(w.ctx)
		why := errors.New("told to stop")
		fiveLocks := func(q locktest.Request) bool { return q.Op == "multi" && len(q.Paths) == 15 } // entries, anchors and parents
		w.meanwhile(1, fiveLocks, func() { stop(why) })
		report, err := r.Sweep(ctx)
		if !errors.Is(err, why) || report.Complete {
			t.Errorf("Sweep = %v, %v", report.Complete, err)
		}
		w.Intercept(nil)
		gone := 100 - (len(w.paths()) - 1)
		if n := report.Total.Deleted; n != gone || n < 10 || n > 40 || n%10 != 0 {
			t.Errorf("reported %d deletes, and %d nodes went; want up to four batches of 10", n, gone)
		}
		w.mustSweep(r)
		time.Sleep(2 * time.Second) // the parent of the reaper's lock is deleted a second after the last sweep
		if len(w.paths()) != 1 {
			t.Errorf("the next sweep left %q", w.paths())
		}
	})
}

// TestNewRefuses: options that are not allowed are refused, by their keys in the configuration. So is a
// schedule in a time zone that this machine does not know, although a policy may have it.
func TestNewRefuses(t *testing.T) {
	const nowhere = "CRON_TZ=Nowhere/Here 30 4 * * *"
	simulate(t, func(w *world) {
		c := w.dial("a")
		zoned := w.policies(policy.Rule{Match: w.pattern("a"), Policy: lock.Policy{Name: "a"}, Schedule: nowhere})
		for _, tt := range []struct {
			o    reaper.Options
			says string
		}{
			{reaper.Options{Schedule: "@every 1500ms"}, `reaper.schedule "@every 1500ms": `},
			{reaper.Options{Schedule: "61 * * * *"}, `reaper.schedule "61 * * * *": `},
			{reaper.Options{Concurrency: -1}, "reaper.concurrency -1: must be from 1 to 1000"},
			{reaper.Options{Concurrency: 1001}, "reaper.concurrency 1001: must be from 1 to 1000"},
			{reaper.Options{Batch: 501}, "reaper.batch 501: must be from 1 to 500"},
			{reaper.Options{Batch: -1}, "reaper.batch -1: must be from 1 to 500"},
			{reaper.Options{Lock: "/x"}, `reaper.lock: lock name "/x": `},
			{reaper.Options{Schedule: nowhere}, `reaper.schedule "` + nowhere + `": must have a time zone that this machine knows`},
			{reaper.Options{Policies: zoned}, `policy "a": schedule "` + nowhere + `": must have a time zone that this machine knows`},
		} {
			if _, err := reaper.New(c, tt.o); !errors.Is(err, lock.ErrInvalid) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("New(%+v) = %v, want an error that says %s", tt.o, err, tt.says)
			}
		}
		if _, err := reaper.New(nil, reaper.Options{}); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("New without a client: %v", err)
		}
		if err := (reaper.Options{Batch: 501, Concurrency: 1001}).Validate(); err == nil || strings.Count(err.Error(), "\n") != 1 {
			t.Errorf("Validate tells %v, want all that is wrong", err)
		}
	})
}

func TestWithoutContext(t *testing.T) {
	simulate(t, func(w *world) {
		for _, dry := range []bool{false, true} {
			r, err := reaper.New(w.dial("a"), reaper.Options{DryRun: dry})
			iferr.Fatal(t, err)
			_, err = r.Sweep(nil) //lint:ignore SA1012 it is what is tested
			if !errors.Is(err, lock.ErrInvalid) {
				t.Errorf("Sweep: %v", err)
			}
			err = r.Run(nil) //lint:ignore SA1012 it is what is tested
			if !errors.Is(err, lock.ErrInvalid) {
				t.Errorf("Run: %v", err)
			}
		}
	})
}
