package reaper

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// sweepInbox sweeps the release requests of the policies. It runs after all other deletes, so that
// it also deletes requests for entries that this sweep has deleted.
func (s *sweep) sweepInbox(ctx context.Context) {
	path, all := s.tree.Path(znode.Inbox), s.options.Policies.All()
	last := all[len(all)-1].Name // this policy counts requests whose lock is unknown
	ids, _, err := s.tree.Children(ctx, path)
	if err != nil {
		s.unread(ctx, path, "list", last, err)
		return
	}
	for some := range slices.Chunk(ids, s.options.Batch) {
		if stale := s.judgeRequests(ctx, path, some, last); len(stale) > 0 && ctx.Err() == nil {
			s.delete(ctx, stale)
		}
	}
}

// judgeRequests reads and judges requests, and returns those to delete. The policy unknown counts
// requests that cannot be read.
func (s *sweep) judgeRequests(ctx context.Context, path string, ids []string, unknown string) (stale []deletion) {
	for _, id := range ids {
		now := s.time()
		r, err := s.tree.Revocation(ctx, id)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		} else if err != nil {
			s.unread(ctx, path+"/"+id, "read", unknown, err)
			continue
		}
		p := s.options.Policies.For(r.Lock)
		if !s.covers(p) {
			continue
		}
		v := JudgeRevocation(r)
		d := s.judge(ctx, path+"/"+id, znode.Stat(*r.Stat), now, p.Name, Live, func(admin.Time, time.Duration) Verdict { return v })
		if d.verdict.Deletes() {
			stale = append(stale, d)
		}
	}
	return stale
}
