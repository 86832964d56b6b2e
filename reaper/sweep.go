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
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// lastBatch is for how long the batch at hand is finished when a sweep is stopped.
const lastBatch = 10 * time.Second

// sweep is one pass over the trees of some policies: a bounded number of readers
// walk down, decide on each node once all below it is decided on, and hand what
// is to go to one deleter.
type sweep struct {
	*Reaper
	tree   lock.Tree
	chosen map[string]bool // policies by name

	readers chan struct{} // a token for each walker beside the first
	reads   chan struct{} // a token for each request in flight
	doomed  chan []doomed // to the deleter: what goes together

	timing chan struct{} // has the token of the one that looks for a younger time
	failed atomic.Pointer[error]
	stop   context.CancelFunc

	mu     sync.Mutex
	report Report
}

// doomed is a node to be deleted.
type doomed struct {
	lock.Deletion
	verdict Verdict
	policy  string
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
		for _, name := range starts {
			s.visit(ctx, name)
		}
		close(s.doomed)
		<-deleted
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
func (s *sweep) visit(ctx context.Context, name string) (goes bool) {
	if ctx.Err() != nil {
		return false
	}
	path := s.tree.Path(name)
	p := s.options.Policies.For(name)
	children, err := read(ctx, s, func() ([]string, error) {
		children, _, err := s.tree.Children(ctx, path)
		return children, err
	})
	if err != nil {
		return s.unread(ctx, path, "list", p.Name, err)
	}
	entries := znode.Contenders(children)
	nested := slices.DeleteFunc(children, func(child string) bool { _, ok := znode.Parse(child); return ok })
	staying := s.visitAll(ctx, name, nested)
	if name == "" || !s.chosen[p.Name] {
		return false
	}

	var doomed []doomed
	live := 0
	for _, n := range entries {
		d, verdict := s.judgeEntry(ctx, path+"/"+n.Node, n, p)
		switch {
		case verdict == Expired:
			doomed = append(doomed, d)
		case verdict == Live:
			live++
			staying++
		case verdict != gone:
			staying++
		}
	}
	if live > 0 { // its entries tell that the node is ours, and in use
		s.count(p.Name, func(c *Counts) { c.Locks++ })
	} else {
		d, verdict := s.judgeParent(ctx, path, staying, p)
		if verdict.Deletes() {
			doomed = append(doomed, d)
		}
		goes = verdict.Deletes() || verdict == gone
	}
	if len(doomed) > 0 {
		s.doomed <- doomed
	}
	return goes
}

// gone is the verdict on a node that went while we looked.
const gone Verdict = -1

// visitAll visits the children of a node, some of them at once, and returns how
// many of them stay.
func (s *sweep) visitAll(ctx context.Context, name string, children []string) int {
	var wg sync.WaitGroup
	var staying atomic.Int64
	visit := func(child string) {
		if name != "" {
			child = name + "/" + child
		}
		if !s.visit(ctx, child) {
			staying.Add(1)
		}
	}
	for _, child := range children {
		select {
		case s.readers <- struct{}{}:
			wg.Go(func() {
				defer func() { <-s.readers }()
				visit(child)
			})
		default:
			visit(child)
		}
	}
	wg.Wait()
	return int(staying.Load())
}

func (s *sweep) judgeEntry(ctx context.Context, path string, n znode.Name, p policy.Policy) (doomed, Verdict) {
	return s.judge(ctx, path, p.Name, func(data []byte, stat *zk.Stat, now lock.Time) Verdict {
		return JudgeEntry(n, data, stat, now, p)
	})
}

func (s *sweep) judgeParent(ctx context.Context, path string, staying int, p policy.Policy) (doomed, Verdict) {
	return s.judge(ctx, path, p.Name, func(data []byte, stat *zk.Stat, now lock.Time) Verdict {
		v := JudgeParent(data, stat, staying, now, p)
		if parent, err := znode.DecodeParent(data); err == nil && parent.Kind != "" && parent.Kind != znode.Dir && v != Unproven {
			s.count(p.Name, func(c *Counts) { c.Locks++ })
		}
		return v
	})
}

// judge reads a node, asks for the verdict, with a younger time if that is what
// it takes, and counts it.
func (s *sweep) judge(ctx context.Context, path, policy string, verdict func([]byte, *zk.Stat, lock.Time) Verdict) (doomed, Verdict) {
	type node struct {
		data []byte
		stat *zk.Stat
	}
	n, err := read(ctx, s, func() (node, error) {
		data, stat, err := s.tree.Get(ctx, path)
		return node{data, stat}, err
	})
	if err != nil {
		if s.unread(ctx, path, "read", policy, err) {
			return doomed{}, gone
		}
		return doomed{}, Foreign
	}
	v := verdict(n.data, n.stat, s.tree.Estimate())
	if v == Unproven {
		now, err := s.younger(ctx, n.stat.Mzxid)
		if err != nil {
			s.fail(err)
			return doomed{}, Live
		}
		v = verdict(n.data, n.stat, now)
	}
	s.count(policy, func(c *Counts) { c.count(v) })
	if v == Undecodable {
		s.mu.Lock()
		if len(s.report.Undecodable) < maxNamed {
			s.report.Undecodable = append(s.report.Undecodable, path)
		}
		s.mu.Unlock()
	}
	return doomed{lock.Deletion{Path: path, Version: n.stat.Version}, v, policy}, v
}

// younger returns ensemble time by a sample younger than the transaction.
func (s *sweep) younger(ctx context.Context, zxid int64) (lock.Time, error) {
	select {
	case s.timing <- struct{}{}:
		defer func() { <-s.timing }()
	case <-ctx.Done():
		return lock.Time{}, context.Cause(ctx)
	}
	if now := s.tree.Estimate(); now.Zxid > zxid {
		return now, nil
	}
	return s.tree.Now(ctx)
}

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

// read makes a request when one more may be in flight.
func read[T any](ctx context.Context, s *sweep, f func() (T, error)) (T, error) {
	select {
	case s.reads <- struct{}{}:
		defer func() { <-s.reads }()
		return f()
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// deleteAll deletes what the walkers hand over, as many nodes in a transaction as
// the options say. When the sweep is stopped it finishes the batch at hand.
func (s *sweep) deleteAll(ctx context.Context) {
	var batch []doomed
	for group := range s.doomed {
		if ctx.Err() != nil {
			continue // let the walkers come to their end
		}
		for len(group) > 0 {
			n := min(len(group), s.options.Batch-len(batch))
			batch, group = append(batch, group[:n]...), group[n:]
			if len(batch) == s.options.Batch {
				s.delete(ctx, batch)
				batch = batch[:0]
			}
		}
	}
	if ctx.Err() == nil && len(batch) > 0 {
		s.delete(ctx, batch)
	}
}

// delete deletes a batch. A node that was changed meanwhile is left out, with
// those above it, and the others are tried again.
func (s *sweep) delete(ctx context.Context, batch []doomed) {
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
	batch = slices.Clone(batch)
	for len(batch) > 0 {
		nodes := make([]lock.Deletion, len(batch))
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
		var bad *lock.DeletionError
		if !errors.As(err, &bad) {
			s.fail(err)
			return
		}
		d := batch[bad.Index]
		if errors.Is(err, zk.ErrNoAuth) {
			s.deny(d.Path, "delete", d.policy, err)
		}
		batch = slices.DeleteFunc(batch, func(other doomed) bool {
			leave := other.Path == d.Path || strings.HasPrefix(d.Path, other.Path+"/")
			if leave {
				s.count(other.policy, func(c *Counts) { c.Missed++ })
			}
			return leave
		})
	}
}
