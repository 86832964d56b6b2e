package history

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock/history/internal/records"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Options are the settings of a [Machine].
type Options struct {
	Root   string                          // node below which the locks are, such as /locks
	Jobs   string                          // node below which package schedule records jobs; "": nowhere
	Reaper string                          // name of the active reaper's lock; "": no event is Swept
	Match  func(name string) bool          // selects locks and jobs; nil: all
	Grace  func(name string) time.Duration // returns the grace in a lock's policy; nil: 0
	At     []Asked                         // the moments to report
}

// Machine finds out what happened to locks, transaction by transaction. It needs memory for the
// existing nodes of the matching locks, and for the sessions. It is not safe for concurrent use.
type Machine struct {
	o        Options
	emit     func(Event)
	clock    clock
	locks    map[string]*queue
	sessions map[int64]*session
	jobs     map[string][]byte // the last record of each job
	moments  moments
	mortal   bool             // there was an entry that ends with its session
	seen     bool             // the log has shown something of a matching lock
	blind    bool             // there may be locks that the files have not shown
	known    Known            // see Known
	begun    int64            // zxid of the last snapshot; 0: none
	touched  []*queue         // locks that the present transaction has changed
	first    time.Time        // stamp of the first transaction; zero: none yet
	others   map[string]bool  // roots of other locks in the log, at most fewNames
	unasked  map[string]bool  // names of locks that do not match, at most fewNames
	nameless map[int64]Client // unknown sessions that removed entries, and later their clients
	txn      *txnlog.Txn      // the present transaction; nil: none yet
	records  records.Shared
	names    []znode.Name // of the entries of the lock that admit judges
}

// session is what the log has shown of a session.
type session struct {
	client Client
	reaps  bool  // its client is, or was, the active reaper
	knew   int64 // its last write of data; the reply showed the client the leader's clock
}

// New returns a Machine that calls emit for each event, within its methods. It often calls the
// functions in the options, so they must be fast.
func New(o Options, emit func(Event)) *Machine {
	if o.Match == nil {
		o.Match = func(string) bool { return true }
	}
	if o.Grace == nil {
		o.Grace = func(string) time.Duration { return 0 }
	}
	return &Machine{o: o, emit: emit, locks: map[string]*queue{}, sessions: map[int64]*session{}, jobs: map[string][]byte{},
		moments: moments{asked: o.At}, records: records.Shared{}, others: map[string]bool{}, unasked: map[string]bool{}, nameless: map[int64]Client{}}
}

// Span returns the stamps of the first and the last transaction; zero if there was none.
func (m *Machine) Span() (first, last time.Time) { return m.first, m.clock.stamp }

// Zxid returns the zxid of the last transaction; 0 if there was none.
func (m *Machine) Zxid() int64 { return max(m.clock.zxid, m.moments.last) }

// Known is when the state became known.
type Known struct {
	Time time.Time // stamp of the last transaction before, or of the first one
	Zxid int64
}

// Known returns from when on all locks are known, if the log begins before; zero: they are known from
// its beginning, or ([Machine.Blind]) not even at its end.
func (m *Machine) Known() Known { return m.known }

// Elsewhere returns up to eight nodes outside of the root that have locks below them, sorted.
func (m *Machine) Elsewhere() []string {
	all := slices.Sorted(maps.Keys(m.others))
	return slices.DeleteFunc(slices.Clone(all), func(root string) bool {
		return slices.ContainsFunc(all, func(above string) bool { return strings.HasPrefix(root, above+"/") })
	})
}

// Others returns the names of up to eight locks that do not match the options, sorted.
func (m *Machine) Others() []string { return slices.Sorted(maps.Keys(m.unasked)) }

// Resolve returns e, corrected by what the log showed later: which client owned the session that
// removed an entry.
func (m *Machine) Resolve(e Event) Event {
	by := m.nameless[e.Session]
	switch {
	case e.Kind != Removed && e.Kind != Ended || e.By.Known() || !by.Known():
	case by == e.Who:
		e.left()
	case e.over:
		e.Kind, e.By, e.Reason = Purged, by, ""
	default:
		e.Kind, e.By, e.Reason = Removed, by, byAnother
	}
	return e
}

// Elapsed returns the time of an event since the first transaction, by the leaders' clocks
// without their known steps. Where it is not known whether time passed or a clock was stepped ahead,
// Elapsed does not count it: see [Clock]. Steps may become known later: call Elapsed after [Machine.End].
func (m *Machine) Elapsed(e Event) time.Duration {
	return m.clock.between(point{}, point{e.Zxid, e.mono})
}

// Seen reports whether the log has shown anything of a matching lock.
func (m *Machine) Seen() bool { return m.seen }

// Apply applies the next transaction, and emits its events. It uses t until the next call of Apply
// or End.
func (m *Machine) Apply(t *txnlog.Txn) {
	if t.Disputed { // its time does not count: a leader that has lost its followers stamps beside the next one
		if !m.first.IsZero() {
			m.moments.before(m, t)
		}
		m.dispute(t)
		m.moments.last = t.Zxid
		return
	}
	if m.first.IsZero() {
		m.start(t)
	}
	m.moments.before(m, t)
	m.txn, m.moments.gap = t, nil
	if e, ok := m.clock.advance(t.Zxid, t.Time); ok {
		m.emit(e)
	}
	if q := m.contradicted(t); q != nil {
		m.restored(q)
		for i := len(q.entries) - 1; i >= 0; i-- { // they were below the node that was replaced
			m.vanish(q, i)
		}
	}
	wrote := false
	for i := range t.Ops {
		op := &t.Ops[i]
		switch op.Kind {
		case txnlog.OpCreate:
			m.create(op)
		case txnlog.OpSetData:
			m.set(op)
			wrote = true
		case txnlog.OpDelete:
			m.delete(op.Path)
		case txnlog.OpCloseSession:
			m.closed(op)
		}
	}
	if s := m.sessions[t.Session]; s != nil && wrote {
		s.knew = t.Zxid
	}
	m.settle(t.Time)
}

// start makes the nodes from Begin the state before the first transaction, t.
func (m *Machine) start(t *txnlog.Txn) {
	m.first = t.Time
	m.clock.zxid = t.Zxid - 1
	for _, q := range m.locks {
		for _, c := range q.entries {
			c.written.mono = min(0, c.stamp.time().Sub(t.Time))
		}
	}
	m.settle(t.Time)
}

// End emits the derived events until the last stamp, and completes the moments.
func (m *Machine) End() {
	for _, q := range m.locks {
		for _, e := range q.entries {
			m.lapse(q, e)
		}
	}
	m.moments.end(m)
}

// settle admits the contenders whose turn has come with this transaction.
func (m *Machine) settle(stamp time.Time) {
	for _, q := range m.touched {
		q.touched = false
		m.admit(q, stamp)
	}
	m.touched = m.touched[:0]
}

func (m *Machine) touch(q *queue) {
	if !q.touched {
		q.touched = true
		m.touched = append(m.touched, q)
	}
}

// name returns the part of a path below the root; false if the path is not below the root.
func (m *Machine) name(path string) (string, bool) {
	root := len(m.o.Root)
	if len(path) > root+1 && path[root] == '/' && path[:root] == m.o.Root {
		return path[root+1:], true
	}
	return "", false
}

// split splits a name at its last slash. Without a slash, above is "".
func split(name string) (above, node string) {
	i := max(0, strings.LastIndexByte(name, '/'))
	return name[:i], strings.TrimPrefix(name[i:], "/")
}

// spot is what a node is to locks, by its path.
type spot struct {
	what  what
	name  string     // relative to the root
	node  string     // the last part of name
	lock  string     // of an entry or an anchor its lock's name, else name
	entry znode.Name // of an entry
}

type what int

const (
	outside     what = iota // not below the root
	requestNode             // a request to release a lock
	entryNode
	anchorNode
	otherNode // maybe a lock's
)

// spot tells what the node at a path is.
func (m *Machine) spot(path string) spot {
	name, ok := m.name(path)
	if !ok {
		return spot{}
	}
	above, node := split(name)
	s := spot{what: otherNode, name: name, node: node, lock: name}
	if entry, ok := znode.Parse(node); above == znode.Inbox {
		s.what = requestNode
	} else if ok {
		s.what, s.lock, s.entry = entryNode, above, entry
	} else if _, ok := znode.AnchorOf(node); ok {
		s.what, s.lock = anchorNode, above
	}
	return s
}

// does reports whether the present transaction has an operation of that kind on such a node of the lock.
func (m *Machine) does(kind txnlog.OpKind, what what, lock string) bool {
	return slices.ContainsFunc(m.txn.Ops, func(op txnlog.Op) bool {
		s := m.spot(op.Path)
		return op.Kind == kind && s.what == what && s.lock == lock
	})
}

// event returns an event of the present transaction.
func (m *Machine) event(kind Kind, lock string) Event {
	t := m.txn
	return Event{Kind: kind, Zxid: t.Zxid, Time: t.Time, Session: t.Session, Lock: lock, mono: m.clock.mono}
}

// by returns the client of the present transaction's session, as far as it is known.
func (m *Machine) by() Client {
	if s := m.sessions[m.txn.Session]; s != nil {
		return s.client
	}
	return Client{}
}

// identify returns the session of the present transaction. It adds the session if that is new. It
// records c as the session's client, if c is known. If lock is the reaper's, it records that the
// client is the active reaper.
func (m *Machine) identify(lock string, c Client) *session {
	s := m.sessions[m.txn.Session]
	if s == nil {
		s = &session{}
		m.sessions[m.txn.Session] = s
	}
	if c.Known() {
		s.client = c
		if _, asked := m.nameless[m.txn.Session]; asked {
			m.nameless[m.txn.Session] = c
		}
	}
	s.reaps = s.reaps || m.o.Reaper != "" && lock == m.o.Reaper
	return s
}

// queue returns the lock of that name. If the lock is not known yet, queue adds it.
func (m *Machine) queue(name string) *queue {
	q := m.locks[name]
	if q == nil {
		q = &queue{name: name, rules: znode.Rules{Kind: znode.Mutex}, partial: m.blind}
		m.locks[name] = q
		m.seen = true
	}
	return q
}
