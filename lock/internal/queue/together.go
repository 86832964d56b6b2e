package queue

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Limits of one transaction, see [zkconn.Batch].
const (
	mostTogether  = 32
	bytesTogether = 256 << 10 // of paths, records and ACLs; a single entry may have more
)

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
	taken := c.door.takeAlong(c, mostTogether-1)
	if len(taken) == 0 {
		return nil
	}
	last, size := len(d.ops)-1, sizeOf(d.ops[d.at])
	write := d.ops[last].(*zk.SetDataRequest)
	d.ops = d.ops[:last:last]
	limit := c.batch.Limit(created.Sent.Mono)
	for i, t := range taken {
		id := t.of.NewID()
		prefix := t.of.prefix(id)
		entry := t.of.entry(prefix, 0, created.Sent)
		if size += sizeOf(entry); size > limit {
			c.door.putBack(taken[i:])
			taken = taken[:i]
			break
		}
		t.along = &passenger{created: created, draft: &draft{attempt: d.attempt, id: id, at: len(d.ops), led: true}}
		d.ops = append(d.ops, entry)
		d.data.Tail = prefix
	}
	write.Data = d.data.Encode()
	d.ops = append(d.ops, write)
	for i, t := range taken {
		t.along.ops, t.along.data, t.along.behind = d.ops, d.data, int32(len(taken)-1-i)
	}
	d.behind = int32(len(taken))
	return taken
}

// sizeOf is how many bytes of a request the entries take that are made there, about.
func sizeOf(ops ...any) (size int) {
	const numbers = 32 // of lengths and flags, each
	for _, op := range ops {
		if entry, ok := op.(*zk.CreateRequest); ok {
			size += numbers + len(entry.Path) + len(entry.Data)
			for _, a := range entry.Acl {
				size += numbers + len(a.Scheme) + len(a.ID)
			}
		}
	}
	return size
}

// joinsAlone reports whether the contender neither takes others along nor is taken.
func (c *contender) joinsAlone() bool {
	return c.Kind == znode.Semaphore || c.Priority != 0 || c.trying || c.onlyFree || c.apart
}

// bring tells those who were taken along what came of it. If nothing was made they wait on,
// as before, and so does each whose entry is not in names: a list that was made since the
// reply was lost. It is nil if there is none.
func (d *door) bring(taken []*turn, replies []zk.MultiResponse, err error, names []znode.Name, received clock.Instant) {
	switch zkconn.OutcomeOf(err) {
	case zkconn.Applied:
		for _, t := range taken {
			t.of.arrive(t, replies, received)
		}
	case zkconn.Ambiguous:
		d.bringFound(taken, err, names)
	default:
		d.putBack(taken)
	}
}

// arrive is for one of those whose transaction was applied.
func (c *contender) arrive(t *turn, replies []zk.MultiResponse, received clock.Instant) {
	p := t.along
	p.last = replies[p.at-1].String[len(c.parent)+1:]
	if !c.door.settle(t) {
		c.background(func() { c.cleanUpAbandoned(p.draft, replies, nil) })
		c.Tasks.Leave()
		return
	}
	p.e, p.p, p.err = c.applied(context.Background(), p.draft, replies, p.created, received)
	close(t.come)
}

// bringFound is bring where the reply was lost. Whoever has given up has its entry deleted if
// it is there: one list shows them all.
func (d *door) bringFound(taken []*turn, err error, names []znode.Name) {
	var missing, strays []*turn
	for _, t := range taken {
		c, p := t.of, t.along
		if names != nil {
			if p.path, p.err = c.locate(names, p.id); p.err != nil {
				missing = append(missing, t)
				continue
			}
		}
		if !d.settle(t) {
			c.quarantine.add(p.id, c.Clock.Mono())
			strays = append(strays, t)
			continue
		}
		if p.path == "" { // each looks for itself
			p.err = err
		}
		close(t.come)
	}
	if len(missing) > 0 {
		d.putBack(missing)
	}
	if len(strays) > 0 {
		t := strays[0]
		t.of.background(func() { t.of.deleteByID(t.along.id) })
	}
	for _, t := range strays {
		t.of.Tasks.Leave()
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
