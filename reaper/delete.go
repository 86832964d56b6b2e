package reaper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/lock/admin"
)

// lastBatch is for how long the batch at hand is finished when a sweep is stopped.
const lastBatch = 10 * time.Second

// deletesInFlight is how many transactions of deletes are under way at once, at
// most. So few keep a server busy.
const deletesInFlight = 4

// deletion is a node with its verdict: to be deleted, if that is a delete.
type deletion struct {
	admin.Deletion
	verdict Verdict
	policy  string
	after   bool          // nodes below it may be in an earlier batch
	mzxid   int64         // of what was read
	seenAt  time.Duration // monotonic time before it was read
}

// trusted is for how long what was read of a node that is no entry is good for its delete.
const trusted = time.Second

// newest is the highest version of a node that was made or adopted as a lock's just now.
const newest = 1

// isUnique reports whether nobody can have made the node again under the same path.
func (d *deletion) isUnique() bool { return d.verdict == Expired || d.verdict == Moot }

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
	for group := range s.deletions {
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

// delete deletes a batch, when there may be so many deletes. A node that was changed
// meanwhile, or that an ACL forbids to delete, is left out, with those above it, and the
// others are tried again.
func (s *sweep) delete(ctx context.Context, batch []deletion) {
	if s.options.DryRun {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, d := range batch {
			s.report.Planned = append(s.report.Planned, Planned{d.Path, d.verdict.String()})
		}
		return
	}
	if !s.await(ctx, len(batch)) {
		return
	}
	finish, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastBatch, cancel) })()
	if batch = s.still(finish, batch); len(batch) == 0 {
		return
	}
	for len(batch) > 0 {
		nodes := make([]admin.Deletion, len(batch))
		for i, d := range batch {
			nodes[i] = d.Deletion
		}
		answered := s.begin(fmt.Sprintf("the delete of %d nodes, such as", len(nodes)), nodes[0].Path)
		err := s.tree.Delete(finish, nodes)
		answered()
		if err == nil {
			for _, d := range batch {
				s.count(d.policy, func(c *Counts) { c.deleted(d.verdict) })
			}
			return
		}
		var bad *admin.DeletionError
		if !errors.As(err, &bad) {
			s.fail(err)
			return
		}
		d := batch[bad.Index]
		denied := errors.Is(err, zk.ErrNoAuth)
		if denied {
			s.deny(d.Path, "delete", d.policy, err)
		}
		batch = slices.DeleteFunc(batch, func(other deletion) bool {
			leave := other.Path == d.Path || strings.HasPrefix(d.Path, other.Path+"/")
			if leave && !denied {
				s.count(other.policy, func(c *Counts) { c.Missed++ })
			}
			return leave
		})
	}
}

// still leaves out what is not as it was read. A lock's node, or one above it, that somebody
// has deleted and made again for something else counts its versions anew, and may be at the
// one that was judged: so it is looked at again if that was long ago, or if it is at the
// version of a new one. An entry's path is unique for ever; an entry that goes in the same
// transaction proves the node above it.
func (s *sweep) still(ctx context.Context, batch []deletion) []deletion {
	now := s.tree.Monotonic()
	var failed error
	batch = slices.DeleteFunc(batch, func(d deletion) bool {
		proven := d.isUnique() || slices.ContainsFunc(batch, func(e deletion) bool {
			return e.verdict == Expired && strings.HasPrefix(e.Path, d.Path+"/")
		})
		if proven || failed != nil || d.Version > newest && now-d.seenAt <= trusted {
			return false
		}
		_, stat, err := s.tree.Get(ctx, d.Path)
		switch {
		case err == nil && stat.Mzxid == d.mzxid:
			return false
		case err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth):
			failed = fmt.Errorf("read %s: %w", d.Path, err)
			return false
		}
		s.count(d.policy, func(c *Counts) { c.Missed++ })
		return true
	})
	if failed != nil {
		s.fail(failed)
		return nil
	}
	return batch
}

// await waits until that many nodes may be deleted. It reports whether they may.
func (s *sweep) await(ctx context.Context, nodes int) bool {
	if s.options.MaxDeletesPerSecond == 0 {
		return true
	}
	defer s.begin("reaper.max_deletes_per_second", "")()
	if err := s.limiter.WaitN(ctx, nodes); err != nil && ctx.Err() == nil { // it would last longer than ctx
		s.fail(fmt.Errorf("wait for reaper.max_deletes_per_second: %w", err))
	} else if err != nil {
		return false
	}
	return ctx.Err() == nil
}
