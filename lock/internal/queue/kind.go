package queue

import (
	"context"
	"slices"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// kind has what differs between the kinds of locks.
type kind interface {
	// atJoin returns the position of an entry that is not alone, by the reply to its create.
	// contenders is that of positionAtJoin. The position is zero if a list must find it.
	atJoin(d *draft, own znode.Name, contenders int32) position
	// inList sets the waiter's position from a list that has the waiter's entry at the index self.
	// settled must be the result of a call of w.settled before the list.
	inList(ctx context.Context, w *waiter, names []znode.Name, self int, settled func() bool) error
	// follow waits until something ahead has changed, has gone, or has expired and was purged. For a
	// try it returns a Blocked instead.
	follow(ctx context.Context, w *waiter) error
	// nextAhead returns the index of the contender whose end the contender at self needs next;
	// negative if there is none.
	nextAhead(names []znode.Name, self int) int
	// free returns a Blocked if a live one of the listed contenders would keep a new entry waiting.
	free(ctx context.Context, v *view, names []znode.Name) error
	// fit returns how many entries of the request can be held at once.
	fit(r *Request) int
}

func kindOf(k znode.Kind) kind {
	if k == znode.Semaphore {
		return counted{}
	}
	return ordered{k}
}

// ordered is the kind of mutexes, elections and read/write locks: a contender waits for the nearest
// earlier one that conflicts.
type ordered struct{ kind znode.Kind }

func (o ordered) rules() znode.Rules { return znode.Rules{Kind: o.kind} }

func (o ordered) fit(*Request) int { return 1 }

func (o ordered) atJoin(d *draft, own znode.Name, contenders int32) position {
	if o.kind == znode.Mutex && d.by.Priority == 0 && own.Seq > 0 {
		return position{predecessor: znode.Predict(d.prefix, own.Seq-1), predecessorHolds: contenders == 2}
	}
	return position{}
}

func (o ordered) inList(_ context.Context, w *waiter, names []znode.Name, self int, _ func() bool) error {
	w.p = positionOf(names, self, o.rules())
	return nil
}

func (o ordered) nextAhead(names []znode.Name, self int) int {
	return znode.WaitsFor(names, self, o.rules())
}

func (o ordered) free(ctx context.Context, v *view, names []znode.Name) error {
	names = append(slices.Clone(names), znode.Name{Role: v.Role})
	var ahead []znode.Name
	for self := len(names) - 1; ; self-- {
		i := o.nextAhead(names, self)
		if i < 0 {
			break
		}
		ahead = append(ahead, names[i])
		names = slices.Delete(names, i, i+1)
	}
	for _, n := range slices.Backward(ahead) { // the holder comes first
		if err := v.inTheWay(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// follow follows the predecessor. It follows an entry of another library as followForeign does.
func (o ordered) follow(ctx context.Context, w *waiter) error {
	name, _ := znode.Parse(w.p.predecessor)
	settled := w.settled()
	s, err := w.assess(ctx, name, true, w.prove)
	if err != nil {
		return w.unread(ctx, name, settled(), err)
	}
	w.clear(s)
	w.note(s, settled())
	switch {
	case w.p.shares:
		return nil
	case s.expired:
		return w.purgeAhead(ctx)
	case w.trying:
		return w.blocked(s)
	case !s.entry.Ours():
		return w.followForeign(ctx, s)
	}
	if !s.entry.Leased() {
		w.warn(w.path(name), s, s.entry.Err, "the entry ahead is damaged or of another version, and never purged: delete it by hand if no client owns it")
	}
	_, err = w.awaitChange(ctx, s.wait, s.changed, nil)
	return err
}

// note records a read of the predecessor if the read is settled. Only a settled read proves that
// the predecessor and the waiter's own entry existed at the same time.
func (w *waiter) note(s *sighting, settled bool) {
	if !settled {
		return
	}
	name := s.entry.Name
	w.p.seen = true
	w.p.predecessorHolds = w.p.predecessorHolds || s.entry.Granted() && w.Kind.Alone(name)
	w.p.shares = w.Role == znode.Shared && s.entry.Shares()
}
