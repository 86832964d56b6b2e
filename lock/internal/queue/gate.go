package queue

import (
	linked "container/list"
	"context"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// lock waits for the turn to join: who comes first is first. A channel with a token would do,
// but is larger, and a client may have very many doors.
func (d *door) lock(ctx context.Context) error {
	d.mu.Lock()
	if !d.joining {
		d.joining = true
		d.mu.Unlock()
		return nil
	}
	if d.toJoin == nil {
		d.toJoin = linked.New()
	}
	turn := make(chan struct{})
	place := d.toJoin.PushBack(turn)
	d.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-turn: // just now
		d.nextJoins()
	default:
		d.toJoin.Remove(place)
	}
	return zkconn.ContextError(ctx)
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
	close(d.toJoin.Remove(d.toJoin.Front()).(chan struct{}))
}
