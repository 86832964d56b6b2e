package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// candidacy keeps this member a candidate until it leaves.
func (g *Group) candidacy() {
	for g.campaign.Err() == nil {
		err := g.persist(g.campaign, "no candidate for a moment", func() error {
			leadership, err := g.election.Campaign(g.campaign, encode(g.me, nil))
			if err == nil {
				err = g.lead(leadership)
				_ = leadership.Resign() // the client logs an error; the entry then expires
			}
			return err
		})
		if err != nil && g.campaign.Err() == nil {
			g.fail(err)
		}
	}
}

// persist calls f until it succeeds, its error is one that waiting cannot mend, or ctx ends.
func (g *Group) persist(ctx context.Context, warning string, f func() error) error {
	for {
		err := f()
		if err == nil || !mends(err) || ctx.Err() != nil {
			return err
		}
		g.opts.Log.Warn(warning, "error", err)
		sleep(ctx, time.Second)
	}
}

// mends reports whether another try may succeed after the error.
func mends(err error) bool { return admin.Mends(err) && !errors.Is(err, ErrNumber) }

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// leader is a member that leads, and what it knows of the candidates.
type leader struct {
	*Group
	*planner
	proclaim func(ctx context.Context, value string) error
	children <-chan zk.Event // fires when a candidate has joined or left; nil: they are to be read
	tail     string          // path of the last one
	written  int64           // Mzxid of tail, as it was read last
	since    time.Time       // when that Mzxid was first read
	silent   bool            // tail was not renewed for two thirds of the TTL
	again    time.Time       // when tail is to be read again
}

// lead plans until the leadership ends, or this member has left.
func (g *Group) lead(l *lock.Leadership) error {
	ctx, cancel := context.WithCancel(l.Context())
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)()
	last, err := g.lastPlan(ctx)
	leads := leader{Group: g, planner: &planner{self: g.me.ID, third: l.Remaining() / 3, last: last, strikes: map[string]strike{}}, proclaim: l.Proclaim}
	tick := time.NewTicker(stepEvery)
	defer tick.Stop()
	withdrawn := g.campaign.Done()
	for err == nil {
		err = g.persist(ctx, "shards not planned; tried again", func() error { return leads.step(ctx) })
		if ctx.Err() != nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-withdrawn:
			withdrawn, leads.leaving = nil, true
		case <-ctx.Done():
		}
	}
	return err
}

// step looks at the candidates if they may have changed, and proclaims a plan if one is due, or if the
// leader before has made it.
func (l *leader) step(ctx context.Context) error {
	changed, err := l.changed(ctx)
	if err == nil && changed {
		err = l.look(ctx)
	}
	if err != nil {
		l.children = nil
		return err
	}
	next := l.next(time.Now())
	if next == nil {
		return nil
	}
	if next != l.last {
		next.at = l.tree.Estimate().Earliest()
	}
	if err = l.proclaim(ctx, encode(l.me, next)); err == nil {
		l.proclaimed(time.Now(), next)
	}
	return err
}

// changed reports whether the candidates may have changed. Those that join or leave fire a watch, and those
// that die are purged by the one behind them. No other one waits behind the last, so it is read each third of
// the TTL. If it was not renewed for two, changed is true each second until it must have expired, and from
// then on each third, and when it is renewed again. That counts from reads: by ensemble time a candidate that
// died before a change of ZooKeeper's leader may seem alive for as long as the two leaders' clocks differ.
func (l *leader) changed(ctx context.Context) (bool, error) {
	select {
	case <-l.children:
		l.children = nil
	default:
	}
	if l.children == nil {
		election := l.tree.Path(l.election.Name())
		names, children, err := l.tree.WatchChildren(ctx, election)
		for _, n := range znode.Contenders(names) {
			l.tail = election + "/" + n.Node
		}
		l.children = children
		return true, err
	}
	if time.Now().Before(l.again) {
		return false, nil
	}
	_, stat, err := l.tree.Get(ctx, l.tail)
	if err != nil {
		return true, nil // gone, or not readable
	}
	now, was := time.Now(), l.silent
	if stat.Mzxid != l.written {
		l.written, l.since = stat.Mzxid, now
	}
	unchanged := now.Sub(l.since)
	if l.silent = unchanged > 2*l.third; !l.silent || unchanged > 6*l.third {
		l.again = now.Add(l.third)
	}
	return l.silent || was, nil
}

// look reads the candidates, and what the missing members still own.
func (l *leader) look(ctx context.Context) error {
	present, err := candidates(ctx, l.election)
	if err != nil {
		return err
	}
	present = slices.DeleteFunc(present, func(c candidate) bool { return c.number != len(l.slots) }) // they see the plan, and give up
	gone := map[string]string{}
	for _, id := range l.missing(present) {
		shard := slices.Index(l.last.owners, id)
		if shard < 0 {
			continue
		}
		state, err := l.tree.Inspect(ctx, l.mutex(shard).Name())
		if err != nil {
			return err
		}
		entry := slices.IndexFunc(state.Contenders, func(c admin.Contender) bool {
			return strings.HasPrefix(c.Metadata[markKey], id+"/")
		})
		if entry < 0 {
			gone[id] = ""
		} else if c := state.Contenders[entry]; c.Expires.Sub(c.Read.Earliest()) < c.TTL/2 {
			gone[id] = c.Owner + "@" + c.Host // expired: this entry was renewed up to a third of the TTL later than the candidate's
		}
	}
	l.see(time.Now(), present, gone)
	return nil
}

// lastPlan returns the plan from which a new leader goes on: the last one that this member has seen, or one
// without members, from the holds of the shards.
func (g *Group) lastPlan(ctx context.Context) (*plan, error) {
	g.mu.Lock()
	last := g.plan
	g.mu.Unlock()
	if last != nil {
		return last, nil
	}
	owned, err := readOwners(ctx, g.tree, g.name)
	last = &plan{owners: make([]string, len(g.slots))}
	for i, shard := range owned {
		switch {
		case shard.number != 0 && shard.number != len(g.slots):
			return nil, g.number(shard.number, fmt.Sprintf("the hold of shard %d by member %s", i, shard.Owner))
		case i < len(last.owners):
			last.owners[i] = shard.Owner
		}
	}
	return last, err
}
