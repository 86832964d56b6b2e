package reaper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// sweep is one pass over the trees of some policies. A limited number of walkers go down the
// trees. They judge each node after all nodes below it, and hand nodes to delete to the deleter.
type sweep struct {
	*Reaper
	*setup
	*progress
	walkers   chan struct{}           // one slot for each active walker, which has at most one request in flight
	deletions chan []deletion         // nodes that the deleter has to delete together
	rereads   sync.Mutex              // held while the nodes of a batch are read again
	stop      context.CancelCauseFunc // ends the whole sweep with an error; later errors are ignored

	mu     sync.Mutex
	report Report
	findings
	looked map[string]time.Time // time of the first visit to a node, by policy
}

// run sweeps the trees of the group's policies.
func (s *sweep) run(ctx context.Context) error {
	ctx, s.stop = context.WithCancelCause(ctx)
	defer s.stop(nil)

	answered := s.begin("a sample of the leader's clock")
	_, err := s.tree.Now(ctx)
	answered()
	switch {
	case errors.Is(err, zk.ErrNoNode):
		err = nil // no root: nothing to sweep
	case err == nil:
		deleted := make(chan struct{})
		go func() {
			defer close(deleted)
			s.deleteAll(ctx)
		}()
		s.walkers <- struct{}{}
		starts := starts(s.group.chosen)
		s.found.Add(int64(len(starts)))
		for _, name := range starts {
			s.visit(ctx, name)
		}
		close(s.deletions)
		<-deleted
		s.sweepInbox(ctx)
		s.memory.forget(s.tree.Monotonic())
		err = context.Cause(ctx)
	}
	s.report.Denied = s.findings[deniedByACL].first()
	s.report.Undecodable = s.findings[damaged].paths()
	s.report.Worn, s.report.Copied = s.findings[worn].paths(), s.findings[copied].paths()
	s.report.Complete = err == nil
	s.report.Duration = time.Since(s.began)
	s.report.Seconds = s.report.Duration.Seconds()
	s.report.Total.Seconds = s.report.Seconds
	if err != nil {
		return fmt.Errorf("sweep of %s is incomplete: %w", s.tree.Root(), err)
	}
	return nil
}

func (s *sweep) covers(p policy.Rule) bool { return s.report.Policies[p.Name] != nil }

// visit sweeps a node and all nodes below it. It reports whether the node will be deleted or does
// not exist.
//
// A lock with one live entry costs two reads: the list of the parent, and the entry. The parent
// itself is read last, and only if it has no live entry. So a parent without entries costs two
// reads, too. A remembered lock costs none.
func (s *sweep) visit(ctx context.Context, name string) (goes bool) {
	defer s.done.Add(1)
	if ctx.Err() != nil {
		return false
	}
	path := s.tree.Path(name)
	p := s.options.Policies.For(name)
	now := s.time() // once, because it costs a system call; judging by an earlier time is safe
	if name == "" || !s.covers(p) {
		below, err := s.list(ctx, path)
		if err != nil {
			return s.unread(ctx, path, "list", p.Name, err)
		}
		s.visitAll(ctx, name, below.nested)
		return false
	}
	if name == s.options.Lock {
		p.Name = "" // this lock is swept like any other, but counts for no policy
	}
	s.count(p.Name, func(*Counts) {})
	if seen := s.memory.live(name, now.mono); seen.live > 0 {
		s.used(p.Name, now, seen)
		s.count(p.Name, func(c *Counts) { c.Locks++ })
		return false
	}
	below, err := s.list(ctx, path)
	if err != nil {
		return s.unread(ctx, path, "list", p.Name, err)
	}
	usual := s.checkCounter(path, below, p.Name)
	staying := s.visitAll(ctx, name, below.nested)
	found := s.judgeEntries(ctx, path, below.entries, now, p)
	staying += found.staying
	together := found.expired
	switch {
	case found.use.live == 0:
		data, stat, err := s.read(ctx, path, p.Name)
		if err != nil {
			goes = s.unread(ctx, path, "read", p.Name, err)
			break
		}
		d := s.judgeParent(ctx, path, znode.ReadNode(data, znode.Stat(*stat)), staying, now, p)
		goes = d.verdict.Deletes()
		if goes {
			d.anchors, d.after = below.anchors, len(below.nested) > 0
			together = append(together, d)
		}
	case usual && int(found.use.live) == len(below.entries) && len(below.nested) == 0:
		s.memory.saw(name, found.use, now.mono+min(found.wait, p.OrphanAfter), now.Term)
		fallthrough
	default: // its entries show that the node is Holdfast's, and in use
		s.count(p.Name, func(c *Counts) { c.Locks++ })
	}
	if len(together) > 0 {
		s.hand(together)
	}
	return goes
}

// checkCounter looks at the counter of a lock's entries, and reports whether it is as usual: not worn,
// and beyond the numbers of all entries.
func (s *sweep) checkCounter(path string, below children, policy string) bool {
	usual := true
	if below.stat.Worn() && len(below.anchors)+len(below.entries) > 0 {
		usual = false
		s.find(worn, Denial{Path: path, What: "counter"}, policy, func(c *Counts) { c.Worn++ })
	}
	for _, n := range below.entries {
		if n.Copied(below.stat.Counter()) {
			usual = false
			s.find(copied, Denial{Path: path + "/" + n.Node, What: "sequence"}, policy, func(c *Counts) { c.Copied++ })
		}
	}
	return usual
}

// children are the children of a node, by kind.
type children struct {
	entries []znode.Name // entries in the order of the queue
	anchors []string     // anchors of the node, deleted with it
	nested  []string     // all other children, except the root's reserved nodes
	stat    znode.Stat   // of the node, from the same read
}

func (s *sweep) list(ctx context.Context, path string) (below children, err error) {
	answered := s.begin("the list of " + path)
	all, stat, err := s.tree.Children(ctx, path)
	answered()
	if err == nil {
		below.stat = znode.Stat(*stat)
	}
	below.nested = all[:0] // reuse the memory: there can be a million names
	for _, child := range all {
		if name, ok := znode.Parse(child); ok {
			below.entries = append(below.entries, name)
		} else if _, ok := znode.AnchorOf(child); ok {
			below.anchors = append(below.anchors, child)
		} else if !znode.Reserved(child) || path != s.tree.Root() {
			below.nested = append(below.nested, child)
			if child == "plan" && path != s.tree.Root() {
				s.mu.Lock()
				s.report.Groups = append(s.report.Groups, path[len(s.tree.Root())+1:])
				s.mu.Unlock()
			}
		}
	}
	slices.SortFunc(below.entries, znode.Compare)
	return below, err
}

// read reads a node, and counts the read for the policy.
func (s *sweep) read(ctx context.Context, path, policy string) ([]byte, *zk.Stat, error) {
	answered := s.begin("the data of " + path)
	data, stat, err := s.tree.Get(ctx, path)
	answered()
	if err == nil {
		s.count(policy, func(c *Counts) { c.Scanned++; c.Bytes += int64(len(data)) })
	}
	return data, stat, err
}

// hand passes nodes that must be deleted together to the deleter. It waits while the deleter is busy.
func (s *sweep) hand(together []deletion) {
	defer s.begin("the deletes of others, before that of " + together[0].Path)()
	s.deletions <- together
}

// visitAll visits the children of a node, and returns how many of them stay. It takes ownership of
// the list. A walker that takes a child starts another walker if the limit allows. While a walker
// waits for the walkers that it started, it frees its slot.
func (s *sweep) visitAll(ctx context.Context, name string, children []string) int {
	if len(children) == 0 {
		return 0
	}
	s.found.Add(int64(len(children)))
	waiting := newNames(children)
	children = nil // frees the list, which may be long
	var others sync.WaitGroup
	var staying atomic.Int64
	var walk func()
	walk = func() {
		for {
			child, more := waiting.take()
			if child == "" {
				return
			}
			if more {
				select {
				case s.walkers <- struct{}{}:
					others.Go(func() {
						defer func() { <-s.walkers }()
						walk()
					})
				default:
				}
			}
			if name != "" {
				child = name + "/" + child
			}
			if !s.visit(ctx, child) {
				staying.Add(1)
			}
		}
	}
	walk()
	<-s.walkers
	others.Wait()
	s.walkers <- struct{}{}
	return int(staying.Load())
}

// instant is the time at one moment: ensemble time, and this process's own clock.
type instant struct {
	admin.Time
	mono time.Duration
}

// time returns the present time, and passes it to the memory.
func (s *sweep) time() instant {
	now := instant{Time: s.tree.Estimate()}
	now.mono = s.tree.Monotonic() // after Estimate: the monotonic time must not be earlier
	s.memory.begin(now.Time, now.mono)
	return now
}

// judged has the results for the entries of a lock.
type judged struct {
	expired []deletion
	use     use
	staying int           // number of existing entries that have not expired
	wait    time.Duration // time until the first live entry can be deleted
}

// judgeEntries reads, judges and counts the entries of a lock.
func (s *sweep) judgeEntries(ctx context.Context, parent string, entries []znode.Name, now instant, p policy.Rule) judged {
	found := judged{wait: lock.MaxTime}
	for _, name := range entries {
		path := parent + "/" + name.Node
		data, stat, err := s.read(ctx, path, p.Name)
		if err != nil {
			if !s.unread(ctx, path, "read", p.Name, err) {
				found.staying++
			}
			continue
		}
		e := znode.ReadEntry(name, data, znode.Stat(*stat))
		var wait time.Duration
		d := s.judge(ctx, path, e.Stat, now, p.Name, Live, func(now admin.Time, seen time.Duration) (v Verdict) {
			v, wait = JudgeEntry(e, now, seen, p)
			return v
		})
		switch d.verdict {
		case Expired:
			s.late(p.Name, now, e.Expires(now.Time).Add(p.Grace))
			found.expired = append(found.expired, d)
			continue
		case Live:
			found.use.add(&e)
			found.wait = min(found.wait, wait)
		}
		found.staying++
	}
	s.used(p.Name, now, found.use)
	return found
}

// judgeParent judges and counts a node that is no entry. staying is the number of its children that
// stay, without anchors.
func (s *sweep) judgeParent(ctx context.Context, path string, n znode.Node, staying int, now instant, p policy.Rule) deletion {
	if n.Ours() && n.Kind != znode.Dir {
		s.count(p.Name, func(c *Counts) { c.Locks++ })
	}
	d := s.judge(ctx, path, n.Stat, now, p.Name, Young, func(now admin.Time, seen time.Duration) Verdict {
		return JudgeParent(n, staying, now, seen, p)
	})
	if d.verdict.Deletes() {
		s.late(p.Name, now, now.Ends(n.Stat, p.OrphanAfter))
	}
	return d
}

// maxProofs limits the calls of Prove for one verdict. A verdict may need a later sample of the clock
// and the epoch's mark (see the package comment), and both again after a change of the leader.
const maxProofs = 4

// judge returns the verdict on a node that was read, and counts the node. If the verdict needs a
// proof, judge requests it. If the verdict stays unproven, judge returns the verdict undecided. If an
// ACL refuses the proof, the node also counts as denied; any other error stops the sweep.
func (s *sweep) judge(
	ctx context.Context, path string, stat znode.Stat, now instant, policy string, undecided Verdict,
	verdict func(now admin.Time, seen time.Duration) Verdict,
) deletion {
	read := now.mono // the node was read at this time or later
	// In another session, the servers may number transactions from 0 again.
	if now.Sessions != s.tree.Estimate().Sessions {
		now = s.time()
	}
	v := verdict(now.Time, s.memory.since(stat.Mzxid, now))
	for try := 0; (v == Unproven || try == 0 && v.Deletes() && s.tree.Outdated()) && try < maxProofs; try++ {
		answered := s.begin("the proof of how old it is, of " + path)
		_, err := s.tree.Prove(ctx, now.Time, stat.Mzxid)
		answered()
		if err != nil {
			if v = undecided; errors.Is(err, zk.ErrNoAuth) {
				s.deny(path, "prove", policy, err)
			} else {
				s.stop(err)
			}
			break
		}
		now = s.time()
		v = verdict(now.Time, s.memory.since(stat.Mzxid, now))
	}
	if v == Unproven {
		v = undecided
	}
	s.counted(v, path, policy)
	return deletion{Deletion: admin.Deletion{Path: path, Version: stat.Version}, verdict: v, policy: policy, mzxid: stat.Mzxid, read: read}
}
