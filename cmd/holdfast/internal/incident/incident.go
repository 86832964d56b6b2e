// Package incident collects the events of locks' histories, and prints them for people and for
// tools: as a table and a picture, as JSON, and as a page of HTML.
package incident

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock/history"
)

// maxRows is the number of rows that a report has. One that asks for more gets the first ones.
const maxRows = 100_000

// Options are what a [Report] shows.
type Options struct {
	Root         string
	Dirs         []string
	What         string // the lock, pattern or owner that was asked for; "" for an overview of all
	Owner        string // only what this client did, or what was done to it; "": all
	Overview     bool   // of each lock the numbers, and the events that stand out
	Since, Until time.Time
	Zone         *time.Location
}

// Report is what happened, for people.
type Report struct {
	Options
	First, Last time.Time // stamps of the log; zero: it has no transactions
	Zxid        int64     // its last one
	Warnings    []string
	Why         string // if there are no rows
	Rows        []Row  // by time
	Cut         int    // rows that were left out
	Locks       []*Lock
	Moments     []history.Moment
	Owned       bool // there was an event of the owner

	part    part
	open    map[string]int // index of the row of an entry's renewals
	locks   map[string]*Lock
	numbers map[string]*numbers
	terms   []history.Event // changes of the clock
	m       *history.Machine
}

// Row is an event, or several renewals of one entry in a row.
type Row struct {
	history.Event
	Count int       // of renewals
	To    time.Time // of the last one
	// Number is that of the entry among the lock's in the log, from 1; 0: it has none.
	Number int
	at     time.Duration
}

// Lock is one lock of a report.
type Lock struct {
	Name    string
	Kind    string
	Joins   int
	Holds   int
	Purged  int // also swept
	Removed int
	Broken  int
	Last    time.Time
	Lanes   []*Lane

	open map[string]*Lane
}

// Lane is the life of an entry.
type Lane struct {
	Number int
	Entry  string
	Who    history.Client
	Role   string
	Spans  []Span
	End    *history.Event // nil: it was there at the end of the log
	Broken *history.Event
	Lease  history.Event // its last write
	held   bool
}

// Stage is what an entry is at a time.
type Stage int

// The stages.
const (
	Waits Stage = iota
	Holds
	AtRisk // holds, and was not renewed for half of the lease
	Lapsed // the lease is over
)

// Span is a stage, until the next one.
type Span struct {
	Stage Stage
	From  history.Event
}

// New returns an empty report.
func New(o Options) *Report {
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	return &Report{Options: o, open: map[string]int{}, locks: map[string]*Lock{}, numbers: map[string]*numbers{}}
}

// Add adds an event, in the order in which the machine emits them.
func (r *Report) Add(e history.Event) {
	number := r.number(e)
	if e.Kind.Ensemble() {
		r.terms = append(r.terms, e)
	} else if !r.owns(e) {
		return
	}
	r.Owned = r.Owned || !e.Kind.Ensemble()
	r.live(e, number)
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

// folds adds an event to an earlier row, if it needs none of its own: a renewal after others, and
// the record of a grant in a write that has a row.
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

// part follows the asked part of time. As with the logs it begins with the first transaction of
// that time: later ones belong to it, whatever a clock that was stepped back stamped on them.
type part struct{ begun bool }

func (p *part) has(o Options, e history.Event) bool {
	early := !o.Since.IsZero() && e.Time.Before(o.Since)
	p.begun = p.begun || !early
	return p.begun && !(early && e.Kind.Derived()) && (o.Until.IsZero() || !e.Time.After(o.Until))
}

// standsOut reports whether an overview shows the event.
func standsOut(e history.Event) bool {
	switch e.Kind {
	case history.Expired, history.AtRisk:
		return e.In
	case history.Purged, history.Swept, history.Removed, history.Broken, history.Overwritten, history.RevokeAsked, history.Vanished,
		history.Permits, history.Leader, history.Clock:
		return true
	}
	return false
}

// number returns the number of an event's entry.
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

// numbers are those of a lock's entries.
type numbers struct {
	last int
	open map[string]int // of the entries that are there
}

// live follows the lives of locks and entries.
func (r *Report) live(e history.Event, number int) {
	if e.Lock == "" {
		return
	}
	l := r.locks[e.Lock]
	if l == nil {
		l = &Lock{Name: e.Lock, open: map[string]*Lane{}}
		r.locks[e.Lock] = l
		r.Locks = append(r.Locks, l)
	}
	if l.Last = e.Time; e.Of != "" {
		l.Kind = e.Of
	}
	l.count(e)
	if number == 0 || r.Owner != "" && e.Who.Owner != r.Owner {
		return
	}
	lane := l.open[e.Entry]
	if lane == nil {
		if e.Kind == history.RevokeAsked {
			return
		}
		lane = &Lane{Number: number, Entry: e.Entry}
		l.open[e.Entry], l.Lanes = lane, append(l.Lanes, lane)
	}
	lane.follow(e)
	if e.Kind.Ends() {
		delete(l.open, e.Entry)
	}
}

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

// follow adds an event to the life of its entry.
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
		if len(lane.Spans) == 0 { // it was there before the log begins
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

// Finish takes what is known at the end of the log.
func (r *Report) Finish(m *history.Machine) {
	r.m = m
	r.First, r.Last = m.Span()
	r.Zxid, r.Moments = m.Zxid(), m.Moments()
	for i := range r.Rows {
		row := &r.Rows[i]
		row.Event, row.at = m.Resolve(row.Event), m.Elapsed(row.Event)
	}
	slices.SortStableFunc(r.Rows, func(a, b Row) int { return cmp.Compare(a.at, b.at) })
	slices.SortFunc(r.Locks, func(a, b *Lock) int { return strings.Compare(a.Name, b.Name) })
	for _, l := range r.Locks {
		for _, lane := range l.Lanes {
			if lane.End != nil {
				end := m.Resolve(*lane.End)
				lane.End = &end
			}
		}
	}
}
