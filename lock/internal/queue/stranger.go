package queue

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// followStranger waits for a predecessor of another library's until that has gone. Such a
// one purges nobody. So whoever is behind it also judges the nearest entry of ours before
// it, and deletes that when it has expired; what is before that one, it judges itself, for as
// long as it is there.
func (w *waiter) followStranger(ctx context.Context, changed <-chan zk.Event) error {
	names, self, err := w.list(ctx)
	if err != nil {
		return err
	}
	i := self - 1
	for i >= 0 && !names[i].Ours() {
		i--
	}
	var before *observation
	for {
		wait := time.Duration(-1)
		var left <-chan zk.Event // that one was renewed, or has left
		if i >= 0 {
			if before, wait, err = w.judgeBefore(ctx, names[i], before); err != nil {
				return err
			}
			if before == nil { // it has gone
				w.p = position{}
				return nil
			}
			left = before.changed
		}
		event, err := w.awaitChange(ctx, changed, left, wait)
		switch {
		case err != nil:
			return err
		case event == zk.EventNodeDeleted:
			return w.gone(ctx)
		case event != 0:
			return nil
		}
	}
}

// judgeBefore looks at an entry that somebody else stands behind, and purges it if it has
// expired. It returns what was seen of it, nil if it is there no more; and when to look
// again, never if that is negative.
func (w *waiter) judgeBefore(ctx context.Context, name znode.Name, last *observation) (now *observation, wait time.Duration, err error) {
	n, changed, err := w.Conn.Watch(ctx, w.parent+"/"+name.Node)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, 0, nil
	case errors.Is(err, zk.ErrNoAuth):
		return &observation{}, pollEvery, nil
	case err != nil:
		return nil, 0, err
	}
	now = w.observed(last, znode.ReadEntry(name, n.Data, znode.Stat(*n.Stat)))
	now.changed = changed
	knew := w.Clock.Now()
	verdict, wait := w.judge(now, knew)
	switch {
	case verdict == znode.Live:
		return now, wait, nil
	case verdict == znode.Unproven:
		return now, 0, w.prove(ctx, knew, now.entry.Stat.Mzxid)
	case !w.e.WroteSince(w.Conn.LastOutage()): // after an outage of ours everybody looks dead
		return now, 0, w.e.Refresh(ctx)
	}
	if err = w.purgeAll(ctx, []znode.Entry{now.entry}); err != nil {
		return now, 0, w.notPurged(ctx, err)
	}
	return nil, 0, nil
}

// notPurged takes the error of a purge, and waits for a moment: for somebody who may, or
// because somebody was quicker, or the connection failed.
func (w *waiter) notPurged(ctx context.Context, err error) error {
	if errors.Is(err, zkconn.ErrDenied) || errors.Is(err, ErrForeign) {
		w.Log.Warn().Err(err).Str("lock", w.Lock).Msg("expired entries ahead cannot be deleted; waiting for somebody who may")
		return w.e.Pause(ctx, pollEvery)
	}
	return w.e.Pause(ctx, 50*time.Millisecond)
}
