package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/lock/znode"
)

const (
	joinTries  = 40               // collisions with other joiners of a long queue before one joins without the tail, and lists
	shortQueue = 128              // entries, at most; to list them costs less than to collide again
	purgeBatch = 100              // deletes in one transaction
	pollEvery  = time.Second      // where no watch can be had
	shortHold  = time.Millisecond // saves the write that records its grant
)

// request is what one contender asks for. It knows how to join the queue of a
// lock and how to wait its turn (protocol: Acquire); which recipe it serves shows
// in kind and role only.
type request struct {
	*Client
	settings
	lock   string
	parent string // path of the lock
	kind   znode.Kind
	role   znode.Role
	trying bool // not to wait for anybody
	spot   *spot
	values context.Context // whose values the hold's context keeps
	ahead  *HeldError      // who was seen in the way last
}

// seat is what a contender knows of its place in the queue.
type seat struct {
	in     bool   // nobody is in the way
	ahead  string // name of the node to wait for; "": unknown, a listing will tell
	proven bool   // that node was seen, and not only foretold
	first  bool   // nothing in the way stands before that node: when it goes, we are next
}

// acquire queues up and waits until the lock is had, or ctx ends.
func (q *request) acquire(ctx context.Context) (*entry, error) {
	for {
		e, s, err := q.join(ctx)
		if err != nil {
			return nil, err
		}
		if err = q.await(ctx, e, s); err == nil {
			err = q.enter(ctx, e, !s.in)
		}
		if err == nil {
			return e, nil
		}
		if e.withdraw() {
			q.discard(e)
		}
		if !errors.Is(err, errGone) && !errors.Is(err, ErrLost) { // lost in an outage, before it was had
			return nil, err
		}
		q.stats.requeued.Add(1)
		q.remember(e.ID)
		q.discard(q.stray(e.Name)) // somebody may have overwritten it, and it would be ahead of us
		q.cfg.log.Warn().Str("lock", q.lock).Str("entry", e.path).AnErr("why", err).Msg("lost the place in the queue; queueing again at the end")
	}
}

// enter makes a hold of an entry whose turn has come. The grant is recorded with
// the next write. That is made now if no other would follow; and soon if we had
// to wait, because then somebody may wait behind us too, who need not list when
// we go if our entry has told that we hold.
func (q *request) enter(ctx context.Context, e *entry, waited bool) error {
	now, record := q.now(), never
	if waited {
		record = now.mono + q.spot.grantDelay()
	}
	if err := e.grant(q.values, now, record); err != nil {
		return err
	}
	if q.fixed && !e.isRecorded() {
		if err := e.refresh(ctx); errors.Is(err, ErrLost) {
			return errGone // before anybody had it
		} else if err != nil {
			return err
		}
	}
	return nil
}

// try takes the lock if nobody is in the way. It reads first, so that a try that
// fails has written nothing.
func (q *request) try(ctx context.Context) (*entry, error) {
	q.trying = true
	names, err := q.contenders(ctx, false)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if err := q.passable(ctx, n); err != nil {
			return nil, err
		}
	}
	for {
		e, err := q.tryJoined(ctx)
		if !errors.Is(err, errGone) {
			return e, err
		}
	}
}

// tryJoined joins and leaves again if somebody alive is ahead.
func (q *request) tryJoined(ctx context.Context) (*entry, error) {
	e, s, err := q.join(ctx)
	if err != nil {
		return nil, err
	}
	for err == nil && !s.in {
		// Whoever is ahead has expired, or joined since we looked.
		if s, err = q.purge(ctx, e); err == nil && s.ahead != "" {
			n, _ := znode.Parse(s.ahead)
			err = q.passable(ctx, n)
		}
	}
	if err == nil {
		err = q.await(ctx, e, s)
	}
	if err == nil {
		err = q.enter(ctx, e, false)
	}
	if err != nil && e.withdraw() {
		q.discard(e)
	}
	return e, err
}

// passable returns a HeldError if the contender is alive, as far as can be known.
func (q *request) passable(ctx context.Context, n znode.Name) error {
	path := q.parent + "/" + n.Node
	at, err := q.conn.get(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case errors.Is(err, zk.ErrNoAuth):
		return &HeldError{Lock: q.lock, Entry: path}
	case err != nil:
		return err
	}
	o := q.other(path, at)
	verdict, _ := o.judge(q.Client, q.now())
	if verdict == unproven {
		if err := q.sample(ctx); err != nil && !errors.Is(err, ErrDenied) {
			return err
		}
		verdict, _ = o.judge(q.Client, q.now())
	}
	if verdict != expired {
		return o.held(q.lock)
	}
	return nil
}

// join creates an entry in the queue. The joiners of one process go one at a
// time, so that they do not collide with each other.
func (q *request) join(ctx context.Context) (*entry, seat, error) {
	if err := q.spot.enter(ctx); err != nil {
		return nil, seat{}, err
	}
	defer q.spot.leave()
	if err := q.learnTime(ctx); err != nil { // an entry tells its expiry in ensemble time
		return nil, seat{}, err
	}
	collisions, guess := 0, true // the parent may be guessed, as long as it was not looked at
	for wait := q.cfg.newBackoff(5*time.Millisecond, 250*time.Millisecond); ; {
		see := q.spot.look()
		read := false
		if see.doubted {
			next, likely := q.spot.foresee(q.now().mono)
			if read = !guess || !likely; read {
				if err := q.readParent(ctx); err != nil {
					return nil, seat{}, err
				}
				next = q.spot.look()
			}
			see, guess = next, false
		}
		unseen := collisions > 0 && see.children <= shortQueue || collisions >= joinTries
		e, s, err := q.create(ctx, see, unseen)
		switch {
		case err == nil && e.Draining() && !s.in && q.trying:
			e.withdraw()
			q.discard(e)
			return nil, seat{}, &HeldError{Lock: q.lock, Entry: q.parent}
		case err == nil && e.Draining() && !s.in:
			if err = q.drain(ctx, e); err != nil {
				return nil, seat{}, err
			}
			continue
		case err == nil:
			return e, s, nil
		case errors.Is(err, ErrUnavailable):
			return nil, seat{}, err
		case ctx.Err() != nil:
			return nil, seat{}, contextError(ctx)
		case errors.Is(err, zk.ErrBadVersion) && read: // otherwise what was seen last was old
			collisions++
		}
		again, err := q.learn(ctx, see, collisions < 2, err)
		if err != nil {
			return nil, seat{}, err
		}
		if !again {
			err = wait.sleep(ctx)
		}
		if err != nil {
			return nil, seat{}, err
		}
	}
}

// create makes one attempt at an entry, in one transaction that also creates the
// parent if that was last seen missing, and that writes the parent unless unseen
// is asked for or the ACL forbids it. The reply to that write tells whether we
// are alone, our fencing token, and the leader's time.
func (q *request) create(ctx context.Context, see sight, unseen bool) (*entry, seat, error) {
	id := q.newID()
	prefix := znode.Prefix(id, q.role)
	sent, session := q.now(), q.session()

	data := see.data
	data.Kind, data.Tail = q.kind, prefix
	var acquired int64
	if !see.exists {
		acquired = q.ensembleMillis(sent) // who creates the parent is alone, and holds
	}
	entry := &zk.CreateRequest{
		Path: q.parent + "/" + prefix, Data: q.record(&q.settings, q.TTL, acquired, sent),
		Acl: q.cfg.acl, Flags: zk.FlagSequence,
	}
	written := data.Encode()
	var ops []any
	switch {
	case !see.exists:
		ops = []any{
			&zk.CreateRequest{Path: q.parent, Data: written, Acl: q.cfg.acl},
			entry,
			&zk.SetDataRequest{Path: q.parent, Data: written, Version: 0},
		}
	case unseen || see.plain:
		ops = []any{entry}
	default:
		ops = []any{entry, &zk.SetDataRequest{Path: q.parent, Data: written, Version: see.version}}
	}
	replies, err := q.conn.multi(ctx, q.undo(id), ops...)
	received := q.now()
	if gone := (abandoned{}); outcomeOf(err) == uncertain && !errors.As(err, &gone) {
		path, err := q.find(ctx, id)
		if err != nil {
			return nil, seat{}, err
		}
		e := q.newEntry(path, sent, session)
		e.keep = e.keep || data.Adopted
		return e, seat{}, nil
	}
	if err != nil {
		return nil, seat{}, err
	}

	e := q.newEntry(replies[slices.Index(ops, any(entry))].String, sent, session)
	e.acquired, e.recorded = acquired, acquired != 0
	e.keep = e.keep || data.Adopted
	stat := replies[len(replies)-1].Stat
	if stat == nil {
		return e, seat{}, nil
	}
	q.clock.observe(stat.Mzxid, stat.Mtime, sent, received)
	q.spot.joined(data, stat, received.mono)
	e.czxid, e.parentVersion, e.alone = stat.Mzxid, stat.Version, stat.NumChildren == 1
	if e.alone {
		return e, seat{in: true}, nil
	}
	return e, seat{ahead: znode.Predict(see.data.Tail, e.Seq-1), first: stat.NumChildren == 2}, nil
}

// learn takes what a failed attempt to create an entry teaches. It reports whether to
// try again at once, which after a collision is up to the caller, or an error if it
// is no use.
func (q *request) learn(ctx context.Context, see sight, atOnce bool, err error) (again bool, _ error) {
	op, cause := refusedOp(err)
	switch is := func(target error) bool { return errors.Is(cause, target) }; {
	case outcomeOf(err) != refused:
		return false, nil
	case op < 0:
		return false, err
	case is(zk.ErrNoNode) && see.exists:
		q.spot.missed()
		q.spot.doubt()
		return true, nil
	case is(zk.ErrNoNode):
		return true, q.makeAncestors(ctx, q.parent)
	case is(zk.ErrNodeExists):
		q.spot.doubt()
		return true, nil
	case is(zk.ErrBadVersion):
		q.spot.doubt()
		return atOnce, nil
	case is(zk.ErrNoChildrenForEphemerals):
		return false, fmt.Errorf("%w: %s, or the node above it, is ephemeral and cannot have children", ErrForeign, q.parent)
	case is(zk.ErrNoAuth) && !see.exists && op > 0:
		return false, fmt.Errorf("%w: the ACL that this client gives its nodes does not let itself in: WithACL does not fit its credentials", ErrDenied)
	case is(zk.ErrNoAuth) && !see.exists:
		// It is not ours to create; perhaps somebody else has.
		if err := q.readParent(ctx); err != nil {
			return false, err
		}
		if !q.spot.look().exists {
			return false, fmt.Errorf("%w: create %s: the ACL of the node above does not let us", ErrDenied, q.parent)
		}
		return true, nil
	case is(zk.ErrNoAuth) && op == 1:
		q.spot.denied()
		return true, nil
	case is(zk.ErrNoAuth):
		return false, fmt.Errorf("%w: create an entry below %s: its ACL does not let us", ErrDenied, q.parent)
	}
	return false, fmt.Errorf("create an entry below %s: %w", q.parent, cause)
}

// readParent looks at the lock's node and refuses it if it is not ours to use.
func (q *request) readParent(ctx context.Context) error {
	n, err := q.conn.get(ctx, q.parent)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		q.spot.missed()
		return nil
	case errors.Is(err, zk.ErrNoAuth):
		return fmt.Errorf("%w: read %s: its ACL does not let us", ErrDenied, q.parent)
	case err != nil:
		return err
	case n.stat.EphemeralOwner != 0:
		return fmt.Errorf("%w: %s is an ephemeral node", ErrForeign, q.parent)
	}
	data, err := znode.DecodeParent(n.data)
	switch {
	case errors.Is(err, znode.ErrNewer):
		return fmt.Errorf("%w: %s holds %v; use a newer release", ErrForeign, q.parent, err)
	case err != nil:
		return fmt.Errorf("%w: %s holds %d bytes that are %v", ErrForeign, q.parent, len(n.data), err)
	case data.Kind == "":
		data.Adopted = true // found empty: we use it, and leave it when we go
	case data.Kind == znode.Dir: // an ancestor of ours that becomes a lock too
	case data.Kind != q.kind:
		return fmt.Errorf("%w: %s is a %s, asked for as a %s", ErrKind, q.parent, data.Kind, q.kind)
	}
	q.spot.sawAgain(data, n.stat, q.now().mono)
	return nil
}

// newEntry returns the entry of a node that was just created.
func (q *request) newEntry(path string, sent instant, session int64) *entry {
	name, _ := znode.Parse(path[strings.LastIndexByte(path, '/')+1:])
	return newEntry(q.Client, q.lock, q.settings, path, name, sent, session)
}

// find looks for the entry of an attempt whose outcome is unknown: persistent
// nodes outlive the connection and the session they were made in.
func (q *request) find(ctx context.Context, id string) (string, error) {
	names, err := q.contenders(ctx, true)
	if err != nil {
		q.background(func() { q.hunt(id) })
		return "", err
	}
	if i := znode.Find(names, id); i >= 0 {
		return q.parent + "/" + names[i].Node, nil
	}
	q.remember(id) // should it appear after all, whoever lists deletes it
	return "", neverLeft{errors.New("the entry was not created")}
}

// undo returns what is to be done with the reply to an attempt that nobody waits
// for any more.
func (q *request) undo(id string) func([]zk.MultiResponse, error) {
	return func(_ []zk.MultiResponse, err error) {
		if o := outcomeOf(err); o == applied || o == uncertain {
			q.background(func() { q.hunt(id) })
		}
	}
}

// hunt finds and deletes the entry with that id, if there is one.
func (q *request) hunt(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), q.patience(q.settings))
	defer cancel()
	if names, err := q.contenders(ctx, true); err == nil {
		if i := znode.Find(names, id); i >= 0 {
			q.discard(q.stray(names[i]))
		}
	}
}

// contenders lists the lock's entries in order, none if it is not there. Caught
// up asks the server to be as current as it can be.
func (q *request) contenders(ctx context.Context, caughtUp bool) ([]znode.Name, error) {
	if caughtUp {
		if err := q.conn.sync(ctx, q.parent); err != nil {
			return nil, err
		}
	}
	l, err := q.conn.children(ctx, q.parent)
	if errors.Is(err, zk.ErrNoNode) {
		q.spot.missed()
		return nil, nil
	}
	if errors.Is(err, zk.ErrNoAuth) {
		return nil, fmt.Errorf("%w: list %s: its ACL does not let us", ErrDenied, q.parent)
	}
	if err != nil {
		return nil, err
	}
	names := znode.Contenders(l.names)
	for _, n := range q.straysAmong(names) {
		q.discard(q.stray(n)) // in the way until then
	}
	if len(names) > 1 && names[len(names)-2].Overflowed() {
		return names, q.sortByCreation(ctx, names)
	}
	return names, nil
}

// sortByCreation orders what the sequence alone no longer does. An entry that may
// not be read counts as the earliest: to wait for it is safe, whatever it is.
func (q *request) sortByCreation(ctx context.Context, names []znode.Name) error {
	czxids := make(map[string]int64)
	for _, n := range names {
		if !n.Overflowed() {
			continue
		}
		switch at, err := q.conn.get(ctx, q.parent+"/"+n.Node); {
		case err == nil:
			czxids[n.Node] = at.stat.Czxid
		case !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth):
			return err
		}
	}
	slices.SortFunc(names, func(a, b znode.Name) int {
		return znode.CompareAt(a, czxids[a.Node], b, czxids[b.Node])
	})
	return nil
}

// stray is the entry of a node that nobody of us means to keep.
func (q *request) stray(n znode.Name) *entry {
	e := q.newEntry(q.parent+"/"+n.Node, instant{}, 0)
	e.version = -1
	return e
}

// await waits until it is the entry's turn.
func (q *request) await(ctx context.Context, e *entry, s seat) (err error) {
	if !s.in {
		e.begin()
		q.spot.wait()
		defer func() { q.spot.waited(err == nil) }()
	}
	for {
		switch {
		case s.in && e.fresh(q.now(), q.session()):
			return contextError(ctx)
		case s.in:
			// Our lease may have run out, and somebody purged us; or the session
			// is a new one, whose server may lag behind. A write tells.
			if err = e.refresh(ctx); err == nil {
				s, err = q.look(ctx, e)
			}
		case s.ahead == "":
			s, err = q.look(ctx, e)
		default:
			s, err = q.follow(ctx, e, s)
		}
		if err != nil {
			return err
		}
	}
}

// look finds the entry's place by listing. The list may be stale, but one that
// has our entry in it has every earlier one that still is.
func (q *request) look(ctx context.Context, e *entry) (seat, error) {
	names, self, err := q.list(ctx, e)
	if err != nil {
		return seat{}, err
	}
	return q.seatOf(names, self), nil
}

func (q *request) seatOf(names []znode.Name, self int) seat {
	ahead := znode.Admit(names, self)
	if ahead < 0 {
		return seat{in: true}
	}
	return seat{ahead: names[ahead].Node, proven: true, first: ahead == 0}
}

// list returns the contenders, and where the entry stands among them.
func (q *request) list(ctx context.Context, e *entry) ([]znode.Name, int, error) {
	for _, caughtUp := range []bool{false, true} {
		names, err := q.contenders(ctx, caughtUp)
		if err != nil {
			return nil, 0, err
		}
		if self := znode.Find(names, e.ID); self >= 0 {
			return names, self, q.complete(ctx, e)
		}
	}
	e.vanished()
	return nil, 0, errGone
}

// complete learns the fencing token of an entry that joined without the parent.
func (q *request) complete(ctx context.Context, e *entry) error {
	if e.czxid != 0 {
		return nil
	}
	n, err := q.conn.get(ctx, e.path)
	if errors.Is(err, zk.ErrNoNode) {
		e.vanished()
		return errGone
	}
	if err == nil {
		e.czxid = n.stat.Czxid
	}
	return err
}

// follow waits for the node ahead: until it has changed or gone, or has expired
// and was purged.
func (q *request) follow(ctx context.Context, e *entry, s seat) (seat, error) {
	path := q.parent + "/" + s.ahead
	settled := q.settled(e)
	n, changed, err := q.conn.watch(ctx, path)
	if err != nil {
		return q.without(ctx, e, s, settled(), err)
	}
	if o := q.other(path, n); !o.ours && o.name.Ours() {
		q.cfg.log.Warn().Str("lock", q.lock).Str("ahead", path).
			Msg("the entry ahead is damaged or of a newer version: it is waited for and never purged; delete it by hand if nobody owns it")
	}
	s.proven = true
	for confirmed := false; ; confirmed = true {
		o := q.other(path, n)
		q.ahead = o.held(q.lock)
		if o.granted {
			s.first = true
		}
		verdict, wait := o.judge(q.Client, q.now())
		switch {
		case verdict == live:
			done, gone, err := q.until(ctx, e, changed, wait)
			if gone {
				return q.after(ctx, e, s, true)
			}
			if done || err != nil {
				return s, err
			}
		case verdict == unproven || !e.wroteSince(q.conn.lastOutage()):
			if err := e.refresh(ctx); err != nil { // which is a sample of the leader's clock too
				return s, err
			}
		case confirmed:
			return q.purge(ctx, e)
		}
		// A change can be lost over a reconnect: read before judging.
		settled = q.settled(e)
		if n, err = q.conn.get(ctx, path); err != nil {
			return q.without(ctx, e, s, settled(), err)
		}
	}
}

// settled is asked before a read, and what it returns after it: whether all of
// the read was done in a session in which the entry had been written.
func (q *request) settled(e *entry) func() bool {
	session := q.session()
	written := e.writtenIn(session)
	return func() bool { return written && q.session() == session }
}

// without is where the entry stands when the node ahead could not be read. That
// it is not there means that it went, if it had been there: but not if the read
// came from the server of a new session in which nothing was written yet, which
// may lag behind even its creation.
func (q *request) without(ctx context.Context, e *entry, s seat, settled bool, err error) (seat, error) {
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return q.after(ctx, e, s, settled)
	case errors.Is(err, zk.ErrNoAuth):
		q.ahead = &HeldError{Lock: q.lock, Entry: q.parent + "/" + s.ahead}
		q.cfg.log.Warn().Str("lock", q.lock).Str("ahead", q.ahead.Entry).
			Msg("the entry ahead cannot be read, its ACL does not let us; looking again until it has gone")
		return seat{}, e.pause(ctx, pollEvery)
	}
	return seat{}, err
}

// after is where the entry stands when the node ahead has gone. If that held the lock
// we are in: if it was known to hold, and settled is set; or if the parent says so,
// which is read where the queue is not joined all the time. All else takes a listing.
func (q *request) after(ctx context.Context, e *entry, s seat, settled bool) (seat, error) {
	if s.proven && s.first && settled {
		return seat{in: true}, nil
	}
	now := q.now().mono
	if !s.proven || !q.spot.hopes(now) {
		return seat{}, nil
	}
	n, err := q.conn.get(ctx, q.parent)
	if err != nil {
		return seat{}, nil // the listing will tell
	}
	data, err := znode.DecodeParent(n.data)
	ahead, _ := znode.Parse(s.ahead)
	if err != nil || data.Kind != q.kind || !ahead.Ours() {
		return seat{}, nil
	}
	q.spot.saw(data, n.stat)
	e.looked = n.stat.NumChildren > 1
	told := data.Released == ahead.Prefix()
	q.spot.told(told, now)
	return seat{in: told}, nil
}

// until waits for a change of the node ahead, for at most the given time if that
// is not negative. It reports whether the node is to be watched anew, or is known
// to have gone: the server told so, to whom it had shown it before.
func (q *request) until(ctx context.Context, e *entry, changed <-chan zk.Event, wait time.Duration) (done, gone bool, _ error) {
	var timeout <-chan time.Time
	if wait >= 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		timeout = timer.C
	}
	for {
		own, err := e.watch()
		if err != nil {
			return false, false, err
		}
		select {
		case event := <-changed:
			return true, event.Type == zk.EventNodeDeleted, nil
		case <-timeout:
			return false, false, nil
		case <-own: // renewed, or gone
		case <-ctx.Done():
			return false, false, contextError(ctx)
		}
	}
}

// other is an entry of somebody else, as it was read.
type other struct {
	path    string
	name    znode.Name
	node    node
	record  znode.Record
	ours    bool // of our making and version: it expires
	granted bool
	settings
}

func (q *request) other(path string, n node) other {
	o := other{path: path, node: n, settings: q.settings}
	o.name, _ = znode.Parse(path[strings.LastIndexByte(path, '/')+1:])
	var err error
	o.record, err = znode.DecodeRecord(n.data)
	o.ours = o.name.Ours() && err == nil && n.stat.EphemeralOwner == 0
	o.granted = o.ours && o.record.Granted()
	return o
}

// judge says whether the entry has expired, and how long to wait before asking
// again; for ever, if negative: an entry that is not ours or of a newer version
// is waited for and nothing else. After an outage of ours everybody may have had
// one, so a contender that has not written since gets a third of its TTL more.
func (o *other) judge(c *Client, now instant) (verdict, time.Duration) {
	if !o.ours {
		return live, -1
	}
	end := o.record.Expiry(o.node.stat.Mtime, o.MaxTTL.Milliseconds()) + o.Grace.Milliseconds()
	if down := c.conn.lastOutage(); down >= 0 {
		w, _ := c.clock.at(instant{mono: down, wall: now.wall - (now.mono - down)})
		if w.upper.Milliseconds() >= o.node.stat.Mtime {
			end += o.record.TTL / 3
		}
	}
	return c.clock.judge(end, o.node.stat.Mzxid, o.Grace, now)
}

// held is the entry as what stands in the way.
func (o *other) held(lock string) *HeldError {
	h := &HeldError{Lock: lock, Entry: o.path}
	if o.ours {
		h.Owner, h.Host, h.PID = o.record.Owner, o.record.Host, o.record.PID
		h.Expires = time.UnixMilli(o.record.Expiry(o.node.stat.Mtime, o.MaxTTL.Milliseconds()))
	}
	return h
}

// purge deletes the run of expired entries that stand ahead, by one listing.
func (q *request) purge(ctx context.Context, e *entry) (seat, error) {
	names, self, err := q.list(ctx, e)
	if err != nil {
		return seat{}, err
	}
	names, self, err = q.bury(ctx, names, self)
	switch {
	case (errors.Is(err, ErrDenied) || errors.Is(err, ErrForeign)) && q.trying:
		return seat{}, err
	case errors.Is(err, ErrDenied), errors.Is(err, ErrForeign):
		q.cfg.log.Warn().Err(err).Str("lock", q.lock).Msg("expired entries ahead cannot be deleted; waiting for somebody who may")
		return seat{}, e.pause(ctx, pollEvery)
	case err != nil: // somebody was quicker, or the connection failed
		return seat{}, e.pause(ctx, 50*time.Millisecond)
	}
	return q.seatOf(names, self), nil
}

// bury deletes the run of expired contenders that stand ahead of the one at self,
// in one transaction, each on the version that it was judged on. It returns who is
// left.
func (q *request) bury(ctx context.Context, names []znode.Name, self int) ([]znode.Name, int, error) {
	var dead []other
	for ahead := znode.Admit(names, self); ahead >= 0 && len(dead) < purgeBatch; ahead = znode.Admit(names, self) {
		path := q.parent + "/" + names[ahead].Node
		n, err := q.conn.get(ctx, path)
		if err == nil {
			o := q.other(path, n)
			if verdict, _ := o.judge(q.Client, q.now()); verdict != expired {
				break
			}
			dead = append(dead, o)
		} else if !errors.Is(err, zk.ErrNoNode) {
			break // whoever follows that entry will see to the error
		}
		names, self = slices.Delete(names, ahead, ahead+1), self-1
	}
	if len(dead) > 0 {
		var ops []any
		for _, o := range dead {
			ops = append(ops, &zk.DeleteRequest{Path: o.path, Version: o.node.stat.Version})
		}
		if _, err := q.conn.multi(ctx, nil, ops...); errors.Is(err, zk.ErrNoAuth) {
			return nil, 0, fmt.Errorf("%w: delete below %s: its ACL does not let us", ErrDenied, q.parent)
		} else if op, cause := refusedOp(err); cause == zk.ErrNotEmpty {
			return nil, 0, fmt.Errorf("%w: an expired entry, %s, has a node below it that nobody of ours made", ErrForeign, dead[max(0, op)].path)
		} else if err != nil {
			return nil, 0, err
		}
	}
	for _, o := range dead {
		q.stats.purged.Add(1)
		q.cfg.log.Info().Str("lock", q.lock).Str("entry", o.path).Str("owner", o.record.Owner).Str("host", o.record.Host).Int("pid", o.record.PID).
			Bool("granted", o.granted).Time("expired", o.held(q.lock).Expires.UTC()).Msg("purged an expired entry")
	}
	return names, self, nil
}

// buryAll deletes the contenders that stand last, as far as they have expired, for
// one that left the queue.
func (q *request) buryAll(ctx context.Context, e *entry) error {
	names, err := q.contenders(ctx, false)
	if err != nil || len(names) == 0 {
		return err
	}
	last := len(names) - 1
	if err := q.passable(ctx, names[last]); err != nil {
		return err
	}
	_, _, err = q.bury(ctx, append(names, e.Name), last+1)
	return err
}

// drain withdraws an entry that came near the end of the parent's counter, and
// waits until the parent was deleted, so that the count starts at 0 again. Those
// who died there nobody follows any more: they are looked at again and again.
func (q *request) drain(ctx context.Context, e *entry) error {
	q.cfg.log.Info().Str("lock", q.lock).Str("entry", e.path).Msg("the lock's counter is near its end: waiting until all have left and it starts anew")
	e.withdraw()
	if err := e.leave(ctx); err != nil && !errors.Is(err, ErrRemoved) {
		q.discard(e)
		return err
	}
	for {
		n, changed, err := q.conn.watch(ctx, q.parent)
		if errors.Is(err, zk.ErrNoNode) {
			q.spot.missed()
			return nil
		}
		if err != nil {
			return err
		}
		if n.stat.NumChildren == 0 {
			q.dropParent(ctx, q.parent, q.spot, e.keep, e.Name)
		} else if err := q.buryAll(ctx, e); err != nil {
			q.cfg.log.Debug().Err(err).Str("lock", q.lock).Msg("the lock's counter is near its end and somebody is there still; looking again")
		}
		timer := time.NewTimer(pollEvery)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			err = contextError(ctx)
		}
		timer.Stop()
		if err != nil {
			return err
		}
	}
}
