package lock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// leave deletes the entry's node, and the lock's parent with it if nobody else is
// there (protocol: Release). It goes on over reconnects until ctx ends. It fails
// with ErrRemoved if the node was gone already, and ErrTaken if somebody else
// wrote it; then it touches nothing. A node that is gone is what was asked for if a
// lost reply may have told so, or if its lease has ended since; but not if the
// lease may have ended before.
func (e *entry) leave(ctx context.Context) error {
	c := e.client
	s := c.spot(e.lock)
	defer c.leaveSpot(s)
	version, acknowledged, pending := e.lastWrite()
	stays := e.keep && !e.Draining() // the parent
	waiting, gaveUp := s.queue()
	now := c.now().mono
	if since := e.heldSince(); since != 0 {
		s.held(now - since)
	}
	busy := s.isBusy(now)
	linger := waiting == 0 && !e.Draining() && (busy || e.alone && !e.fixed && s.returns())
	alone := !linger && s.guess(e.alone && !stays, e.parentVersion)
	tell := !alone && e.looked && e.isUntold() && !e.Draining() && s.tells(now)
	tried := false // an attempt may have been applied
	for wait := c.cfg.newBackoff(20*time.Millisecond, time.Second); ; {
		ops := append(make([]any, 0, 2), &zk.DeleteRequest{Path: e.path, Version: version})
		see := s.look()
		switch {
		case alone:
			ops = append(ops, &zk.DeleteRequest{Path: e.parent, Version: e.parentVersion})
		case tell:
			see.data.Released = e.Prefix()
			ops = append(ops, &zk.SetDataRequest{Path: e.parent, Data: see.data.Encode(), Version: see.version})
		}
		replies, err := c.conn.multi(ctx, nil, ops...)
		op, cause := refusedOp(err)
		switch is := func(target error) bool { return errors.Is(cause, target) }; {
		case err == nil && alone:
			s.missed()
			s.leaves(c.now().mono, false)
			return nil
		case err == nil && tell && replies[1].Stat.NumChildren > 0: // theirs to see to
			s.saw(see.data, replies[1].Stat)
			s.leaves(c.now().mono, true)
			return nil
		case err == nil || is(zk.ErrNoNode) && op == 0 && !e.lapsed && (tried || e.isOver(c.now())):
			// Whoever of us waits sees to the parent when it leaves; but one that
			// gave up meanwhile may have met our entry there.
			switch _, now := s.queue(); {
			case stays || waiting > 0 && gaveUp == now:
			case linger:
				if busy {
					s.doubt()
				}
				c.linger(e, s)
			default:
				others := c.dropParent(ctx, e.parent, s, e.keep, e.Name)
				s.leaves(c.now().mono, others)
			}
			return nil
		case op == 1 && tell: // somebody has written the parent since we looked
			s.doubt()
			s.told(false, c.now().mono)
			tell = false
			continue
		case op == 1: // somebody came, or the parent is not ours to delete
			s.setContended(true)
			alone = false
			continue
		case is(zk.ErrNoNode) && op == 0:
			return ErrRemoved
		case is(zk.ErrBadVersion) && op == 0:
			n, err := c.conn.get(ctx, e.path)
			switch {
			case errors.Is(err, zk.ErrNoNode):
				tried = true
			case err != nil:
				return fmt.Errorf("delete %s: %w", e.path, err)
			case n.stat.Version == acknowledged || pending != nil && bytes.Equal(n.data, pending):
				version = n.stat.Version
			default:
				return ErrTaken
			}
			continue
		case outcomeOf(err) == refused:
			if is(zk.ErrNoAuth) {
				cause = fmt.Errorf("%w: the lock's ACL does not let us", ErrDenied)
			}
			return fmt.Errorf("delete %s: %w", e.path, cause)
		case outcomeOf(err) == uncertain:
			tried = true
		}
		if wait.sleep(ctx) != nil {
			return fmt.Errorf("delete %s: %w: %w", e.path, ErrUnavailable, err)
		}
	}
}

// lingerTime is within what time this process is back at a lock that it takes again
// and again, alone or in turn with others. Such a lock is empty between two turns. To
// delete the parent then, and make it again, would cost everybody more than the lock
// itself, so it is seen to when that time has passed.
const lingerTime = 50 * time.Millisecond

// linger sees to the parent a while after the entry has left it; at once when the
// client closes.
func (c *Client) linger(e *entry, s *spot) {
	if !s.linger(c.now().mono) {
		return // it is seen to after this, too
	}
	c.background(func() {
		for wait := c.cfg.jitter(lingerTime, lingerTime/5); wait > 0; {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
				wait = s.lingers(c.now().mono, lingerTime)
			case <-c.open.Done():
				wait = 0
			}
			timer.Stop()
		}
		if s.lingered() {
			return // whoever of us is there will see to it
		}
		ctx, cancel := context.WithTimeout(context.Background(), c.patience(e.settings))
		defer cancel()
		c.dropParent(ctx, e.parent, s, e.keep, e.Name)
	})
}

// dropParent deletes a lock's parent if it is empty and ours to delete, and reports
// whether somebody is there. It is the last one out's duty; whoever joins meanwhile
// takes it over. Of a parent that is to be kept, only the end of its counter makes
// an exception.
func (c *Client) dropParent(ctx context.Context, parent string, s *spot, keep bool, last znode.Name) (others bool) {
	n, err := c.conn.get(ctx, parent)
	if errors.Is(err, zk.ErrNoNode) {
		s.missed()
		return false
	}
	if err != nil {
		c.cfg.log.Debug().Err(err).Str("parent", parent).Msg("cannot see whether the lock's parent is empty; the reaper will")
		return false
	}
	data, err := znode.DecodeParent(n.data)
	foreign := err != nil || data.Kind == "" || data.Kind == znode.Dir
	if !foreign {
		s.meet(n.stat.Version, c.now().mono)
		s.update(data, n.stat)
	}
	keep = (keep || data.Adopted) && !last.Draining()
	if n.stat.NumChildren > 0 || foreign || keep {
		return n.stat.NumChildren > 0
	}
	_, err = c.conn.multi(ctx, nil, &zk.DeleteRequest{Path: parent, Version: n.stat.Version})
	switch _, cause := refusedOp(err); {
	case err == nil, errors.Is(cause, zk.ErrNoNode):
		s.missed()
	case errors.Is(cause, zk.ErrNotEmpty), errors.Is(cause, zk.ErrBadVersion): // somebody came
		return true
	default:
		c.cfg.log.Debug().Err(err).Str("parent", parent).Msg("the lock's empty parent could not be deleted; the reaper will")
	}
	return false
}

// patience is for how long the clean-up of an entry is tried: longer than that
// it is expired, and others' to purge.
func (c *Client) patience(s settings) time.Duration { return c.cfg.unlockTimeout + s.TTL + s.Grace }

// discard deletes in the background the node of an entry that has ended.
func (c *Client) discard(e *entry) {
	c.background(func() {
		ctx, cancel := context.WithTimeout(context.Background(), c.patience(e.settings))
		defer cancel()
		if err := e.leave(ctx); err != nil && !errors.Is(err, ErrRemoved) {
			c.cfg.log.Warn().Err(err).Str("lock", e.lock).Str("entry", e.path).
				Msg("an entry that is not wanted any more could not be deleted; it is left to expire")
		}
	})
}
