package reaper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// lastBatch is for how long the batch at hand is finished when a sweep is stopped.
const lastBatch = 10 * time.Second

// deletesInFlight is how many transactions of deletes are under way at once, at
// most. So few keep a server busy.
const deletesInFlight = 4

// sweep is one pass over the trees of some policies: a bounded number of readers
// walk down, decide on each node once all below it is decided on, and hand what
// is to go to the deleter.
type sweep struct {
	*Reaper
	tree   admin.Tree
	chosen map[string]bool // policies by name

	walkers chan struct{}   // has the tokens of those that walk: each has one request in flight
	doomed  chan []deletion // to the deleter: what goes together

	failed atomic.Pointer[error]
	stop   context.CancelFunc

	mu     sync.Mutex
	report Report
}

// deletion is a node to be deleted.
type deletion struct {
	admin.Deletion
	verdict Verdict
	policy  string
	after   bool // nodes below it may be in an earlier batch
}

// entry is a contender's node, read or not yet.
type entry struct {
	znode.Name
	read *znode.Entry
}

// run sweeps what stands below the given names, the root's being "".
func (s *sweep) run(ctx context.Context, starts []string) (Report, error) {
	begun := time.Now()
	s.report.Started, s.report.Root, s.report.DryRun = begun.UTC(), s.tree.Root(), s.options.DryRun
	s.report.Policies = map[string]*Counts{}
	for name := range s.chosen {
		s.report.Policies[name] = new(Counts)
	}
	ctx, s.stop = context.WithCancel(ctx)
	defer s.stop()

	_, err := s.tree.Now(ctx)
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
		for _, name := range starts {
			s.visit(ctx, name)
		}
		close(s.doomed)
		<-deleted
		s.seen.forget(s.tree.Estimate().Earliest(), s.tree.Monotonic())
		if failed := s.failed.Load(); failed != nil {
			err = *failed
		} else {
			err = context.Cause(ctx)
		}
	}
	for _, c := range s.report.Policies {
		s.report.Total.add(*c)
	}
	s.report.Complete = err == nil
	s.report.Duration = time.Since(begun)
	s.report.Seconds = s.report.Duration.Seconds()
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
	if ctx.Err() != nil {
		return false
	}
	path := s.tree.Path(name)
	p := s.options.Policies.For(name)
	now := s.tree.Estimate() // it costs a system call; to judge by an earlier time is safe
	s.seen.begin(now)
	if name == "" || !s.chosen[p.Name] {
		_, nested, err := s.list(ctx, path)
		if err != nil {
			return s.unread(ctx, path, "list", p.Name, err)
		}
		s.visitAll(ctx, name, nested)
		return false
	}
	if live := s.seen.live(name, now.Earliest()); live > 0 {
		s.count(p.Name, func(c *Counts) { c.Locks++; c.Live += live })
		return false
	}
	data, stat, err := s.tree.Get(ctx, path)
	if err != nil {
		return s.unread(ctx, path, "list", p.Name, err) // one permission is for both
	}
	parent := znode.ReadNode(data, znode.Stat(*stat))
	entries, nested, err := s.children(ctx, path, parent)
	if err != nil {
		return s.unread(ctx, path, "list", p.Name, err)
	}
	staying := s.visitAll(ctx, name, nested)

	var doomed []deletion
	live, until := 0, now.Earliest().Add(p.OrphanAfter)
	for _, e := range entries {
		d, verdict, end := s.judgeEntry(ctx, path, e, now, p)
		switch {
		case verdict == Expired:
			doomed = append(doomed, d)
		case verdict == Live:
			live++
			staying++
			if end.Before(until) {
				until = end
			}
		case verdict != gone:
			staying++
		}
	}
	switch {
	case live == 0:
		d, verdict := s.judgeParent(ctx, path, parent, staying, now, p)
		if verdict.Deletes() {
			d.after = len(nested) > 0
			doomed = append(doomed, d)
		}
		goes = verdict.Deletes()
	case live == len(entries) && len(nested) == 0:
		s.seen.saw(name, live, until, now.Term)
		fallthrough
	default: // its entries tell that the node is ours, and in use
		s.count(p.Name, func(c *Counts) { c.Locks++ })
	}
	if len(doomed) > 0 {
		s.doomed <- doomed
	}
	return goes
}

// children returns the entries of a lock, and its other children, by their names.
// The only child that a lock has is mostly the entry that joined last, whose name
// the parent tells: that there is a node of that name proves that it is the child.
// That there is none proves nothing.
func (s *sweep) children(ctx context.Context, path string, p znode.Node) (entries []entry, nested []string, err error) {
	if p.Stat.NumChildren == 0 {
		return nil, nil, nil
	}
	if name, ok := onlyChild(p); ok {
		n, err := s.get(ctx, path, name)
		if err == nil {
			return []entry{{name, &n}}, nil, nil
		}
	}
	return s.list(ctx, path)
}

// list lists a node's children, entries and others.
func (s *sweep) list(ctx context.Context, path string) (entries []entry, nested []string, err error) {
	children, _, err := s.tree.Children(ctx, path)
	nested = children[:0] // there can be a million
	for _, child := range children {
		if name, ok := znode.Parse(child); ok {
			entries = append(entries, entry{Name: name})
		} else if child != znode.EpochMark {
			nested = append(nested, child)
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return znode.Compare(a.Name, b.Name) })
	return entries, nested, err
}

// get reads a contender's node.
func (s *sweep) get(ctx context.Context, parent string, name znode.Name) (znode.Entry, error) {
	data, stat, err := s.tree.Get(ctx, parent+"/"+name.Node)
	if err != nil {
		return znode.Entry{}, err
	}
	return znode.ReadEntry(name, data, znode.Stat(*stat)), nil
}

// gone is the verdict on a node that went while we looked.
const gone Verdict = -1

// visitAll visits the children of a node and returns how many of them stay. Whoever
// takes the next one brings in another walker, if there may be one more; a walker
// that only waits for others lends its token.
func (s *sweep) visitAll(ctx context.Context, name string, children []string) int {
	if len(children) == 0 {
		return 0
	}
	var others sync.WaitGroup
	var next, staying atomic.Int64
	var walk func()
	walk = func() {
		for i := int(next.Add(1)) - 1; i < len(children); i = int(next.Add(1)) - 1 {
			if i+1 < len(children) {
				select {
				case s.walkers <- struct{}{}:
					others.Go(func() {
						defer func() { <-s.walkers }()
						walk()
					})
				default:
				}
			}
			child := children[i]
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

// judgeEntry reads an entry, unless it has been, and decides on it. With Live comes
// the end of its lease and the grace.
func (s *sweep) judgeEntry(ctx context.Context, parent string, e entry, now admin.Time, p policy.Policy) (d deletion, v Verdict, end time.Time) {
	path := parent + "/" + e.Node
	if e.read == nil {
		n, err := s.get(ctx, parent, e.Name)
		if err != nil {
			if s.unread(ctx, path, "read", p.Name, err) {
				return deletion{}, gone, end
			}
			return deletion{}, Foreign, end
		}
		e.read = &n
	}
	d, v = s.judge(ctx, path, e.read.Stat, now, p.Name, func(now admin.Time) (v Verdict) {
		seen := s.seen.since(path, e.read.Stat.Mzxid, now, s.tree.Monotonic())
		v, end = judgeEntry(*e.read, now, seen, p)
		return v
	})
	return d, v, end
}

func (s *sweep) judgeParent(ctx context.Context, path string, n znode.Node, staying int, now admin.Time, p policy.Policy) (deletion, Verdict) {
	if n.Ours() && n.Kind != znode.Dir {
		s.count(p.Name, func(c *Counts) { c.Locks++ })
	}
	return s.judge(ctx, path, n.Stat, now, p.Name, func(now admin.Time) Verdict { return JudgeParent(n, staying, now, p) })
}

// judge asks for the verdict on a node that was read, with a younger time or the mark
// of the leader's epoch if that is what it takes, and counts it.
func (s *sweep) judge(ctx context.Context, path string, stat znode.Stat, now admin.Time, policy string, verdict func(admin.Time) Verdict) (deletion, Verdict) {
	v := verdict(now)
	for try := 0; v == Unproven && try < maxProofs; try++ {
		younger, err := s.tree.Prove(ctx, now, stat.Mzxid)
		if err != nil {
			s.fail(err)
			return deletion{}, Live
		}
		now = younger
		v = verdict(now)
	}
	s.count(policy, func(c *Counts) { c.count(v) })
	if v == Undecodable {
		s.mu.Lock()
		if len(s.report.Undecodable) < maxNamed {
			s.report.Undecodable = append(s.report.Undecodable, path)
		}
		s.mu.Unlock()
	}
	return deletion{Deletion: admin.Deletion{Path: path, Version: stat.Version}, verdict: v, policy: policy}, v
}

// maxProofs is how often a sweep asks for what a verdict takes: a younger sample, the
// mark, and both again if the leader changes meanwhile. What is unproven even then is
// left to the next sweep.
const maxProofs = 4

// unread takes the error of a read. It reports whether the node is not there.
func (s *sweep) unread(ctx context.Context, path, what, policy string, err error) (missing bool) {
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return true
	case errors.Is(err, zk.ErrNoAuth):
		s.deny(path, what, policy, err)
	case ctx.Err() == nil:
		s.fail(fmt.Errorf("%s %s: %w", what, path, err))
	}
	return false
}

func (s *sweep) deny(path, what, policy string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.report.Denied) < maxNamed {
		s.report.Denied = append(s.report.Denied, Denial{path, what, err.Error()})
	}
	if c := s.report.Policies[policy]; c != nil {
		c.Denied++
	}
}

func (s *sweep) count(policy string, f func(*Counts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.report.Policies[policy])
}

// deleteAll deletes what the walkers hand over, as many nodes in a transaction as
// the options say, and several of these at once: but a node whose children may be
// in an earlier one only after that. When the sweep is stopped it finishes the
// batches at hand.
func (s *sweep) deleteAll(ctx context.Context) {
	var flying sync.WaitGroup
	defer flying.Wait()
	slots := make(chan struct{}, min(deletesInFlight, s.options.Concurrency))
	var batch []deletion
	flush := func() {
		if slices.ContainsFunc(batch, func(d deletion) bool { return d.after }) {
			flying.Wait()
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		going := batch
		flying.Go(func() {
			defer func() { <-slots }()
			s.delete(ctx, going)
		})
		batch = nil
	}
	for group := range s.doomed {
		for len(group) > 0 && ctx.Err() == nil { // the walkers must come to their end
			n := min(len(group), s.options.Batch-len(batch))
			batch, group = append(batch, group[:n]...), group[n:]
			if len(batch) == s.options.Batch {
				flush()
				if len(group) > 0 {
					group[len(group)-1].after = true // the parent of those that just went
				}
			}
		}
	}
	if ctx.Err() == nil && len(batch) > 0 {
		flush()
	}
}

// delete deletes a batch. A node that was changed meanwhile is left out, with
// those above it, and the others are tried again.
func (s *sweep) delete(ctx context.Context, batch []deletion) {
	if s.options.DryRun {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, d := range batch {
			s.report.Planned = append(s.report.Planned, Planned{d.Path, d.verdict.String()})
		}
		return
	}
	finish, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastBatch, cancel) })()
	for len(batch) > 0 {
		nodes := make([]admin.Deletion, len(batch))
		for i, d := range batch {
			nodes[i] = d.Deletion
		}
		err := s.tree.Delete(finish, nodes)
		if err == nil {
			for _, d := range batch {
				s.count(d.policy, func(c *Counts) { c.Deleted++ })
			}
			return
		}
		var bad *admin.DeletionError
		if !errors.As(err, &bad) {
			s.fail(err)
			return
		}
		d := batch[bad.Index]
		if errors.Is(err, zk.ErrNoAuth) {
			s.deny(d.Path, "delete", d.policy, err)
		}
		batch = slices.DeleteFunc(batch, func(other deletion) bool {
			leave := other.Path == d.Path || strings.HasPrefix(d.Path, other.Path+"/")
			if leave {
				s.count(other.policy, func(c *Counts) { c.Missed++ })
			}
			return leave
		})
	}
}
