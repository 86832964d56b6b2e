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

// sweep is one pass over the trees of some policies: a bounded number of readers
// walk down, decide on each node once all below it is decided on, and hand what
// is to go to the deleter.
type sweep struct {
	*Reaper
	*setup
	*progress
	chosen map[string]bool // policies by name

	walkers   *gate           // those that walk are inside: each has one request in flight
	deletions chan []deletion // to the deleter: what goes together

	failed atomic.Pointer[error]
	stop   context.CancelFunc

	mu     sync.Mutex
	report Report
	denied *denials
	looked map[string]time.Time // when the first node of a policy was looked at
}

// entry is a contender's node, read or not yet.
type entry struct {
	znode.Name
	read *znode.Entry
}

// run sweeps what stands below the given names, the root's being "".
func (s *sweep) run(ctx context.Context, starts []string) (Report, error) {
	ctx, s.stop = context.WithCancel(ctx)
	defer s.stop()

	answered := s.begin("a sample of the leader's clock", "")
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
		s.walkers.enter()
		s.found.Add(int64(len(starts)))
		for _, name := range starts {
			s.visit(ctx, name)
		}
		close(s.deletions)
		<-deleted
		s.sweepInbox(ctx)
		s.memory.forget(s.tree.Monotonic())
		if failed := s.failed.Load(); failed != nil {
			err = *failed
		} else {
			err = context.Cause(ctx)
		}
	}
	for _, c := range s.report.Policies {
		s.report.Total.add(*c)
	}
	s.report.Denied = s.denied.first()
	s.report.Complete = err == nil
	s.report.Duration = time.Since(s.began)
	s.report.Seconds = s.report.Duration.Seconds()
	s.report.Total.Seconds = s.report.Seconds
	if err != nil {
		err = fmt.Errorf("sweep of %s is incomplete: %w", s.tree.Root(), err)
	}
	return s.report, err
}

// fail ends the sweep for a reason that concerns all of it.
func (s *sweep) fail(err error) {
	s.failed.CompareAndSwap(nil, &err)
	s.stop()
}

// visit sweeps a node and all below it. It reports whether the node goes, or has
// gone.
//
// Most locks cost two reads: of the parent, which tells what its only child is
// called, and of that. An empty parent costs one; and a lock that is remembered,
// because none of it can be deleted yet, costs none.
func (s *sweep) visit(ctx context.Context, name string) (goes bool) {
	defer s.done.Add(1)
	if ctx.Err() != nil {
		return false
	}
	path := s.tree.Path(name)
	p := s.options.Policies.For(name)
	now := s.time() // it costs a system call; to judge by an earlier time is safe
	if name == "" || !s.chosen[p.Name] {
		_, nested, err := s.list(ctx, path)
		if err != nil {
			return s.unread(ctx, path, "list", p.Name, err)
		}
		s.visitAll(ctx, name, nested)
		return false
	}
	if name == s.lock {
		p.Name = "" // it is swept as any other, but counts for nobody
	}
	s.count(p.Name, func(*Counts) {})
	if live := s.memory.live(name, now.mono); live > 0 {
		s.count(p.Name, func(c *Counts) { c.Locks++; c.Live += live })
		return false
	}
	data, stat, err := s.read(ctx, path, p.Name)
	if err != nil {
		return s.unread(ctx, path, "list", p.Name, err) // one permission is for both
	}
	parent := znode.ReadNode(data, znode.Stat(*stat))
	entries, nested, err := s.children(ctx, path, parent, p.Name)
	if err != nil {
		return s.unread(ctx, path, "list", p.Name, err)
	}
	staying := s.visitAll(ctx, name, nested)
	found := s.judgeEntries(ctx, path, entries, now, p)
	staying += found.staying
	together := found.expired
	switch {
	case found.live == 0:
		d := s.judgeParent(ctx, path, parent, staying, now, p)
		goes = d.verdict.Deletes()
		if goes {
			d.after = len(nested) > 0
			together = append(together, d)
		}
	case found.live == len(entries) && len(nested) == 0:
		s.memory.saw(name, found.live, now.mono+min(found.wait, p.OrphanAfter), now.Term)
		fallthrough
	default: // its entries tell that the node is ours, and in use
		s.count(p.Name, func(c *Counts) { c.Locks++ })
	}
	if len(together) > 0 {
		s.hand(together)
	}
	return goes
}

// children returns the entries of a lock, and its other children, by their names.
// The only child that a lock has is mostly the entry that joined last, whose name
// the parent tells: that there is a node of that name proves that it is the child.
// That there is none proves nothing.
func (s *sweep) children(ctx context.Context, path string, p znode.Node, policy string) (entries []entry, nested []string, err error) {
	if p.Stat.NumChildren == 0 {
		return nil, nil, nil
	}
	if name, ok := onlyChild(p); ok {
		n, err := s.get(ctx, path, name, policy)
		if err == nil {
			return []entry{{name, &n}}, nil, nil
		}
	}
	return s.list(ctx, path)
}

// list lists a node's children, entries and others.
func (s *sweep) list(ctx context.Context, path string) (entries []entry, nested []string, err error) {
	answered := s.begin("the list of", path)
	children, _, err := s.tree.Children(ctx, path)
	answered()            // no measure of the server: there can be a million
	nested = children[:0] // there can be a million
	for _, child := range children {
		if name, ok := znode.Parse(child); ok {
			entries = append(entries, entry{Name: name})
		} else if !znode.Reserved(child) || path != s.tree.Root() {
			nested = append(nested, child)
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return znode.Compare(a.Name, b.Name) })
	return entries, nested, err
}

// get reads a contender's node.
func (s *sweep) get(ctx context.Context, parent string, name znode.Name, policy string) (znode.Entry, error) {
	data, stat, err := s.read(ctx, parent+"/"+name.Node, policy)
	if err != nil {
		return znode.Entry{}, err
	}
	return znode.ReadEntry(name, data, znode.Stat(*stat)), nil
}

// read reads a node of a policy.
func (s *sweep) read(ctx context.Context, path, policy string) ([]byte, *zk.Stat, error) {
	answered := s.begin("the data of", path)
	data, stat, err := s.tree.Get(ctx, path)
	s.pace.answered(answered())
	if err == nil {
		s.count(policy, func(c *Counts) { c.Scanned++; c.Bytes += int64(len(data)) })
	}
	return data, stat, err
}

// hand hands over what goes together to the deleter.
func (s *sweep) hand(together []deletion) {
	select {
	case s.deletions <- together:
		return
	default:
	}
	taken := s.begin("the deletes of others, before that of", together[0].Path)
	s.deletions <- together
	taken()
}

// visitAll visits the children of a node, whose list becomes its own, and returns how
// many of them stay. Whoever takes the next one brings in another walker, if there may be
// one more, and who was brought in goes if there are too many; a walker that only waits
// for others lets another one in for itself.
func (s *sweep) visitAll(ctx context.Context, name string, children []string) int {
	if len(children) == 0 {
		return 0
	}
	s.found.Add(int64(len(children)))
	waiting := newNames(children)
	children = nil // which may be many
	var others sync.WaitGroup
	var staying atomic.Int64
	var walk func(mayGo bool)
	walk = func(mayGo bool) {
		for !mayGo || !s.walkers.crowded() {
			child, more := waiting.take()
			if child == "" {
				return
			}
			if more && s.walkers.tryEnter() {
				others.Go(func() {
					defer s.walkers.leave()
					walk(true)
				})
			}
			if name != "" {
				child = name + "/" + child
			}
			if !s.visit(ctx, child) {
				staying.Add(1)
			}
		}
	}
	walk(false)
	s.walkers.leave()
	others.Wait()
	s.walkers.enter()
	return int(staying.Load())
}

// instant is what is known of the time at one moment: of ensemble time, and on this
// process's own clock.
type instant struct {
	admin.Time
	mono time.Duration
}

// time is the time, and tells the memory of it.
func (s *sweep) time() instant {
	now := instant{Time: s.tree.Estimate()}
	now.mono = s.tree.Monotonic() // after the other: whatever that tells of had been by then
	s.memory.begin(now.Time, now.mono)
	return now
}

// judged is what the entries of a lock have come to.
type judged struct {
	expired []deletion
	live    int
	staying int           // those that live, and all others that are neither expired nor gone
	wait    time.Duration // until the first of those that live may have expired
}

// judgeEntries decides on each of the entries, and reads those that have not been.
func (s *sweep) judgeEntries(ctx context.Context, parent string, entries []entry, now instant, p policy.Policy) judged {
	found := judged{wait: lock.MaxTime}
	for _, e := range entries {
		path := parent + "/" + e.Node
		if e.read == nil {
			n, err := s.get(ctx, parent, e.Name, p.Name)
			if err != nil {
				if !s.unread(ctx, path, "read", p.Name, err) {
					found.staying++
				}
				continue
			}
			e.read = &n
		}
		var wait time.Duration
		d := s.judge(ctx, path, e.read.Stat, now, p.Name, Live, func(now admin.Time, seen time.Duration) (v Verdict) {
			v, wait = judgeEntry(*e.read, now, seen, p)
			return v
		})
		switch d.verdict {
		case Expired:
			s.late(p.Name, now, e.read.Expires().Add(p.Grace))
			found.expired = append(found.expired, d)
			continue
		case Live:
			found.live++
			found.wait = min(found.wait, wait)
		}
		found.staying++
	}
	s.count(p.Name, func(c *Counts) { c.Live += found.live })
	return found
}

// judgeParent decides on a node that is no entry.
func (s *sweep) judgeParent(ctx context.Context, path string, n znode.Node, staying int, now instant, p policy.Policy) deletion {
	if n.Ours() && n.Kind != znode.Dir {
		s.count(p.Name, func(c *Counts) { c.Locks++ })
	}
	d := s.judge(ctx, path, n.Stat, now, p.Name, Young, func(now admin.Time, seen time.Duration) Verdict {
		return JudgeParent(n, staying, now, seen, p)
	})
	if d.verdict.Deletes() {
		s.late(p.Name, now, time.UnixMilli(n.Stat.Mtime).Add(p.OrphanAfter))
	}
	return d
}

// maxProofs is how often a sweep asks for what a verdict takes: a fresher sample, the
// mark, and both again if the leader changes meanwhile.
const maxProofs = 4

// judge asks for the verdict on a node that was read, and for the proof of it if that
// is what it takes, and counts it. What is unproven even then is taken for undecided:
// the next sweep judges it again.
func (s *sweep) judge(
	ctx context.Context, path string, stat znode.Stat, now instant, policy string, undecided Verdict,
	verdict func(now admin.Time, seen time.Duration) Verdict,
) deletion {
	seenAt := now.mono
	v := verdict(now.Time, s.memory.since(stat.Mzxid, now.mono))
	for try := 0; v == Unproven && try < maxProofs; try++ {
		answered := s.begin("the proof of how old it is, of", path)
		_, err := s.tree.Prove(ctx, now.Time, stat.Mzxid)
		answered()
		if err != nil {
			s.fail(err)
			break
		}
		now = s.time()
		v = verdict(now.Time, s.memory.since(stat.Mzxid, now.mono))
	}
	if v == Unproven {
		v = undecided
	}
	s.count(policy, func(c *Counts) { c.count(v) })
	if v == Undecodable {
		s.mu.Lock()
		if len(s.report.Undecodable) < maxNamed {
			s.report.Undecodable = append(s.report.Undecodable, path)
		}
		s.mu.Unlock()
	}
	return deletion{
		Deletion: admin.Deletion{Path: path, Version: stat.Version}, verdict: v, policy: policy,
		mzxid: stat.Mzxid, seenAt: seenAt,
	}
}
