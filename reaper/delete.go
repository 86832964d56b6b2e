package reaper

import (
	"cmp"
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

// lastBatch is the time that a stopped sweep has to finish its current batches.
const lastBatch = 10 * time.Second

// deletesInFlight is the largest number of a sweep's delete transactions in flight.
const deletesInFlight = 4

// deletion is a node with its verdict. The node is deleted if [Verdict.Deletes] is true for the
// verdict. Path and version are from the read that was judged.
type deletion struct {
	admin.Deletion
	verdict Verdict
	policy  string
	anchors []string      // names of the node's anchors, deleted in the same transaction
	after   bool          // nodes below it may be in earlier batches: wait until they have ended
	mzxid   int64         // Mzxid of the node when it was read
	read    time.Duration // monotonic time just before the read, or earlier
}

// isUnique reports whether d is an entry or a release request. Holdfast never creates another node
// at the same path.
func (d *deletion) isUnique() bool { return d.verdict == Expired || d.verdict == Stale }

// proves reports whether the delete of d proves that the node at the path is the one that was read.
// It does if d includes a node below the path that existed before the read, and whose own path never
// recurs: an entry or an anchor.
func (d *deletion) proves(path string) bool {
	return d.Path == path && len(d.anchors) > 0 ||
		(d.verdict == Expired || len(d.anchors) > 0) && strings.HasPrefix(d.Path, path+"/")
}

// deleteAll deletes the nodes from the walkers, in up to deletesInFlight concurrent transactions of
// the size in the options. If a node's children may be in an earlier transaction, it first waits
// for all transactions in flight. When the sweep is stopped, it finishes only the transactions in
// flight.
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
		for len(group) > 0 && ctx.Err() == nil { // if stopped, only receive, so that no walker blocks
			n := min(len(group), s.options.Batch-len(batch))
			batch, group = append(batch, group[:n]...), group[n:]
			if len(batch) == s.options.Batch {
				flush()
				if len(group) > 0 {
					group[len(group)-1].after = true // it is the parent of nodes in the batch just sent
				}
			}
		}
	}
	if ctx.Err() == nil && len(batch) > 0 {
		flush()
	}
}

// delete deletes a batch as soon as the rate allows. If a node was changed meanwhile, or an ACL
// protects it, delete retries without this node and the nodes above it. In a dry run it only adds
// the batch to the report.
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
	batch, guards := s.guard(finish, batch)
	defer func() { s.removeGuards(finish, guards) }()
	for len(batch) > 0 {
		var nodes []admin.Deletion
		var whose []int // for each node, the index of its deletion in the batch
		for i, d := range batch {
			for _, name := range d.anchors {
				nodes, whose = append(nodes, admin.Deletion{Path: d.Path + "/" + name, Version: -1}), append(whose, i)
			}
			nodes, whose = append(nodes, d.Deletion), append(whose, i)
		}
		answered := s.begin(fmt.Sprintf("the delete of %d nodes, such as %s", len(nodes), nodes[0].Path))
		err := s.tree.Delete(finish, nodes)
		answered()
		if err == nil {
			for _, d := range batch {
				s.count(d.policy, func(c *Counts) { c.deleted(d.verdict) })
				delete(guards, d.Path)
			}
			return
		}
		var refused *admin.RefusedError
		if !errors.As(err, &refused) {
			s.stop(err)
			return
		}
		if spared := batch[whose[refused.Index]]; errors.Is(err, zk.ErrNoNode) {
			batch = s.resolveDelete(finish, batch, spared, refused)
		} else {
			batch = s.spare(batch, spared, err)
		}
	}
}

// resolveDelete handles a refusal because a node or its anchor is missing. It returns the batch
// without any node that no longer exists, so that one more transaction suffices. If no node exists
// and the reply of an earlier try was lost, that try has deleted the nodes: resolveDelete counts
// them as deleted.
func (s *sweep) resolveDelete(ctx context.Context, batch []deletion, spared deletion, refused *admin.RefusedError) []deletion {
	var gone []deletion
	for i, r := range s.reread(ctx, batch) {
		d := batch[i]
		switch {
		case errors.Is(r.err, zk.ErrNoNode), r.err == nil && r.stat.Czxid > d.mzxid: // missing, or another node
			gone = append(gone, d)
		case r.err != nil && !errors.Is(r.err, zk.ErrNoAuth):
			s.stop(fmt.Errorf("read %s: %w", d.Path, r.err))
			return nil
		}
	}
	if refused.Lost && len(gone) == len(batch) {
		for _, d := range batch {
			s.count(d.policy, func(c *Counts) { c.deleted(d.verdict) })
		}
		return nil
	}
	batch = s.spare(batch, spared, refused)
	for _, d := range gone {
		batch = s.spare(batch, d, refused)
	}
	return batch
}

// reread is the result of reading a node again.
type reread struct {
	stat *zk.Stat
	err  error
}

// reread reads the nodes of a batch again, up to deletesInFlight concurrently. It does so for one
// batch at a time.
func (s *sweep) reread(ctx context.Context, nodes []deletion) []reread {
	s.rereads.Lock()
	defer s.rereads.Unlock()
	all := make([]reread, len(nodes))
	slots := make(chan struct{}, min(deletesInFlight, s.options.Concurrency))
	var reading sync.WaitGroup
	for i, d := range nodes {
		slots <- struct{}{}
		reading.Go(func() {
			defer func() { <-slots }()
			defer s.begin("the data, again, of " + d.Path)()
			_, all[i].stat, all[i].err = s.tree.Get(ctx, d.Path)
		})
	}
	reading.Wait()
	return all
}

// spare returns the batch without spared and the nodes above it. If err is a refusal by an ACL,
// spared counts as denied; otherwise all nodes left out count as missed.
func (s *sweep) spare(batch []deletion, spared deletion, err error) []deletion {
	denied := errors.Is(err, zk.ErrNoAuth)
	if denied {
		s.deny(spared.Path, "delete", spared.policy, err)
	}
	return slices.DeleteFunc(batch, func(d deletion) bool {
		spare := d.Path == spared.Path || strings.HasPrefix(spared.Path, d.Path+"/")
		if spare && !denied {
			s.count(d.policy, func(c *Counts) { c.Missed++ })
		}
		return spare
	})
}

// guard proves that each node in a batch is still the one that was judged. Another client may have
// deleted it since, and created another node with the same path and version. The delete of an
// anchor or an entry below a node proves the node. For every other node, guard creates an anchor,
// the guard, and then reads the node again; the guard is deleted in the same transaction. If an ACL
// forbids the guard, the node is only read again. Entries and requests get no guard: see unchanged.
//
// proven is the batch without the nodes that failed the proof. guards maps the paths of nodes to the
// names of their guards.
func (s *sweep) guard(ctx context.Context, batch []deletion) (proven []deletion, guards map[string]string) {
	denied := map[string]bool{} // paths where an ACL forbids to create a guard
	for {
		bare := unproven(batch)
		var guarded []deletion
		var paths []string
		for _, d := range bare {
			if !denied[d.Path] && len(denied) < mostDenied {
				guarded, paths = append(guarded, d), append(paths, d.Path)
			}
		}
		if len(paths) == 0 {
			return s.unchanged(ctx, batch, bare, nil), nil
		}
		names, err := s.tree.Guard(ctx, paths)
		var refused *admin.RefusedError
		switch {
		case errors.As(err, &refused) && errors.Is(err, zk.ErrNoAuth):
			denied[refused.Path] = true
			continue
		case errors.As(err, &refused):
			batch = s.spare(batch, guarded[refused.Index], err)
			continue
		case err != nil:
			s.stop(err)
			return nil, nil
		}
		guards = map[string]string{}
		for i, path := range paths {
			guards[path] = names[i]
		}
		return s.unchanged(ctx, batch, bare, guards), guards
	}
}

// mostDenied limits the tries to create guards: if the ACLs of mostDenied nodes of a batch forbid
// the guards, the batch gets none.
const mostDenied = 3

// unproven returns the nodes of a batch that need a guard: no delete in the batch proves them.
func unproven(batch []deletion) (bare []deletion) {
	for _, d := range batch {
		if !d.isUnique() && !slices.ContainsFunc(batch, func(e deletion) bool { return e.proves(d.Path) }) {
			bare = append(bare, d)
		}
	}
	return bare
}

// maxUnread is the longest time from the verdict on an entry or a release request to its delete
// without another read. A delete may have to wait, for example for max_deletes_per_second.
const maxUnread = time.Second

// unchanged reads the bare nodes of a batch again, and the entries and requests with a verdict older
// than maxUnread. It returns the batch without the nodes that have changed, are missing, or are now
// denied, and adds the guards to the deletions.
func (s *sweep) unchanged(ctx context.Context, batch, bare []deletion, guards map[string]string) []deletion {
	again := slices.Clone(bare)
	for _, d := range batch {
		if d.isUnique() && s.tree.Monotonic()-d.read > maxUnread {
			again = append(again, d)
		}
	}
	for i, r := range s.reread(ctx, again) {
		d, stat, err := again[i], r.stat, r.err
		switch {
		case err == nil && stat.Mzxid == d.mzxid:
		case err == nil, errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth):
			batch = s.spare(batch, d, err)
		default:
			s.stop(fmt.Errorf("read %s: %w", d.Path, err))
			return nil
		}
	}
	for i, d := range batch {
		if name, ok := guards[d.Path]; ok {
			batch[i].anchors = append(slices.Clone(d.anchors), name)
		}
	}
	return batch
}

// removeGuards deletes the guards of nodes that were not deleted. If that fails, a later sweep
// deletes the guards with their nodes.
func (s *sweep) removeGuards(ctx context.Context, guards map[string]string) {
	left, first := 0, error(nil)
	for path, name := range guards {
		err := s.tree.Delete(ctx, []admin.Deletion{{Path: path + "/" + name, Version: -1}})
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			left, first = left+1, cmp.Or(first, err)
		}
	}
	if left > 0 {
		s.log.Warn().Err(first).Int("guards", left).Msg("guards of the reaper could not be deleted; a later sweep deletes them with the nodes above them")
	}
}

// await waits until MaxDeletesPerSecond allows to delete the number of nodes. It returns false if
// ctx ends or the wait fails.
func (s *sweep) await(ctx context.Context, nodes int) bool {
	defer s.begin("reaper.max_deletes_per_second")()
	for nodes > 0 {
		n := min(nodes, s.limiter.Burst()) // a reload may have set a limit below a batch
		err := s.limiter.WaitN(ctx, n)
		switch {
		case ctx.Err() != nil:
			return false
		case err == nil:
			nodes -= n
		case n > s.limiter.Burst(): // a reload has lowered the limit: try again
		default: // the wait would last longer than ctx
			s.stop(fmt.Errorf("wait for reaper.max_deletes_per_second: %w", err))
			return false
		}
	}
	return ctx.Err() == nil
}
