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
		err := g.persist(g.campaign, "no candidate for a moment", g.stand)
		if err != nil && g.campaign.Err() == nil {
			g.fail(err)
		}
	}
}

// stand waits until this member is elected, and leads.
func (g *Group) stand() error {
	leadership, err := g.election.Campaign(g.campaign, encode(g.me, nil))
	if err != nil {
		return err
	}
	err = g.lead(leadership)
	_ = leadership.Resign() // the client logs an error; the entry then expires
	return err
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

// candidates returns the members among the live candidates of a group's election. It fails if there are
// other candidates only: that is no group. One beside members must not end them.
func candidates(ctx context.Context, election *lock.Election) (members []candidate, err error) {
	all, err := election.Candidates(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		r, p, foreign := decode(c.Value)
		if r.ID != "" {
			members = append(members, candidate{record: r, host: c.Owner + "@" + c.Host, plan: p, entry: c})
		} else {
			err = fmt.Errorf("election %q: candidate %s: %w: %w", election.Name(), c.Entry, lock.ErrForeign, foreign)
		}
	}
	if len(members) > 0 {
		err = nil
	}
	return members, err
}

// lead plans until the leadership ends, or this member has left.
func (g *Group) lead(l *lock.Leadership) error {
	ctx, cancel := context.WithCancel(l.Context())
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)()
	p := &planner{self: g.me.ID, third: l.Remaining() / 3}
	var err error
	if p.plan, err = g.lastPlan(ctx); err != nil {
		return err
	}
	tick := time.NewTicker(stepEvery)
	defer tick.Stop()
	leaving := g.campaign.Done()
	w := watch{third: p.third}
	for {
		if err := g.step(ctx, l, p, &w); err != nil && !mends(err) {
			return err
		} else if err != nil && ctx.Err() == nil {
			g.opts.Log.Warn("shards not planned; tried again", "error", err)
			w.children = nil // look again
		}
		select {
		case <-tick.C:
		case <-leaving:
			leaving, p.leaving, w.children = nil, true, nil // look again
		case <-ctx.Done():
			return nil
		}
	}
}

// step looks at the candidates if they may have changed, and proclaims a plan if one is due, or if the
// leader before has made it.
func (g *Group) step(ctx context.Context, l *lock.Leadership, p *planner, w *watch) error {
	changed, err := w.changed(ctx, g.tree, g.election.Name())
	if err == nil && changed {
		err = g.look(ctx, p)
	}
	if err != nil {
		return err
	}
	next := p.next(time.Now())
	if next == nil {
		return nil
	}
	if next != p.plan {
		next.at = g.tree.Estimate().Earliest()
	}
	if err := l.Proclaim(ctx, encode(g.me, next)); err != nil {
		return err
	}
	p.planned(time.Now(), next)
	return nil
}

// look reads the candidates.
func (g *Group) look(ctx context.Context, p *planner) error {
	present, err := candidates(ctx, g.election)
	if err != nil {
		return err
	}
	present = slices.DeleteFunc(present, func(c candidate) bool { return c.Shards != len(g.slots) }) // they see the plan, and give up
	expired, err := g.expired(ctx, p.missing(present))
	if err != nil {
		return err
	}
	p.see(time.Now(), present, expired)
	if p.leaving && len(present) <= 1 { // alone
		g.release()
	}
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
	holders, err := readHolders(ctx, g.tree, g.name)
	if err != nil {
		return nil, err
	}
	last = &plan{owners: make([]string, len(g.slots))}
	for i, h := range holders {
		switch {
		case h.number != 0 && h.number != len(g.slots):
			return nil, g.number(h.number, fmt.Sprintf("the hold of shard %d by member %s", i, h.Owner))
		case i < len(last.owners):
			last.owners[i] = h.Owner
		}
	}
	return last, nil
}

// expired returns those missing members that do not own their shards any more: with owner and host
// if the entry of a shard is there and not renewed, and with "" if there is none. The entry may have
// been renewed up to a third of the TTL later than the candidate's. missing has a shard of each.
func (g *Group) expired(ctx context.Context, missing map[string]int) (map[string]string, error) {
	expired := map[string]string{}
	for id, shard := range missing {
		if shard < 0 {
			continue
		}
		state, err := g.tree.Inspect(ctx, g.mutex(shard).Name())
		if err != nil {
			return nil, err
		}
		entry := slices.IndexFunc(state.Contenders, func(c admin.Contender) bool { return strings.HasPrefix(c.Metadata[markKey], id+"/") })
		if entry < 0 {
			expired[id] = ""
		} else if c := state.Contenders[entry]; c.Expires.Sub(c.Read.Earliest()) < c.TTL/2 {
			expired[id] = c.Owner + "@" + c.Host
		}
	}
	return expired, nil
}

// watch notices changes of an election's candidates. Those that join or leave fire a watch, and those
// that die are purged by the one behind them. No other one waits behind the last, so its node is read
// each third of the TTL.
type watch struct {
	third    time.Duration // a third of the TTL
	children <-chan zk.Event
	last     string    // path of the last candidate, unless it is this one
	mzxid    int64     // of last
	asked    time.Time // when last was read
	wrote    time.Time // when mzxid was new
}

// changed reports whether the candidates may have changed. If the last one has not been renewed for
// two thirds of the TTL, changed is true until it must have expired, and from then on each third, and
// when it is renewed again.
func (w *watch) changed(ctx context.Context, tree admin.Tree, election string) (bool, error) {
	now := time.Now()
	select {
	case <-w.children:
		w.children = nil
	default:
	}
	if w.children == nil {
		names, children, err := tree.WatchChildren(ctx, tree.Path(election))
		if err != nil {
			return false, err
		}
		last := ""
		if entries := znode.Contenders(names); len(entries) > 1 {
			last = tree.Path(election) + "/" + entries[len(entries)-1].Node
		}
		if w.children = children; last != w.last {
			*w = watch{third: w.third, children: children, last: last, wrote: now}
		}
		return true, nil
	}
	if w.last == "" {
		return false, nil
	}
	silent := now.Sub(w.wrote)
	if now.Sub(w.asked) < w.third && (silent < 2*w.third || silent >= 6*w.third) {
		return false, nil
	}
	_, stat, err := tree.Get(ctx, w.last)
	if err != nil {
		return true, nil // gone, or not readable
	}
	if w.asked = now; stat.Mzxid != w.mzxid {
		w.mzxid, w.wrote = stat.Mzxid, now
	}
	return silent >= 2*w.third, nil
}
