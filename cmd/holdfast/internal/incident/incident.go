// Package incident collects the events of locks' histories, and prints them for people and for
// tools: as a table and a picture, as JSON, and as a page of HTML.
package incident

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock/history"
)

// maxRows is the largest number of rows of a report. Events after the last row are only counted.
const maxRows = 100_000

// maxLocks is the largest number of locks of an overview: first those of which something stands out, then
// the most used.
const maxLocks = 50

// Options select what a [Report] shows.
type Options struct {
	Root         string
	Dirs         []string
	What         string // the lock or pattern that was asked for; "": all
	Owner        string // only events of this owner's entries, or by this owner; "": all
	Overview     bool   // counts for each lock, and only the events that stand out
	Since, Until time.Time
	Zone         *time.Location
}

// Report collects the events of a log, for [Report.Print] and [Report.HTML].
type Report struct {
	Options
	First, Last time.Time // first and last stamp of the log; zero: it has no transactions
	Zxid        int64     // last zxid of the log
	Warnings    []string
	Why         string // why there is nothing to tell; "": there is something
	Rows        []Row  // in the order of time after [Report.Finish]
	Cut         int    // number of events without a row, because there are too many
	Locks       []*Lock
	Moments     []history.Moment
	Owned       bool           // there was an event of Owner; without Owner, of any lock
	Known       history.Known  // from when on all locks are known; zero: from the beginning, or never
	Blind       bool           // at the end of the log not all locks are known
	Now         history.Moment // the state at the end of the log, if there are no rows and this is no overview
	More        int            // Overview: number of locks that are not in Locks, because nothing stands out of them

	part    part
	open    map[string]int // index of the row of an entry's renewals
	locks   map[string]*Lock
	numbers map[string]*numbers
	terms   []history.Event // changes of the leader, and steps of its clock
	m       *history.Machine
}

// Row is an event, or consecutive renewals of one entry.
type Row struct {
	history.Event
	Count int       // number of events; more than 1 only for renewals
	To    time.Time // time of the last event
	// Number is the number of the event's entry: entries of a lock are numbered from 1, in the
	// order of the log. It is 0 if the event has no entry, and in an overview.
	Number int
	at     time.Duration
}

// Lock is one lock of a report. An overview has one for each lock in the log, so it is small.
type Lock struct {
	Name    string
	Kind    string
	Joins   int32
	Holds   int32
	Purged  int32 // purged or swept entries
	Removed int32
	Broken  int32
	last    int64  // stamp of the last event, in Unix ms
	lanes   *lanes // nil: none
}

// lanes are the histories of a lock's entries.
type lanes struct {
	all  []*Lane
	open map[string]*Lane // of the entries that exist
}

// Last returns the stamp of the lock's last event.
func (l *Lock) Last() time.Time { return time.UnixMilli(l.last) }

// Lanes returns the histories of the lock's entries, in the order of the log. An overview has none.
func (l *Lock) Lanes() []*Lane {
	if l.lanes == nil {
		return nil
	}
	return l.lanes.all
}

// Lane is the history of one entry.
type Lane struct {
	Number int
	Entry  string
	Who    history.Client
	Role   string
	Spans  []Span
	End    *history.Event // nil: the entry existed at the end of the log
	Broken *history.Event
	Lease  history.Event // last event that renewed the lease
	held   bool
}

// Stage is the state of an entry.
type Stage int

// The stages of an entry.
const (
	Waits Stage = iota
	Holds
	AtRisk  // holds, and was not renewed for half of the lease
	InDoubt // waits or holds, unless the lease is over: that is not known
	Lapsed  // the lease is over
)

// Span is a stage of a lane. It lasts until the next span, or the end of the lane.
type Span struct {
	Stage Stage
	From  history.Event
}

// New returns an empty report. A nil Zone means UTC.
func New(o Options) *Report {
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	return &Report{Options: o, open: map[string]int{}, locks: map[string]*Lock{}, numbers: map[string]*numbers{}}
}

// Add adds an event. Events must be added in the order in which the machine emits them.
func (r *Report) Add(e history.Event) {
	number := r.number(e)
	if e.Kind.Ensemble() {
		r.terms = append(r.terms, e)
	} else if !r.owns(e) {
		return
	}
	r.Owned = r.Owned || !e.Kind.Ensemble()
	r.track(e, number)
	if !r.part.has(r.Options, e) || r.Overview && !standsOut(e) || r.folds(e) {
		return
	}
	if len(r.Rows) >= maxRows {
		r.Cut++
		return
	}
	r.Rows = append(r.Rows, Row{Event: e, Count: 1, To: e.Time, Number: number})
	if key := e.Lock + "/" + e.Entry; e.Kind == history.Renewed && !e.Late {
		r.open[key] = len(r.Rows) - 1
	} else {
		delete(r.open, key)
	}
}

// folds adds e to an earlier row, if possible, and reports whether it did. A renewal joins the row of
// the entry's previous renewals. The record of a grant joins the entry's row of the same write.
func (r *Report) folds(e history.Event) bool {
	switch e.Kind {
	case history.Renewed:
		i, ok := r.open[e.Lock+"/"+e.Entry]
		if !ok || e.Late {
			return false
		}
		row := &r.Rows[i]
		row.Count, row.To, row.Lease = row.Count+1, e.Time, e.Lease
		return true
	case history.Recorded:
		for i := len(r.Rows) - 1; i >= 0 && r.Rows[i].Zxid == e.Zxid; i-- {
			if row := &r.Rows[i]; row.Event.Entry == e.Entry && row.Lock == e.Lock && !row.Kind.Derived() {
				row.At = e.At
				delete(r.open, e.Lock+"/"+e.Entry) // the next renewal gets a row of its own
				return true
			}
		}
	}
	return false
}

// part selects the events from Since to Until. It begins with the first event that is not before
// Since. From then on transactions belong to it even if a clock that was stepped back stamped them
// with an earlier time.
type part struct{ begun bool }

func (p *part) has(o Options, e history.Event) bool {
	early := !o.Since.IsZero() && e.Time.Before(o.Since)
	p.begun = p.begun || !early
	return p.begun && !(early && e.Kind.Derived()) && (o.Until.IsZero() || !e.Time.After(o.Until))
}

// standsOut reports whether an overview shows the event.
func standsOut(e history.Event) bool {
	switch e.Kind {
	case history.Expired, history.AtRisk, history.InDoubt:
		return e.In
	case history.Purged, history.Swept, history.Removed, history.Broken, history.Overwritten, history.RevokeAsked, history.Vanished,
		history.Permits, history.Leader, history.Clock, history.Restored:
		return true
	}
	return false
}

// number returns the number of an event's entry, see [Row], and numbers an entry that is new.
func (r *Report) number(e history.Event) int {
	if e.Entry == "" || r.Overview || e.Kind == history.RevokeAsked && r.numbers[e.Lock] == nil {
		return 0
	}
	all := r.numbers[e.Lock]
	if all == nil {
		all = &numbers{open: map[string]int{}}
		r.numbers[e.Lock] = all
	}
	n := all.open[e.Entry]
	if n == 0 && e.Kind != history.RevokeAsked {
		all.last++
		n = all.last
		all.open[e.Entry] = n
	}
	if e.Kind.Ends() {
		delete(all.open, e.Entry)
	}
	return n
}

// numbers has the numbers of a lock's entries.
type numbers struct {
	last int
	open map[string]int // of the entries that exist
}

// track adds an event to the counts of its lock and to the lane of its entry.
func (r *Report) track(e history.Event, number int) {
	if e.Lock == "" {
		return
	}
	l := r.locks[e.Lock]
	if l == nil {
		l = &Lock{Name: e.Lock}
		r.locks[e.Lock] = l
	}
	if l.last = e.Time.UnixMilli(); e.Of != "" {
		l.Kind = e.Of
	}
	l.count(e)
	if number == 0 || r.Owner != "" && e.Who.Owner != r.Owner {
		return
	}
	if l.lanes == nil {
		l.lanes = &lanes{open: map[string]*Lane{}}
	}
	lane := l.lanes.open[e.Entry]
	if lane == nil {
		if e.Kind == history.RevokeAsked {
			return
		}
		lane = &Lane{Number: number, Entry: e.Entry}
		l.lanes.open[e.Entry], l.lanes.all = lane, append(l.lanes.all, lane)
	}
	lane.follow(e)
	if e.Kind.Ends() {
		delete(l.lanes.open, e.Entry)
	}
}

// bad returns the number of the lock's ends that stand out.
func (l *Lock) bad() int32 { return l.Purged + l.Removed + l.Broken }

func (l *Lock) count(e history.Event) {
	switch e.Kind {
	case history.Joined:
		l.Joins++
	case history.Granted:
		l.Holds++
	case history.Purged, history.Swept:
		l.Purged++
	case history.Removed:
		l.Removed++
	case history.Broken:
		l.Broken++
	}
}

// follow adds an event of the lane's entry.
func (lane *Lane) follow(e history.Event) {
	if e.Who.Known() && e.Kind != history.RevokeAsked {
		lane.Who = e.Who
	}
	if e.Role != "" {
		lane.Role = e.Role
	}
	stage := Waits
	if lane.held = lane.held || e.In; lane.held {
		stage = Holds
	}
	switch e.Kind {
	case history.AtRisk:
		stage = AtRisk
	case history.InDoubt:
		stage = InDoubt
	case history.Expired:
		stage = Lapsed
	case history.Broken:
		if lane.Broken == nil {
			lane.Broken = &e
		}
		return
	case history.RevokeAsked, history.Overwritten:
		return
	}
	if e.Kind.Ends() {
		if len(lane.Spans) == 0 { // the entry existed before the log begins
			lane.Spans = append(lane.Spans, Span{stage, e})
		}
		lane.End = &e
		return
	}
	if !e.Kind.Derived() && e.Kind != history.Granted {
		lane.Lease = e
	}
	if n := len(lane.Spans); n == 0 || lane.Spans[n-1].Stage != stage {
		lane.Spans = append(lane.Spans, Span{stage, e})
	}
}

// Finish completes the report with what the machine knows at the end of the log. Call it once, after
// the last Add.
func (r *Report) Finish(m *history.Machine) {
	r.m = m
	r.First, r.Last = m.Span()
	r.Zxid, r.Moments = m.Zxid(), m.Moments()
	r.Known, r.Blind = m.Known(), m.Blind()
	if len(r.Rows) == 0 && !r.Overview {
		r.Now = m.Now()
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		row.Event, row.at = m.Resolve(row.Event), m.Elapsed(row.Event)
	}
	slices.SortStableFunc(r.Rows, func(a, b Row) int { return cmp.Compare(a.at, b.at) })
	r.Locks = slices.AppendSeq(make([]*Lock, 0, len(r.locks)), maps.Values(r.locks))
	slices.SortFunc(r.Locks, func(a, b *Lock) int {
		if r.Overview {
			return cmp.Or(cmp.Compare(b.bad(), a.bad()), cmp.Compare(b.Joins, a.Joins), strings.Compare(a.Name, b.Name))
		}
		return strings.Compare(a.Name, b.Name)
	})
	if r.Overview && len(r.Locks) > maxLocks {
		r.More, r.Locks = len(r.Locks)-maxLocks, r.Locks[:maxLocks]
	}
	for _, l := range r.Locks {
		for _, lane := range l.Lanes() {
			if lane.End != nil {
				end := m.Resolve(*lane.End)
				lane.End = &end
			}
		}
	}
}
