package queue

import (
	linked "container/list"
	"context"
	"slices"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// turn is the turn of one contender to join.
type turn struct {
	of    *contender      // who may be taken along by one whose turn comes sooner, see together.go; nil: nobody
	come  chan struct{}   // closed when it has come, or it is known what was sent along with another's entry
	along *passenger      // what that was; nil: it has come. Not changed after
	place *linked.Element // among those who wait; nil: not there. Guarded by the door, as are
	has   bool            // it has come
	made  bool            // somebody waits for what was sent, and gets it
	left  bool            // nobody waits any more
}

// lock waits for the turn to join: who comes first is first. A channel with a token would do,
// but is larger, and a client may have very many doors.
func (d *door) lock(ctx context.Context) error {
	_, err := d.takeTurn(ctx, nil)
	return err
}

// takeTurn waits for the turn to join, or until another one has taken that contender along,
// if there is one: then it returns what came of it.
func (d *door) takeTurn(ctx context.Context, of *contender) (*passenger, error) {
	d.mu.Lock()
	if !d.joining {
		d.joining = true
		d.mu.Unlock()
		return nil, nil
	}
	if d.toJoin == nil {
		d.toJoin = linked.New()
	}
	t := &turn{of: of, come: make(chan struct{})}
	t.place = d.toJoin.PushBack(t)
	d.mu.Unlock()
	select {
	case <-t.come:
		return t.along, nil
	case <-ctx.Done():
	}
	if d.leaveTurn(t) {
		return nil, zkconn.ContextError(ctx)
	}
	<-t.come
	return t.along, nil
}

// leaveTurn is for one who waits no longer. It reports false if its entry was just made:
// then it has that.
func (d *door) leaveTurn(t *turn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch t.left = !t.made; {
	case t.has:
		d.nextJoins()
	case t.place != nil:
		d.toJoin.Remove(t.place)
		t.place = nil
	}
	return t.left
}

// unlock gives the turn to the next one.
func (d *door) unlock() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nextJoins()
}

// nextJoins does it; d.mu is held.
func (d *door) nextJoins() {
	if d.toJoin == nil || d.toJoin.Len() == 0 {
		d.joining, d.toJoin = false, nil
		return
	}
	next := d.toJoin.Remove(d.toJoin.Front()).(*turn)
	next.place, next.has = nil, true
	close(next.come)
}

// takeAlong takes those out who wait first, that many at most, as long as they want the same
// kind of lock as that contender, and may be taken along.
func (d *door) takeAlong(c *contender, most int) (taken []*turn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.toJoin != nil && d.toJoin.Len() > 0 && len(taken) < most {
		t := d.toJoin.Front().Value.(*turn)
		if t.of == nil || t.of.Kind != c.Kind || !c.Tasks.Enter() {
			break
		}
		d.toJoin.Remove(t.place)
		t.place = nil
		taken = append(taken, t)
	}
	return taken
}

// putBack has those wait again, first of all, for whom nothing was made. Whoever had taken
// them along has the turn still.
func (d *door) putBack(taken []*turn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range slices.Backward(taken) {
		t.of.Tasks.Leave()
		if t.left {
			continue
		}
		if d.toJoin == nil {
			d.toJoin = linked.New()
		}
		t.along, t.place = nil, d.toJoin.PushFront(t)
	}
}

// settle reports whether somebody waits still for what was sent along.
func (d *door) settle(t *turn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	t.made = !t.left
	return t.made
}
