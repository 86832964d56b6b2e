// The cases of other libraries' tests of locks, by their names: Curator, kazoo and
// madelson/DistributedLock. integration/OTHERS.md is the table of them.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// otherCase is a case of another library.
type otherCase struct {
	name string
	run  func(w *world) // nil: it does not apply
	say  string         // why it does not, or what differs here
}

// otherSuite is a file of another library's tests.
type otherSuite struct {
	library, file string
	cases         []otherCase
}

var otherSuites = []otherSuite{
	{"Curator", "TestInterProcessMutexBase", []otherCase{
		{"testLocker", heldWhileItRuns, ""},
		{"testWaitingProcessKilledServer", serverRestarts, ""},
		{"testKilledSession", sessionKilled, "the hold outlives its session: the second one enters when the first unlocks"},
		{"testContainerCleanup", parentGoes, "the last one out deletes the parent; no container is needed"},
		{"testWithNamespace", otherRoot, "a namespace is `WithRoot`"},
		{"testReentrantSingleLock", manyGoroutines, ""},
		{"testReentrant2Threads", reentryExcludesOthers, "re-entry goes by the context, not by the thread"},
		{"testReentrant", reentry, "re-entry goes by the context, not by the thread"},
		{"test2Clients", twoClients, ""},
	}},
	{"Curator", "TestInterProcessMutex", []otherCase{
		{"testWithSchema", nil, "schemas check the paths of Curator's own client"},
		{"testRevoking", revoking, ""},
		{"testPersistentLock", persistent, "each entry is persistent"},
	}},
	{"Curator", "TestInterProcessMultiMutex", []otherCase{
		{"testSomeReleasesFail", someReleaseFails, "the release is one transaction: the entry that was deleted is lost, the others are released"},
		{"testSomeLocksFailToLock", someLockFails, ""},
	}},
	{"Curator", "TestInterProcessReadWriteLock", []otherCase{
		{"testGetParticipantNodes", participants, ""},
		{"testThatUpgradingIsDisallowed", noUpgrade, "`ErrUpgrade` at once, not after the timeout"},
		{"testThatDowngradingRespectsThreads", downgradingRespectsOthers, ""},
		{"testDowngrading", downgrading, "`RWMutex.Downgrade`"},
		{"testContendingDowngrading", contendingDowngrading, ""},
		{"testBasic", readersAndWriters, ""},
		{"testSetNodeData", metadataCopied, "`WithMetadata`"},
		{"testLockPath", lockPath, "the hold outlives its session, and its entry stays where it is"},
	}},
	{"Curator", "TestInterProcessSemaphore", []otherCase{
		{"testAcquireAfterLostServer", semaphoreLostServer, ""},
		{"testThreadedLeaseIncrease", leaseIncrease, "`Semaphore.Resize`"},
		{"testClientClose", clientClose, ""},
		{"testMaxPerSession", chunks, ""},
		{"testRelease1AtATime", allPermitsUsed, ""},
		{"testReleaseInChunks", chunks, ""},
		{"testThreads", onePermit, ""},
		{"testSimple", onePermitTwice, ""},
		{"testSimple2", threePermits, ""},
		{"testGetParticipantNodes", semaphoreParticipants, ""},
		{"testNoOrphanedNodes", waiterDeleted, ""},
		{"testInterruptAcquire", interrupted, ""},
	}},
	{"Curator", "TestInterProcessSemaphoreCluster", []otherCase{
		{"testKilledServerWithEnsembleProvider", killedServer, "servers that are added and removed: `integration`, TestReconfiguration"},
		{"testCluster", cluster, ""},
	}},
	{"Curator", "TestInterProcessSemaphoreMutex", []otherCase{
		{"testReentrant, testReentrant2Threads, testReentrantSingleLock", nil, "they switch the base class's tests off: that lock is not reentrant"},
	}},
	{"Curator", "TestLockACLs", []otherCase{
		{"testLockACLs", lockACLs, ""},
		{"testACLsCreatingParents", lockACLs, ""},
	}},
	{"Curator", "TestLockCleanlinessWithFaults", []otherCase{
		{"testNodeDeleted", faultLeavesNothing, ""},
	}},

	{"kazoo", "test_lock.py, KazooLockTests", []otherCase{
		{"test_lock_one", twoClients, ""},
		{"test_lock", inTurn, ""},
		{"test_lock_reconnect", sessionKilled, "the hold outlives its session"},
		{"test_lock_non_blocking", nonBlocking, ""},
		{"test_lock_fail_first_call", lostReply, ""},
		{"test_lock_cancel", interrupted, "the context ends"},
		{"test_lock_no_double_calls", nil, "a lock has no state here: each Lock is a hold of its own"},
		{"test_lock_same_thread_no_block", nonBlocking, ""},
		{"test_lock_many_threads_no_block", nonBlockingMany, ""},
		{"test_lock_many_threads", manyGoroutines, ""},
		{"test_lock_reacquire", reacquire, ""},
		{"test_lock_ephemeral", persistent, "each entry is persistent"},
		{"test_lock_timeout", timesOut, ""},
		{"test_read_lock", readLock, ""},
		{"test_write_lock", writeLock, ""},
	}},
	{"kazoo", "test_lock.py, TestSemaphore", []otherCase{
		{"test_basic", reacquirePermit, ""},
		{"test_lock_one", onePermit, ""},
		{"test_non_blocking", onePermitTwice, ""},
		{"test_non_blocking_release", releaseTwice, "a second Unlock is `ErrUnlocked`"},
		{"test_holders", semaphoreParticipants, ""},
		{"test_semaphore_cancel", interrupted, ""},
		{"test_multiple_acquire_and_release", releaseTwice, ""},
		{"test_handle_session_loss", semaphoreSessionKilled, "the permit outlives the session: the waiter enters when it is given back"},
		{"test_inconsistent_max_leases", otherPermits, ""},
		{"test_inconsistent_max_leases_other_data", foreignData, ""},
		{"test_reacquire", reacquirePermit, ""},
		{"test_acquire_after_cancelled", interrupted, ""},
		{"test_timeout", onePermitTwice, ""},
	}},
	{"kazoo", "test_lock.py, TestSequence", []otherCase{
		{"test_get_predecessor, test_get_predecessor_go", nil, "functions inside kazoo; the order among the entries of all libraries is tested in `lock/znode` and by TestMixed"},
	}},

	{"DistributedLock", "DistributedLockCoreTestCases", []otherCase{
		{"BasicTest, BasicAsyncTest", nonBlocking, ""},
		{"TestBadArguments, TestReaderWriterLockBadArguments", badArguments, "there are no timeouts to be wrong, but contexts; names and numbers can be wrong"},
		{"TestDisposeHandleIsIdempotent", releaseTwice, "a second Unlock changes nothing, and says `ErrUnlocked`"},
		{"TestTimeouts", timesOut, ""},
		{"CancellationTest", interrupted, ""},
		{"TestParallelism", manyGoroutines, ""},
		{"TestGetSafeName, TestGetSafeLockNameIsCaseSensitive", badArguments, "no name is changed: one that ZooKeeper does not take is refused"},
		{"TestLockNamesAreCaseSensitive", caseSensitive, ""},
		{"TestCanceledAlreadyThrowsForSyncAndDoesNotThrowForAsync", canceledBefore, ""},
		{"TestHandleLostTriggersCorrectly", lossIsTold, ""},
		{"TestHandleLostReturnsAlreadyCanceledIfHandleAlreadyLost", lossIsTold, ""},
		{"TestCanSafelyDisposeWhileMonitoring", lossIsTold, ""},
		{"TestLockAbandonment", abandoned, "a handle that is dropped goes on until its client closes; its process may have handed its token on"},
		{"TestCrossProcess, TestCrossProcessAbandonment, TestCrossProcessAbandonmentWithKill", killedHolder, "in `integration` with processes; the next one enters after TTL and grace"},
	}},
	{"DistributedLock", "DistributedReaderWriterLockCoreTestCases", []otherCase{
		{"TestMultipleReadersSingleWriter", readLock, ""},
		{"TestWriterTrumpsReader", writerFirst, ""},
	}},
	{"DistributedLock", "DistributedUpgradeableReaderWriterLockCoreTestCases", []otherCase{
		{"TestMultipleReadersSingleWriter, TestUpgradeToWriteLock, TestUpgradeableHandleDisposal, TestUpgradeableHandleMultipleUpgrades, TestCanUpgradeHandleWhileMonitoring", nil, "there is no upgradeable hold: take the lock for writing, and downgrade"},
	}},
	{"DistributedLock", "DistributedSemaphoreCoreTestCases", []otherCase{
		{"TestMaxCount", otherPermits, ""},
		{"TestConcurrencyHandling", allPermitsUsed, ""},
		{"TestDrain", threePermits, ""},
		{"TestHighTicketCount", manyPermits, "the most permits are `MaxPermits`"},
		{"TestSemaphoreParallelism", allPermitsUsed, ""},
	}},
	{"DistributedLock", "ZooKeeperSynchronizationCoreTestCases", []otherCase{
		{"TestDoesNotAttemptToCreateOrDeleteExistingNode", keptParent, "`keep_parent`; a parent that is missing is created"},
		{"TestGetSafeName, TestGetSafeNameWithControlCharacters", badArguments, "refused"},
		{"TestCustomAclAndAuth", lockACLs, ""},
		{"TestInvalidAclDoesNotCorruptStore", invalidACL, ""},
		{"TestDeepDirectoryCreation", deep, "the nodes above the lock stay, as there; the reaper sweeps them"},
		{"TestThrowsIfPathDeletedWhileWaiting", waiterDeleted, "a waiter whose entry is deleted joins again"},
	}},
}

func TestOthers(t *testing.T) {
	for _, s := range otherSuites {
		for _, c := range s.cases {
			if c.run != nil {
				subtest(t, s.library+"/"+s.file+"/"+c.name, locktest.Options{}, c.run)
			}
		}
	}
}

// TestOthersPage: integration/OTHERS.md has the table of the cases. UPDATE=1 writes it.
func TestOthersPage(t *testing.T) {
	const page = "../integration/OTHERS.md"
	var b strings.Builder
	b.WriteString("# The tests of other lock libraries\n\n" +
		"Each case of their tests of locks is run here by its name, in `lock/others_test.go` (`go test -run TestOthers ./lock`), " +
		"or a line says why it does not apply. This page is written from that file (`UPDATE=1`).\n\n" +
		"Curator at 88dee99a, DistributedLock at 3da3eaf, kazoo 2.8; `make kazoo` runs all of kazoo's own tests on `holdfast dev`.\n")
	for _, s := range otherSuites {
		fmt.Fprintf(&b, "\n## %s: %s\n\n| case | here |\n|---|---|\n", s.library, s.file)
		for _, c := range s.cases {
			here := "the same"
			switch {
			case c.run == nil:
				here = "does not apply: " + c.say
			case c.say != "":
				here = c.say
			}
			fmt.Fprintf(&b, "| %s | %s |\n", c.name, here)
		}
	}
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != b.String() {
		t.Errorf("%s is stale: UPDATE=1 go test -run TestOthersPage ./lock", page)
	}
}

// holders counts the permits that are held at one time.
type holders struct {
	w    *world
	mu   sync.Mutex
	now  int
	peak int
}

// enter counts n more permits as held, and checks that no more than most are held.
func (h *holders) enter(n, most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now += n
	h.peak = max(h.peak, h.now)
	if h.now > most {
		h.w.Errorf("%d hold it, and %d may", h.now, most)
	}
}

func (h *holders) leave(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now -= n
}

// together runs f n times at once, and waits until all have ended.
func together(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// timeout returns a context that ends after five seconds, for a call that waits in vain.
func timeout(w *world, parent context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(parent, 5*time.Second)
}

func heldWhileItRuns(w *world) {
	m := w.client("a").Mutex("x")
	w.ok(m.Do(w.ctx, func(ctx context.Context) error {
		w.hasEntries("x", 1)
		return ctx.Err()
	}))
	w.empty()
}

func serverRestarts(w *world) {
	a, b := w.client("a"), w.client("b")
	h := w.lock(a, "x")
	waiter := w.queue(w.ctx, b, "x")
	w.ok(w.Stop(w.Servers()[0]))
	time.Sleep(2 * time.Second)
	w.ok(w.Start(w.Servers()[0]))
	time.Sleep(2 * time.Second)
	w.waits(waiter)
	w.unlock(h)
	w.finish(w.await(waiter).hold)
}

func sessionKilled(w *world) {
	a, b := w.client("a"), w.client("b")
	h := w.lock(a, "x")
	waiter := w.queue(w.ctx, b, "x")
	w.ExpireLabel("a")
	w.ExpireLabel("b")
	time.Sleep(time.Minute)
	w.waits(waiter)
	w.ok(h.Err())
	w.unlock(h)
	w.finish(w.await(waiter).hold)
}

func parentGoes(w *world) {
	m := w.client("a").Mutex("x")
	together(10, func(int) {
		w.ok(m.Do(w.ctx, func(context.Context) error { time.Sleep(10 * time.Millisecond); return nil }))
	})
	w.empty()
}

func otherRoot(w *world) {
	h := w.lock(w.client("a", lock.WithRoot("/test")), "x")
	if _, there := w.Node("/test/x"); !there || !strings.HasPrefix(h.EntryPath(), "/test/x/") {
		w.Errorf("the entry is %s", h.EntryPath())
	}
	w.finish(h)
}

func manyGoroutines(w *world) {
	in := &holders{w: w}
	shared := w.client("shared").Mutex("x")
	together(100, func(i int) {
		m := shared
		if i%10 == 0 {
			m = w.client(fmt.Sprint("client ", i)).Mutex("x")
		}
		h, err := m.Lock(w.ctx)
		w.ok(err)
		in.enter(1, 1)
		time.Sleep(10 * time.Millisecond)
		in.leave(1)
		w.unlock(h)
	})
	w.empty()
}

func reentry(w *world) {
	m := w.client("a").Mutex("x")
	w.ok(m.Do(w.ctx, func(ctx context.Context) error {
		return m.Do(ctx, func(ctx context.Context) error {
			inner, err := m.Lock(ctx)
			w.ok(err)
			w.hasEntries("x", 1)
			return inner.Unlock()
		})
	}))
	w.empty()
}

func reentryExcludesOthers(w *world) {
	m := w.client("a").Mutex("x")
	outer, err := m.Lock(w.ctx)
	w.ok(err)
	inner, err := m.Lock(outer.Context())
	w.ok(err)
	ctx, cancel := timeout(w, w.ctx)
	defer cancel()
	_, err = m.Lock(ctx)
	fails(w, err, lock.ErrHeld)
	w.unlock(inner)
	w.ok(outer.Err())
	w.finish(outer)
}

func twoClients(w *world) {
	h := w.lock(w.client("a"), "x")
	waiter := w.queue(w.ctx, w.client("b"), "x")
	time.Sleep(time.Minute)
	w.waits(waiter)
	w.unlock(h)
	w.finish(w.expect(waiter).hold)
}

func revoking(w *world) {
	a, b := w.client("a"), w.client("b")
	h := w.lock(a, "x")
	waiter := w.queue(w.ctx, b, "x")
	w.ok(b.Revoke(w.ctx, "x", "wanted"))
	<-h.Revoked()
	w.unlock(h)
	w.finish(w.await(waiter).hold)
}

func persistent(w *world) {
	h := w.lock(w.client("a"), "x")
	w.ExpireLabel("a")
	time.Sleep(time.Minute)
	equal(w, "owner of the entry's node", w.node(h.EntryPath()).Stat.EphemeralOwner, 0)
	w.finish(h)
}

func someReleaseFails(w *world) {
	hs := w.lockAll(w.client("a"), "x", "y")
	w.remove(w.raw("stranger"), hs.Hold("x").EntryPath())
	fails(w, hs.Unlock(), lock.ErrLost)
	w.empty()
}

func someLockFails(w *world) {
	z := w.raw("stranger")
	for _, p := range []string{lock.DefaultRoot, lock.DefaultRoot + "/y"} {
		w.create(z, p, "", 0)
	}
	w.setACL(z, lock.DefaultRoot+"/y", zk.WorldACL(zk.PermRead))
	_, err := w.client("a").All([]string{"x", "y"}).Lock(w.ctx)
	fails(w, err, lock.ErrDenied)
	time.Sleep(5 * time.Second)
	equalAll(w, "nodes", w.nodes(), []string{lock.DefaultRoot + "/y"})
}

func participants(w *world) {
	var held []*lock.Hold
	for i := range 20 {
		h, err := w.client(fmt.Sprint("reader ", i)).RWMutex("x").RLock(w.ctx)
		w.ok(err)
		held = append(held, h)
	}
	var writers []<-chan taken
	for i := range 8 {
		writers = append(writers, w.join("x", w.client(fmt.Sprint("writer ", i)).RWMutex("x").Lock))
	}
	state, err := admin.New(w.client("admin")).Inspect(w.ctx, "x")
	w.ok(err)
	equal(w, "contenders listed", len(state.Contenders), 28)
	w.hasEntries("x", 28)
	w.unlock(held...)
	for _, ch := range writers {
		w.unlock(w.await(ch).hold)
	}
	w.empty()
}

func noUpgrade(w *world) {
	m := w.client("a").RWMutex("x")
	h, err := m.RLock(w.ctx)
	w.ok(err)
	_, err = m.Lock(h.Context())
	fails(w, err, lock.ErrUpgrade)
	ctx, cancel := timeout(w, w.ctx)
	defer cancel()
	_, err = m.Lock(ctx)
	fails(w, err, lock.ErrHeld)
	w.finish(h)
}

func downgradingRespectsOthers(w *world) {
	m := w.client("a").RWMutex("x")
	h, err := m.Lock(w.ctx)
	w.ok(err)
	ctx, cancel := timeout(w, w.ctx)
	defer cancel()
	_, err = m.RLock(ctx)
	fails(w, err, lock.ErrHeld)
	w.finish(h)
}

func downgrading(w *world) {
	m := w.client("a").RWMutex("x")
	h, err := m.Lock(w.ctx)
	w.ok(err)
	w.ok(lock.RWMutexOf(h).Downgrade(w.ctx, h))
	other, err := w.client("b").RWMutex("x").RLock(w.ctx)
	w.ok(err)
	w.finish(h, other)
}

func contendingDowngrading(w *world) {
	h, err := w.client("a").RWMutex("x").Lock(w.ctx)
	w.ok(err)
	writer := w.join("x", w.client("b").RWMutex("x").Lock)
	w.ok(lock.RWMutexOf(h).Downgrade(w.ctx, h))
	time.Sleep(time.Minute)
	w.waits(writer)
	w.unlock(h)
	w.finish(w.await(writer).hold)
}

func readersAndWriters(w *world) {
	const most = 1000
	in := &holders{w: w}
	together(8, func(i int) {
		m, rnd := w.client(fmt.Sprint("client ", i)).RWMutex("x"), rand.New(rand.NewPCG(1, uint64(i)))
		for range 100 {
			take, may, n := m.RLock, most, 1
			if rnd.IntN(10) == 0 {
				take, may, n = m.Lock, most, most // a writer counts as all readers
			}
			h, err := take(w.ctx)
			w.ok(err)
			in.enter(n, may)
			time.Sleep(time.Duration(1+rnd.IntN(9)) * time.Millisecond)
			in.leave(n)
			w.unlock(h)
		}
	})
	isTrue(w, in.peak > 1, "no two readers at one time")
	w.empty()
}

func metadataCopied(w *world) {
	data := map[string]string{"k": "1"}
	m := w.client("a").RWMutex("x", lock.WithMetadata(data))
	data["k"] = "2"
	h, err := m.Lock(w.ctx)
	w.ok(err)
	equal(w, "metadata", w.record(h.EntryPath()).Metadata["k"], "1")
	w.finish(h)
}

func lockPath(w *world) {
	h, err := w.client("a").RWMutex("x").Lock(w.ctx)
	w.ok(err)
	before := h.EntryPath()
	w.ExpireLabel("a")
	reader := w.join("x", w.client("b").RWMutex("x").RLock)
	time.Sleep(time.Minute)
	w.waits(reader)
	equal(w, "entry", h.EntryPath(), before)
	w.unlock(h)
	w.finish(w.await(reader).hold)
}

func semaphoreLostServer(w *world) {
	c, in := w.client("a"), &holders{w: w}
	done := async(func() error {
		together(10, func(int) {
			for range 20 {
				h, err := c.Semaphore("x", 1).Acquire(w.ctx, 1)
				w.ok(err)
				in.enter(1, 1)
				time.Sleep(100 * time.Millisecond)
				in.leave(1)
				if err := h.Unlock(); err != nil && !errors.Is(err, lock.ErrLost) {
					w.Error(err)
				}
			}
		})
		return nil
	})
	time.Sleep(time.Second)
	w.ok(w.Stop(w.Servers()[0]))
	time.Sleep(2 * sessionTimeout)
	w.ok(w.Start(w.Servers()[0]))
	w.ok(<-done)
	w.empty()
}

func leaseIncrease(w *world) {
	s := w.client("a").Semaphore("x", 1)
	h := w.take(permits(s, 1))
	waiter := w.join("x", permits(w.client("b").Semaphore("x", 1), 1))
	w.waits(waiter)
	w.ok(s.Resize(w.ctx, 2))
	w.finish(h, w.await(waiter).hold)
}

func clientClose(w *world) {
	a := w.client("a")
	w.take(permits(a.Semaphore("x", 1), 1))
	waiter := w.join("x", permits(w.client("b").Semaphore("x", 1), 1))
	w.close(a)
	w.finish(w.await(waiter).hold)
}

func chunks(w *world) {
	const capacity = 11
	in := &holders{w: w}
	together(10, func(i int) {
		s, rnd := w.client(fmt.Sprint("client ", i)).Semaphore("x", capacity), rand.New(rand.NewPCG(2, uint64(i)))
		for range 20 {
			n := 1 + rnd.IntN(capacity)
			h, err := s.Acquire(w.ctx, n)
			w.ok(err)
			in.enter(n, capacity)
			time.Sleep(time.Duration(rnd.IntN(25)) * time.Millisecond)
			in.leave(n)
			w.unlock(h)
		}
	})
	w.empty()
}

func allPermitsUsed(w *world) {
	const capacity = 5
	in := &holders{w: w}
	together(10, func(i int) {
		s := w.client(fmt.Sprint("client ", i)).Semaphore("x", capacity)
		for range 10 {
			h, err := s.Acquire(w.ctx, 1)
			w.ok(err)
			in.enter(1, capacity)
			time.Sleep(30 * time.Millisecond)
			in.leave(1)
			w.unlock(h)
		}
	})
	equal(w, "most at one time", in.peak, capacity)
	w.empty()
}

func onePermit(w *world) {
	s, in := w.client("a").Semaphore("x", 1), &holders{w: w}
	together(10, func(int) {
		h, err := s.Acquire(w.ctx, 1)
		w.ok(err)
		in.enter(1, 1)
		time.Sleep(time.Millisecond)
		in.leave(1)
		w.unlock(h)
	})
	w.empty()
}

func onePermitTwice(w *world) {
	s := w.client("a").Semaphore("x", 1)
	h := w.take(permits(s, 1))
	_, err := s.TryAcquire(w.ctx, 1)
	fails(w, err, lock.ErrHeld)
	ctx, cancel := timeout(w, w.ctx)
	defer cancel()
	_, err = s.Acquire(ctx, 1)
	fails(w, err, context.DeadlineExceeded)
	w.unlock(h)
	w.finish(w.take(tryPermits(s, 1)))
}

func threePermits(w *world) {
	a, b := w.client("a").Semaphore("x", 3), w.client("b").Semaphore("x", 3)
	held := []*lock.Hold{w.take(permits(a, 1))}
	w.unlock(w.take(permits(b, 1)))
	held = append(held, w.take(permits(a, 1)), w.take(permits(a, 1)))
	for _, s := range []*lock.Semaphore{a, b} {
		_, err := s.TryAcquire(w.ctx, 1)
		fails(w, err, lock.ErrHeld)
	}
	w.unlock(held[0])
	w.finish(append(held[1:], w.take(permits(b, 1)))...)
}

func semaphoreParticipants(w *world) {
	s := w.dial("a").Semaphore("x", 3)
	var held []*lock.Hold
	for range 3 {
		held = append(held, w.take(permits(s, 1)))
	}
	w.hasEntries("x", 3)
	w.finish(held...)
}

func waiterDeleted(w *world) {
	s := w.client("a").Semaphore("x", 1)
	h := w.take(permits(s, 1))
	waiter := w.join("x", permits(w.client("b").Semaphore("x", 1), 1))
	entries := w.entries("x")
	w.remove(w.raw("stranger"), entries[len(entries)-1].Path)
	later := w.join("x", permits(w.client("c").Semaphore("x", 1), 1))
	time.Sleep(time.Minute)
	w.waits(waiter, later)
	w.unlock(h)
	for range 2 {
		select {
		case got := <-waiter:
			w.ok(got.err)
			w.unlock(got.hold)
		case got := <-later:
			w.ok(got.err)
			w.unlock(got.hold)
		}
	}
	w.empty()
}

func interrupted(w *world) {
	h := w.lock(w.client("a"), "x")
	ctx, cancel := context.WithCancel(w.ctx)
	waiter := w.queue(ctx, w.client("b"), "x")
	w.hasEntries("x", 2)
	cancel()
	fails(w, w.outcome(waiter).err, context.Canceled)
	w.hasEntries("x", 1)
	w.unlock(h)
	w.finish(w.lock(w.client("c"), "x"))
}

func semaphoreSessionKilled(w *world) {
	h := w.take(permits(w.client("a").Semaphore("x", 1), 1))
	waiter := w.join("x", permits(w.client("b").Semaphore("x", 1), 1))
	w.ExpireLabel("a")
	w.ExpireLabel("b")
	time.Sleep(time.Minute)
	w.waits(waiter)
	w.unlock(h)
	w.finish(w.await(waiter).hold)
}

func otherPermits(w *world) {
	c := w.client("a")
	h := w.take(permits(c.Semaphore("x", 1), 1))
	_, err := w.client("b").Semaphore("x", 2).Acquire(w.ctx, 1)
	fails(w, err, lock.ErrPermits)
	w.finish(h)
}

func foreignData(w *world) {
	z := w.raw("stranger")
	w.create(z, lock.DefaultRoot, "", 0)
	w.create(z, lock.DefaultRoot+"/x", "a string", 0)
	_, err := w.client("a").Semaphore("x", 1).Acquire(w.ctx, 1)
	fails(w, err, lock.ErrForeign)
}

func killedServer(w *world) {
	restart(w, func() {}, 1)
}

func cluster(w *world) {
	c, in := w.client("other"), &holders{w: w}
	stop := make(chan struct{})
	done := async(func() error {
		for {
			select {
			case <-stop:
				return nil
			default:
			}
			h, err := c.Semaphore("y", 1).Acquire(w.ctx, 1)
			if err != nil {
				return err
			}
			in.enter(1, 1)
			time.Sleep(50 * time.Millisecond)
			in.leave(1)
			if err := h.Unlock(); err != nil && !errors.Is(err, lock.ErrLost) {
				return err
			}
		}
	})
	restart(w, func() {}, 5)
	close(stop)
	w.ok(<-done)
	w.empty()
}

// restart checks that a hold of a permit and its waiter survive restarts of the servers. It calls
// between after each restart.
func restart(w *world, between func(), times int) {
	h := w.take(permits(w.client("a").Semaphore("x", 1), 1))
	waiter := w.join("x", permits(w.client("b").Semaphore("x", 1), 1))
	for i := range times {
		server := w.Servers()[i%len(w.Servers())]
		w.ok(w.Stop(server))
		time.Sleep(2 * time.Second)
		w.ok(w.Start(server))
		time.Sleep(2 * time.Second)
		between()
	}
	w.ok(h.Err())
	w.waits(waiter)
	w.unlock(h)
	w.unlock(w.await(waiter).hold)
}

func lockACLs(w *world) {
	acl := zk.DigestACL(zk.PermAll, "user", "password")
	c := w.client("a", lock.WithDigest("user", "password"), lock.WithACL(acl...))
	h := w.lock(c, "deep/x")
	z := w.raw("admin")
	w.ok(z.AddAuth("digest", []byte("user:password")))
	for _, p := range []string{h.EntryPath(), lock.DefaultRoot + "/deep/x", lock.DefaultRoot + "/deep"} {
		got, _, err := z.GetACL(p)
		w.ok(err)
		equal(w, "ACL of "+p, fmt.Sprint(got), fmt.Sprint(acl))
	}
	_, err := w.client("b").Mutex("deep/x").TryLock(w.ctx)
	fails(w, err, lock.ErrDenied)
	w.unlock(h)
}

func faultLeavesNothing(w *world) {
	c := w.client("a")
	w.unlock(w.lock(c, "other"))
	blocker := w.lock(w.client("b"), "x")
	w.Intercept(func(r locktest.Request) locktest.Fault {
		if r.Label == "a" && touches(r, "/x") && !joins(r) {
			return locktest.Fault{Code: codeNoAuth}
		}
		return locktest.Fault{}
	})
	_, err := c.Mutex("x").Lock(w.ctx)
	fails(w, err, lock.ErrDenied)
	w.Intercept(nil)
	settle()
	w.hasEntries("x", 1)
	w.finish(blocker)
}

func inTurn(w *world) {
	h := w.lock(w.client("a"), "x")
	var queue []<-chan taken
	for i := range 5 {
		queue = append(queue, w.queue(w.ctx, w.client(fmt.Sprint("client ", i)), "x"))
	}
	for _, ch := range queue {
		w.waits(queue[len(queue)-1])
		w.unlock(h)
		h = w.await(ch).hold
		queue = queue[1:]
	}
	w.finish(h)
}

func nonBlocking(w *world) {
	a := w.client("a")
	h, err := a.Mutex("x").TryLock(w.ctx)
	w.ok(err)
	for _, c := range []*lock.Client{a, w.client("b")} {
		_, err := c.Mutex("x").TryLock(w.ctx)
		fails(w, err, lock.ErrHeld)
	}
	other, err := a.Mutex("x2").TryLock(w.ctx)
	w.ok(err)
	w.unlock(h, other)
	h, err = a.Mutex("x").TryLock(w.ctx)
	w.ok(err)
	w.finish(h)
}

func nonBlockingMany(w *world) {
	h := w.lock(w.client("a"), "x")
	c := w.client("b")
	together(20, func(int) {
		_, err := c.Mutex("x").TryLock(w.ctx)
		fails(w, err, lock.ErrHeld)
	})
	w.finish(h)
}

func lostReply(w *world) {
	c := w.client("a")
	w.unlock(w.lock(c, "other"))
	w.fault(func(r locktest.Request) bool { return r.Label == "a" && joins(r) }, locktest.Fault{Drop: locktest.AfterApply})
	w.finish(w.lock(c, "x"))
}

func reacquire(w *world) {
	c := w.client("a")
	for range 2 {
		w.unlock(w.lock(c, "x"))
	}
	w.empty()
}

func reacquirePermit(w *world) {
	s := w.client("a").Semaphore("x", 1)
	for range 2 {
		w.unlock(w.take(permits(s, 1)))
	}
	w.empty()
}

func timesOut(w *world) {
	h := w.lock(w.client("a"), "x")
	ctx, cancel := timeout(w, w.ctx)
	defer cancel()
	began := time.Now()
	_, err := w.client("b").Mutex("x").Lock(ctx)
	fails(w, err, context.DeadlineExceeded)
	fails(w, err, lock.ErrHeld)
	settle()
	inRange(w, "time", time.Since(began), 5*time.Second, 6*time.Second)
	w.hasEntries("x", 1)
	w.finish(h)
}

func readLock(w *world) {
	a, b := w.client("a").RWMutex("x"), w.client("b").RWMutex("x")
	first, err := a.RLock(w.ctx)
	w.ok(err)
	second, err := b.RLock(w.ctx)
	w.ok(err)
	_, err = b.TryLock(w.ctx)
	fails(w, err, lock.ErrHeld)
	w.unlock(first, second)
	writer, err := b.TryLock(w.ctx)
	w.ok(err)
	_, err = a.TryRLock(w.ctx)
	fails(w, err, lock.ErrHeld)
	w.finish(writer)
}

func writeLock(w *world) {
	h, err := w.client("a").RWMutex("x").Lock(w.ctx)
	w.ok(err)
	reader := w.join("x", w.client("b").RWMutex("x").RLock)
	w.waits(reader)
	w.unlock(h)
	w.finish(w.await(reader).hold)
}

func writerFirst(w *world) {
	h, err := w.client("a").RWMutex("x").RLock(w.ctx)
	w.ok(err)
	writer := w.join("x", w.client("b").RWMutex("x").Lock)
	reader := w.join("x", w.client("c").RWMutex("x").RLock)
	w.waits(writer, reader)
	w.unlock(h)
	first := w.await(writer)
	w.waits(reader)
	w.unlock(first.hold)
	w.finish(w.await(reader).hold)
}

func releaseTwice(w *world) {
	c := w.client("a")
	h := w.lock(c, "x")
	w.unlock(h)
	next := w.lock(c, "x")
	fails(w, h.Unlock(), lock.ErrUnlocked)
	w.ok(next.Err())
	w.finish(next)
}

func badArguments(w *world) {
	c := w.client("a")
	for _, name := range []string{"", "/", ".", "..", "a//b", "abc\x00", "\u001f\u009f\uf8ff\ufff1"} {
		fails(w, second(c.Mutex(name).Lock(w.ctx)), lock.ErrInvalid)
		fails(w, second(c.RWMutex(name).RLock(w.ctx)), lock.ErrInvalid)
	}
	for _, n := range []int{0, -1} {
		fails(w, second(c.Semaphore("x", n).Acquire(w.ctx, 1)), lock.ErrInvalid)
		fails(w, second(c.Semaphore("x", 1).Acquire(w.ctx, n)), lock.ErrInvalid)
	}
	w.empty()
}

func caseSensitive(w *world) {
	c := w.client("a")
	w.finish(w.lock(c, "name_a"), w.lock(c, "name_A"))
}

func canceledBefore(w *world) {
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	m := w.client("a").Mutex("x")
	fails(w, second(m.Lock(ctx)), context.Canceled)
	fails(w, second(m.TryLock(ctx)), context.Canceled)
	w.empty()
}

func lossIsTold(w *world) {
	c := w.client("a")
	h := w.lock(c, "x")
	select {
	case <-h.Context().Done():
		w.Error("told of a loss that did not happen")
	default:
	}
	w.unlock(h)
	h = w.lock(c, "x")
	w.remove(w.raw("stranger"), h.EntryPath())
	<-h.Context().Done()
	fails(w, h.Err(), lock.ErrLost)
	fails(w, h.Unlock(), lock.ErrLost)
	isTrue(w, h.Context().Err() != nil, "the context has forgotten it")
	w.empty()
}

func abandoned(w *world) {
	a := w.client("a")
	w.lock(a, "x")
	runtime.GC()
	waiter := w.queue(w.ctx, w.client("b"), "x")
	time.Sleep(time.Minute)
	w.waits(waiter)
	w.close(a)
	w.finish(w.await(waiter).hold)
}

func killedHolder(w *world) {
	w.lock(w.client("a"), "x")
	waiter := w.queue(w.ctx, w.client("b"), "x")
	began := time.Now()
	w.kill("a")
	next := w.await(waiter)
	inRange(w, "time until the next one enters", next.at.Sub(began), ttl/2, ttl+2*grace)
	w.unlock(next.hold)
}

func manyPermits(w *world) {
	s := w.client("a").Semaphore("x", lock.MaxPermits)
	var held []*lock.Hold
	for range 100 {
		held = append(held, w.take(permits(s, 1)))
	}
	w.finish(held...)
}

func keptParent(w *world) {
	c := w.client("a", lock.WithPolicies(policies{TTL: ttl, Grace: grace, KeepParent: true}))
	for range 2 {
		w.unlock(w.lock(c, "x"))
		time.Sleep(5 * time.Second)
		w.node(lock.DefaultRoot + "/x")
	}
}

func invalidACL(w *world) {
	wrong := zk.DigestACL(zk.PermAll, "user", "other")
	_, err := w.client("a", lock.WithDigest("user", "password"), lock.WithACL(wrong...)).Mutex("x").Lock(w.ctx)
	fails(w, err, lock.ErrDenied)
	w.finish(w.lock(w.client("b"), "y"))
}

func deep(w *world) {
	h := w.lock(w.client("a"), "foo/bar/baz/qux")
	w.unlock(h)
	time.Sleep(5 * time.Second)
	equalAll(w, "nodes", w.nodes(), []string{lock.DefaultRoot + "/foo", lock.DefaultRoot + "/foo/bar", lock.DefaultRoot + "/foo/bar/baz"})
}
