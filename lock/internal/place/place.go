// Package place decides which goroutine of a process gets a lock next. It does not use ZooKeeper.
//
// The goroutines of a client whose requests for a lock are alike share one place in the lock's
// queue: a local FIFO of waiters, the entries that the goroutines hold, and the joins in flight. An
// entry belongs to the place, not to the goroutine for which it was created: the first waiter gets
// the next entry.
//
//	         Enter: nothing is held                     End: a join's turn has come
//	idle ───────────────────────────────▶ joining ─────────────────────────────────▶ held
//	                                                                                  │
//	Release, with local waiters, inside the window          the first waiter gets it  │ Pass
//	Release, with local waiters, after it    leave and join in one transaction        │ Exchange
//	Release, no local waiter, unused entries are cached        the next Enter takes it│ Cache
//	Release, otherwise                                                                ▼ Leave
//
// An entry is handed off locally only inside a window, which begins with its grant. A list that
// shows no other contender starts the window again, and a watch on the contenders holds it open. So
// each entry ahead costs other processes at most one window and one hold. Readers share an entry if
// they wait when it is granted, or arrive inside its window.
package place

import (
	"container/list"
	"slices"
	"time"
)

// Place is the place of one process in the queue of one lock. E is an entry. Place is not safe for
// concurrent use: the caller guards it with a mutex. The caller sets the exported fields.
type Place[E comparable] struct {
	Window time.Duration // time after a grant for local handoffs; 0: none
	Idle   time.Duration // time for which an unused entry is cached; 0: not cached
	Shared bool          // waiters share one entry: readers
	Room   int           // entries that can be held at once: 1, or more with a semaphore
	Free   int           // number of further entries that fit, by the last list

	waiters list.List // elements are *Waiter[E]
	holds   []*hold[E]
	joins   []*Join
	cached  *E   // cached lease: an unlocked entry for the next waiter; nil: none
	alone   bool // a watch is set, and has shown no other contender
}

// Waiter is a goroutine that waits for an entry.
type Waiter[E any] struct {
	Served chan Turn[E]  // receives the result; has a buffer of one
	For    any           // data of the caller
	at     *list.Element // nil: it was served or canceled
}

// NewWaiter returns a waiter with data of the caller.
func NewWaiter[E any](what any) *Waiter[E] {
	return &Waiter[E]{Served: make(chan Turn[E], 1), For: what}
}

// Turn is the result for a waiter: an entry, or the error of the join.
type Turn[E any] struct {
	Entry E
	Err   error
}

// hold is an entry that a goroutine of the place holds.
type hold[E any] struct {
	entry E
	Use
}

// Use is the state that a handoff passes on with the entry. The zero value is that of a new
// entry.
type Use struct {
	until     time.Duration // monotonic time at which the window ends
	contended bool          // other contenders were seen: the entry must not be cached
}

// Join is a join in flight. Cancel is called when no waiter needs it any more.
type Join struct {
	Cancel func()
	Use    Use // use of the entry that the join continues, if any
}

// Step is the next step for a waiter or a released entry.
type Step uint8

// The steps that Enter and Release return.
const (
	Wait      Step = iota // the waiter waits for its turn
	Take                  // the waiter gets the cached lease
	Share                 // the waiter shares the entry
	StartJoin             // a join begins
	Pass                  // the first waiter gets the released entry
	Exchange              // the released entry leaves, and a join begins, in one transaction
	Cache                 // the released entry becomes the cached lease
	Leave                 // the released entry leaves
)

// Enter adds a waiter. share adds one more goroutine to an entry, and reports whether that was
// possible. On Take and Share the waiter gets the entry, and does not wait. On StartJoin the caller must
// begin a join.
func (p *Place[E]) Enter(w *Waiter[E], now time.Duration, share func(E) bool) (E, Step) {
	var none E
	if p.waiters.Len() == 0 {
		if p.cached != nil {
			e := *p.cached
			p.cached = nil
			return e, Take
		}
		for _, h := range p.holds {
			if p.Shared && now < h.until && share(h.entry) {
				return h.entry, Share
			}
		}
	}
	w.at = p.waiters.PushBack(w)
	if p.NeedsJoin() {
		return none, StartJoin
	}
	return none, Wait
}

// NeedsJoin reports whether the caller must begin one more join.
func (p *Place[E]) NeedsJoin() bool {
	if p.waiters.Len() <= len(p.joins) {
		return false
	}
	if p.Shared {
		return len(p.joins) == 0
	}
	return len(p.holds)+len(p.joins) < p.Room && len(p.joins) < max(1, p.Free)
}

// Begin records that a join has begun. The caller must call End after it.
func (p *Place[E]) Begin(j *Join) { p.joins = append(p.joins, j) }

// End records that a join has ended.
func (p *Place[E]) End(j *Join) {
	p.joins = slices.DeleteFunc(p.joins, func(o *Join) bool { return o == j })
}

// Cancel removes a waiter, and cancels the joins that no waiter needs any more. It returns false if
// the waiter does not wait any more: then the waiter gets, or has, a Turn.
func (p *Place[E]) Cancel(w *Waiter[E]) bool {
	if w.at == nil {
		return false
	}
	p.remove(w)
	return true
}

// remove removes a waiter, and cancels the youngest joins that no waiter needs any more.
func (p *Place[E]) remove(w *Waiter[E]) {
	p.waiters.Remove(w.at)
	w.at = nil
	for len(p.joins) > p.waiters.Len() {
		j := p.joins[len(p.joins)-1]
		p.joins = slices.Delete(p.joins, len(p.joins)-1, len(p.joins))
		j.Cancel()
	}
}

// Next removes and returns the first waiter, to be served; nil if there is none.
func (p *Place[E]) Next() *Waiter[E] {
	front := p.waiters.Front()
	if front == nil {
		return nil
	}
	w := front.Value.(*Waiter[E])
	p.remove(w)
	return w
}

// Return puts a waiter from Next, which could not be served, back to the front.
func (p *Place[E]) Return(w *Waiter[E]) { w.at = p.waiters.PushFront(w) }

// Waiting returns the number of waiters.
func (p *Place[E]) Waiting() int { return p.waiters.Len() }

// Waiters returns the waiters; the first one is served next.
func (p *Place[E]) Waiters() []*Waiter[E] {
	all := make([]*Waiter[E], 0, p.waiters.Len())
	for at := p.waiters.Front(); at != nil; at = at.Next() {
		all = append(all, at.Value.(*Waiter[E]))
	}
	return all
}

// Hold records that a waiter has held e since the monotonic time since. The window of a new entry
// begins then.
func (p *Place[E]) Hold(e E, use Use, since time.Duration) {
	if use.until == 0 {
		use.until = since + p.Window
	}
	p.holds = append(p.holds, &hold[E]{e, use})
}

// Use returns the use of a held entry; the zero value for any other entry.
func (p *Place[E]) Use(e E) Use {
	if h := p.holding(e); h != nil {
		return h.Use
	}
	return Use{}
}

func (p *Place[E]) holding(e E) *hold[E] {
	for _, h := range p.holds {
		if h.entry == e {
			return h
		}
	}
	return nil
}

// Holder returns an entry that a goroutine of the place holds, and the number of such entries.
func (p *Place[E]) Holder() (e E, held int) {
	if held = len(p.holds); held > 0 {
		e = p.holds[0].entry
	}
	return e, held
}

// HeldAlone reports whether one goroutine holds an entry, and no other uses the place.
func (p *Place[E]) HeldAlone() bool {
	return len(p.holds) == 1 && p.waiters.Len() == 0 && len(p.joins) == 0 && p.cached == nil
}

// Cached returns the cached lease, if there is one.
func (p *Place[E]) Cached() (e E, ok bool) {
	if p.cached == nil {
		return e, false
	}
	return *p.cached, true
}

// Release returns the next step for an unlocked entry: Pass, Exchange, Cache or Leave. passable:
// another goroutine can continue the entry, and Unlock need not wait until the entry has left. On
// Pass the caller must call Drop, and on Cache Store or Drop. On Exchange and Leave the entry is
// already dropped.
func (p *Place[E]) Release(e E, now time.Duration, passable bool) Step {
	h := p.holding(e)
	if h == nil {
		return Leave
	}
	waiting := p.waiters.Len() > 0
	switch {
	case p.Shared:
	case waiting && passable && (now < h.until || p.alone && p.Window > 0):
		return Pass
	case waiting && passable && len(p.joins) == 0:
		p.Drop(e)
		return Exchange
	case !waiting && passable && p.Idle > 0 && p.cached == nil && !h.contended:
		return Cache
	}
	p.Drop(e)
	return Leave
}

// Store makes e the cached lease. e continues the released entry before.
func (p *Place[E]) Store(e, before E) {
	p.Drop(before)
	p.cached = &e
}

// Drop removes an entry that has ended, or leaves. It returns false if the entry did not belong
// to the place.
func (p *Place[E]) Drop(e E) bool {
	if p.cached != nil && *p.cached == e {
		p.cached = nil
		return true
	}
	held := len(p.holds)
	p.holds = slices.DeleteFunc(p.holds, func(h *hold[E]) bool { return h.entry == e })
	return len(p.holds) < held
}

// NoteContended records that there are other contenders. It reports whether the caller must begin a
// join although an entry is held: a goroutine waits, and no join is in flight.
func (p *Place[E]) NoteContended() (join bool) {
	for _, h := range p.holds {
		h.contended = true
	}
	return p.waiters.Len() > 0 && len(p.joins) == 0
}

// NoteAlone records that there were no other contenders at the monotonic time at: the windows start
// again. watched: a watch will show later contenders, and the caller must call NoteUnwatched when the
// watch has fired.
func (p *Place[E]) NoteAlone(at time.Duration, watched bool) {
	for _, h := range p.holds {
		h.until = max(h.until, at+p.Window)
	}
	p.alone = watched
}

// NoteUnwatched records that the watch has fired, or that the caller does not follow it any more.
func (p *Place[E]) NoteUnwatched(now time.Duration) {
	if p.alone {
		p.NoteAlone(now, false)
	}
}

// Entries returns the number of the place's entries at the lock, joins in flight included.
func (p *Place[E]) Entries() int {
	n := len(p.holds) + len(p.joins)
	if p.cached != nil {
		n++
	}
	return n
}

// CountDue reports whether the caller must look for other contenders: goroutines wait for an entry
// that another goroutine holds, and no join is in flight.
func (p *Place[E]) CountDue() bool {
	return len(p.holds) > 0 && p.waiters.Len() > 0 && len(p.joins) == 0
}

// Empty reports whether the place has no waiters, entries and joins.
func (p *Place[E]) Empty() bool {
	return p.waiters.Len() == 0 && len(p.holds) == 0 && len(p.joins) == 0 && p.cached == nil
}
