package queue

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// isCopied reports whether n is a copied entry, see [znode.Name.Copied]. The counter gives each number
// once, except at its end. So another entry with the number of this contender's own is copied, too.
func (v *view) isCopied(n znode.Name) bool {
	return n.Copied(v.counter) || v.own.Ours() && n.Seq == v.own.Seq && n.Node != v.own.Node && n.Copied(v.own.Seq)
}

// copiedFirst moves copied entries to the front: no contender enters ahead of one. It remembers them,
// because the counter may pass their numbers.
func (v *view) copiedFirst(names []znode.Name) {
	known := v.copied
	v.copied = map[string]bool{}
	for _, n := range names {
		if v.isCopied(n) || known[n.Node] {
			v.copied[n.Node] = true
		}
	}
	if len(v.copied) == 0 {
		return
	}
	if len(known) == 0 {
		v.Log.Warn().Str("lock", v.Lock).Int("copied", len(v.copied)).Int32("counter", v.counter).
			Msg("the lock's node was copied with entries that its counter has not reached; waiting for these entries first")
	}
	rank := func(n znode.Name) int {
		if v.copied[n.Node] {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(names, func(a, b znode.Name) int { return cmp.Compare(rank(a), rank(b)) })
}

// collided waits after a join that was refused because its entry's name exists: until the counter has
// ended, which repeats its last number, or until the copied entry of that name has gone.
func (j *joiner) collided(ctx context.Context, d *draft) error {
	if names, err := j.list(ctx, true); err != nil || len(names) == 0 {
		return err
	}
	if j.counter == math.MaxInt32 {
		return j.rollover(ctx, nil, d.parent.generation)
	}
	name, _ := znode.Parse(znode.Predict(d.prefix, j.counter))
	for {
		s, err := j.assess(ctx, name, true, j.Clock.Prove)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return nil
		case errors.Is(err, zk.ErrNoAuth):
			s = &sighting{entry: znode.Entry{Name: name}, wait: pollEvery}
		case err != nil:
			return err
		case s.expired:
			if _, err := j.purgeAmong(ctx, []znode.Name{name}); j.trying && purgeDenied(err) {
				return err
			} else if err != nil {
				j.Log.Debug().Err(err).Str("lock", j.Lock).Str("entry", j.path(name)).Msg("a copied entry has expired, and was not purged; retrying")
				s.wait = pollEvery
			} else {
				s.wait = 0
			}
		}
		if j.trying && !s.expired {
			return j.blocked(s)
		}
		j.waiting("", 0)
		if err := await(ctx, s.changed, max(0, s.wait)); err != nil {
			return err
		}
	}
}
