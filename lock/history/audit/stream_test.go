// A real log, and parts of it: clients of all kinds of locks, on an ensemble in memory.

package audit_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/robfig/cron/v3"
	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast/integration/audited"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/internal/bubble"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/schedule"
	"github.com/holdfast-io/holdfast/lock/znode"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ttl     = 10 * time.Second
	grace   = time.Second
	timeout = 4 * time.Second
)

// scene has two clients, a and b, and a connection of another program.
type scene struct {
	*bubble.World
	a, b  *lock.Client
	other *zk.Conn
	wg    sync.WaitGroup
}

func (s *scene) dial(owner string) *lock.Client {
	s.Helper()
	c, err := lock.Dial(s.Ctx, s.Servers(), lock.WithDialer(s.Dialer(owner)), lock.WithTTL(ttl), lock.WithGrace(grace),
		lock.WithSessionTimeout(timeout), lock.WithOwner(owner))
	s.ok(err)
	return c
}

func (s *scene) ok(err error) {
	s.Helper()
	iferr.Fatal(s, err)
}

type unlocker interface{ Unlock() error }

// hold makes one client hold a lock for seven seconds, and then another client, which waits
// meanwhile. In seven seconds a hold is renewed.
func (s *scene) hold(first, second func() (unlocker, error)) {
	s.Helper()
	h, err := first()
	s.ok(err)
	s.wg.Go(func() {
		h, err := second()
		s.ok(err)
		time.Sleep(7 * time.Second)
		s.ok(h.Unlock())
	})
	time.Sleep(7 * time.Second)
	s.ok(h.Unlock())
	s.wg.Wait()
	time.Sleep(2 * time.Second) // until the parent is deleted
}

// play uses all kinds of locks, and returns the log.
func play(t *testing.T) (log []txnlog.Txn) {
	t.Helper()
	bubble.Run(t, locktest.Options{}, 5*time.Second, func(b *bubble.World) {
		b.Observe(func(x locktest.Txn) { log = append(log, audited.Logged(x)) })
		s := &scene{World: b}
		s.a, s.b, s.other = s.dial("a"), s.dial("b"), s.Plain("other", timeout, new(zk.DNSHostProvider))
		s.locks()
		s.entries()
		s.others()
		s.job()
		s.ok(s.a.Close())
		s.ok(s.b.Close())
	})
	return log
}

func (s *scene) locks() {
	s.hold(func() (unlocker, error) { return s.a.Mutex("mutex").Lock(s.Ctx) },
		func() (unlocker, error) { return s.b.Mutex("mutex").Lock(s.Ctx) })
	s.hold(func() (unlocker, error) { return s.a.RWMutex("pages").Lock(s.Ctx) },
		func() (unlocker, error) { return s.b.RWMutex("pages").RLock(s.Ctx) })
	s.hold(func() (unlocker, error) { return s.a.Semaphore("slots", 2).Acquire(s.Ctx, 2) },
		func() (unlocker, error) { return s.b.Semaphore("slots", 2).Acquire(s.Ctx, 1) })

	lead := func(c *lock.Client, value string) func() (unlocker, error) {
		return func() (unlocker, error) { return c.Election("chair").Campaign(s.Ctx, value) }
	}
	s.hold(lead(s.a, "A"), lead(s.b, "B"))

	h, err := s.a.RWMutex("shared").Lock(s.Ctx)
	s.ok(err)
	s.ok(s.a.RWMutex("shared").Downgrade(s.Ctx, h))
	reader, err := s.b.RWMutex("shared").RLock(s.Ctx)
	s.ok(err)
	time.Sleep(7 * time.Second)
	s.ok(h.Unlock())
	s.ok(reader.Unlock())

	h, err = s.a.Semaphore("resized", 4).Acquire(s.Ctx, 1)
	s.ok(err)
	s.ok(s.b.Semaphore("resized", 4).Resize(s.Ctx, 2))
	s.ok(h.Unlock())
}

func (s *scene) entries() {
	h, err := s.a.Mutex("moved").Lock(s.Ctx)
	s.ok(err)
	ticket, err := h.Detach(s.Ctx, ttl)
	s.ok(err)
	h, err = s.b.Attach(s.Ctx, ticket)
	s.ok(err)
	s.ok(h.Unlock())

	h, err = s.a.Mutex("broken").Lock(s.Ctx)
	s.ok(err)
	br, err := admin.New(s.b).Break(s.Ctx, h.EntryPath(), znode.Broken{Owner: "b", Reason: "test"})
	s.ok(err)
	s.ok(br.Wait(s.Ctx, lock.Policy{TTL: ttl, Grace: grace}))
	_ = h.Unlock()

	h, err = s.a.Mutex("ledger").Lock(s.Ctx)
	s.ok(err)
	s.ok(h.Txn(s.Ctx, lock.OpCreate("/paid", []byte("42"), 0, zk.WorldACL(zk.PermAll))))
	waits, cancel := context.WithCancel(s.Ctx)
	s.wg.Go(func() { _, _ = s.b.Mutex("ledger").Lock(waits) })
	time.Sleep(5 * time.Second)
	cancel()
	s.wg.Wait()
	s.ok(h.Unlock())

	dies := s.dial("c")
	_, err = dies.Mutex("dead").Lock(s.Ctx)
	s.ok(err)
	s.ok(s.Partition("c"))
	h, err = s.b.Mutex("dead").Lock(s.Ctx)
	s.ok(err)
	s.ok(h.Unlock())
	_ = dies.Close()
}

func (s *scene) others() {
	acl := zk.WorldACL(zk.PermAll)
	for path, data := range map[string]string{"/locks/found": "", "/locks/theirs": "10.0.0.1"} {
		_, err := s.other.Create(path, []byte(data), 0, acl)
		s.ok(err)
	}
	h, err := s.a.Mutex("found").Lock(s.Ctx)
	s.ok(err)
	path, err := s.other.Create("/locks/found/_c_0000-lock-", nil, zk.FlagEphemeral|zk.FlagSequence, acl)
	s.ok(err)
	time.Sleep(5 * time.Second)
	s.ok(h.Unlock())
	s.ok(s.other.Delete(path, -1))
	for _, path := range []string{"/alive", "/alive", "/alive-to-the-end"} { // two are deleted, the third one ends with the session
		_, err = s.other.Create(path, nil, zk.FlagEphemeral, acl)
		s.ok(err)
		if path == "/alive" {
			s.ok(s.other.Delete(path, -1))
		}
	}
	s.other.Close()
	time.Sleep(2 * time.Second)
}

func (s *scene) job() {
	job, err := schedule.New(s.a, "export", cron.Every(2*time.Second), schedule.Options{})
	s.ok(err)
	ctx, cancel := context.WithTimeout(s.Ctx, 7*time.Second)
	defer cancel()
	_ = job.Run(ctx, func(context.Context, *schedule.Turn) error { return nil })
}

// judged audits a log that begins with the nodes of a snapshot; nil: in the middle.
func judged(log []txnlog.Txn, initial []txnlog.Node, o audit.Options) *audit.Report {
	a := audit.New(o)
	if initial != nil {
		before := log[0].Zxid - 1
		nodes := txnlog.Exact(before, seq(initial), txns(log), a.Keep)
		if len(initial) == 0 {
			nodes = nil
		}
		if err := a.Begin(before, nodes); err != nil {
			panic(err)
		}
	}
	for i := range log {
		a.Apply(&log[i])
	}
	return a.Report()
}

func TestRealLog(t *testing.T) {
	r := judged(play(t), []txnlog.Node{}, audit.Options{Grace: grace})
	for _, v := range r.Violations {
		t.Error(v)
	}
	t.Logf("%d transactions, judged %v, not judged %v, pending %d", r.Txns, r.Judged, r.Unjudged, r.Pending)
	for _, rule := range audit.Rules() {
		if rule != audit.Overlap && rule != audit.Foreign && r.Judged[rule] == 0 {
			t.Errorf("nothing was judged by the rule %s", rule)
		}
	}
}

// TestPartsOfALog: a log that is cut anywhere has no violations, whether the audit begins in the
// middle, after a gap, or with a snapshot, which may show some of the next transactions already.
func TestPartsOfALog(t *testing.T) {
	log := play(t)
	state := txnlog.NewState()
	for i := range log {
		nodes := slices.Collect(state.Nodes())
		for name, r := range map[string]*audit.Report{
			"in the middle":    judged(log[i:], nil, audit.Options{Grace: grace}),
			"with a snapshot":  judged(log[i:], append([]txnlog.Node{}, nodes...), audit.Options{Grace: grace}),
			"a fuzzy snapshot": judged(log[max(0, i-7):], append([]txnlog.Node{}, nodes...), audit.Options{Grace: grace}),
		} {
			for _, v := range r.Violations {
				t.Errorf("from 0x%x on, %s: %v", log[i].Zxid, name, v)
			}
			if len(r.Restored) > 0 {
				t.Errorf("from 0x%x on, %s: restored at %#x", log[i].Zxid, name, r.Restored)
			}
			if i < len(log)/2 && r.Total() == 0 {
				t.Errorf("from 0x%x on, %s: nothing was judged; not judged: %v", log[i].Zxid, name, r.Unjudged)
			}
		}
		gap := audit.New(audit.Options{Grace: grace})
		iferr.Fatal(t, gap.Begin(0, nil))
		for j := range log {
			if j == i {
				gap.Gap()
			}
			if j < i-5 || j >= i {
				gap.Apply(&log[j])
			}
		}
		for _, v := range gap.Report().Violations {
			t.Errorf("with a gap before 0x%x: %v", log[i].Zxid, v)
		}
		state.Apply(&log[i])
	}
}

// TestDisputedPartOfALog: a log of which five transactions may have been discarded has no violations,
// and was not restored, whether they were or not. Nor was one whose transactions are shared.
func TestDisputedPartOfALog(t *testing.T) {
	for name, log := range map[string][]txnlog.Txn{"": play(t), "shared": paired(play(t), 0), "shared with the next": paired(play(t), 1)} {
		for i := range log {
			for applied, next := range map[string]int{"applied": min(i+5, len(log)), "discarded": i} {
				r := disputing(log, i, next)
				for _, v := range r.Violations {
					if name == "" { // shared ones have the session of the first
						t.Errorf("five from 0x%x on, %s: %v", log[i].Zxid, applied, v)
					}
				}
				if len(r.Restored) > 0 {
					t.Errorf("%s: five from 0x%x on, %s: restored at %#x", name, log[i].Zxid, applied, r.Restored)
				}
			}
		}
	}
}

// paired returns a log whose transactions from the first on have the operations of two, except those that
// begin or end sessions.
func paired(log []txnlog.Txn, first int) (pairs []txnlog.Txn) {
	single := func(x txnlog.Txn) bool {
		return slices.ContainsFunc(x.Ops, func(o txnlog.Op) bool {
			return o.Kind == txnlog.OpBeginSession || o.Kind == txnlog.OpCloseSession
		})
	}
	pairs = append(pairs, log[:first]...)
	for i := first; i < len(log); i++ {
		x := log[i]
		if !single(x) && i+1 < len(log) && !single(log[i+1]) {
			i++
			x.Ops = slices.Concat(x.Ops, log[i].Ops)
		}
		pairs = append(pairs, x)
	}
	return pairs
}

// disputing audits a log whose five transactions from the i-th on are disputed. It goes on with the
// next-th.
func disputing(log []txnlog.Txn, i, next int) *audit.Report {
	a := audit.New(audit.Options{Grace: grace})
	if err := a.Begin(0, nil); err != nil {
		panic(err)
	}
	for j := range i {
		a.Apply(&log[j])
	}
	for _, x := range log[i:min(i+5, len(log))] {
		x.Disputed = true
		a.Apply(&x)
	}
	for j := next; j < len(log); j++ {
		a.Apply(&log[j])
	}
	return a.Report()
}
