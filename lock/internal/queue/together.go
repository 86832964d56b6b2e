package queue

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// mostTogether is how many entries are made in one transaction. Their records, with all the
// metadata there may be, are less than the megabyte that a server takes in a request.
const mostTogether = 32

// passenger is an entry of one who waited for the turn to join, made in the transaction of
// another contender of this process whose turn it was.
type passenger struct {
	*draft
	created lease.Created

	// What came of it, not changed once its turn was told.
	e    *Entry
	p    position
	path string // of an entry that was found, after the reply was lost
	err  error  // of the transaction
}

// takeAlong adds the entries of those to a draft who wait behind it for the turn to join,
// and returns their turns. It does so only where an entry proves which parent is written,
// so that nothing but that check, or somebody's write before, refuses them. A semaphore's
// parent tells less of who may enter, and of a candidate the first is its leader's alone:
// they join one by one.
func (c *contender) takeAlong(d *draft, created lease.Created) []*turn {
	if !d.checks() || c.joinsAlone() {
		return nil
	}
	taken := c.door.takeAlong(c)
	if len(taken) == 0 {
		return nil
	}
	last := len(d.ops) - 1
	write := d.ops[last].(*zk.SetDataRequest)
	d.ops = d.ops[:last:last]
	for i, t := range taken {
		id := t.of.NewID()
		prefix := t.of.prefix(id)
		t.along = &passenger{created: created, draft: &draft{attempt: d.attempt, id: id, at: len(d.ops), led: true, behind: int32(len(taken) - 1 - i)}}
		d.ops = append(d.ops, t.of.entry(prefix, 0, created.Sent))
		d.data.Tail = prefix
	}
	write.Data = d.data.Encode()
	d.ops = append(d.ops, write)
	for _, t := range taken {
		t.along.ops, t.along.data = d.ops, d.data
	}
	d.behind = int32(len(taken))
	return taken
}

// joinsAlone reports whether the contender neither takes others along nor is taken.
func (c *contender) joinsAlone() bool {
	return c.Kind == znode.Semaphore || c.Priority != 0 || c.trying || c.onlyFree || c.apart
}

// bring tells those who were taken along what came of it. If nothing was made they wait on,
// as before. Names is a list that was made since the reply was lost, nil if there is none:
// then each looks for its own entry.
func (d *door) bring(taken []*turn, replies []zk.MultiResponse, err error, names []znode.Name, received clock.Instant) {
	switch zkconn.OutcomeOf(err) {
	case zkconn.Applied, zkconn.Ambiguous:
	default:
		d.putBack(taken)
		return
	}
	for _, t := range taken {
		c, p := t.of, t.along
		if err == nil {
			p.last = replies[p.at-1].String[len(c.parent)+1:]
		}
		if !d.settle(t) {
			c.background(func() { c.cleanUpAbandoned(p.draft, replies, err) })
			c.Tasks.Leave()
			continue
		}
		p.err = err
		if err == nil {
			p.e, p.p, p.err = c.applied(context.Background(), p.draft, replies, p.created, received)
		} else if names != nil {
			p.path, p.err = c.locate(names, p.id)
		}
		close(t.come)
	}
}

// disembark takes what came of an entry that was sent along with another's.
func (c *contender) disembark(ctx context.Context, p *passenger) (*Entry, position, error) {
	defer c.Tasks.Leave()
	switch {
	case p.path != "":
		return c.found(ctx, p.draft, p.path, p.created), position{}, nil
	case zkconn.OutcomeOf(p.err) == zkconn.Ambiguous:
		path, _, err := c.findByID(ctx, p.id)
		if err != nil {
			return nil, position{}, err
		}
		return c.found(ctx, p.draft, path, p.created), position{}, nil
	}
	return p.e, p.p, p.err
}
