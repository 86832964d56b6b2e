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
//	Release, otherwise                                                                ▼ Leave
//
// An entry is handed off locally only inside a window, which begins with its grant. So each entry
// ahead costs other processes at most one window and one hold. Behind a hold of a second, the first
// waiter joins while the entry is still held: then other processes see that it waits, and it is
// ahead of all contenders that join later. Readers share an entry if they wait when it is granted,
// or arrive inside its window.
package place

import (
	"container/list"
	"fmt"
	"slices"
	"time"
)

// Place is the place of one process in the queue of one lock. E is an entry. Place is not safe for
// concurrent use: the caller guards it with a mutex. The caller sets the exported fields.
type Place[E comparable] struct {
	Window time.Duration // time after a grant for local handoffs; 0: none
	Shared bool          // waiters share one entry: readers
	Room   int           // entries that can be held at once: 1, or more with a semaphore
	Free   int           // number of further entries that fit, by the last list

	waiters list.List // elements are *Waiter[E]
	holds   []*hold[E]
	joins   []*Join
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

// Join is a join in flight. Cancel is called when no waiter needs it any more.
type Join struct {
	Cancel func()
	Until  time.Duration // end of the window of the entry that the join continues; 0: a new entry
}

// Step is the next step for a waiter or a released entry.
type Step uint8

// The steps that Enter and Release return.
const (
	Wait      Step = iota // the waiter waits for its turn
	Share                 // the waiter shares the entry
	StartJoin             // a join begins
	Pass                  // the first waiter gets the released entry
	Exchange              // the released entry leaves, and a join begins, in one transaction
	Leave                 // the released entry leaves
)

// Enter adds a waiter. share adds one more goroutine to an entry, and reports whether that was
// possible. On Share the waiter gets the entry, and does not wait. On StartJoin the caller must begin
// a join.
func (p *Place[E]) Enter(w *Waiter[E], now time.Duration, share func(E) bool) (E, Step) {
	var none E
	if p.waiters.Len() == 0 {
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

// First returns the first waiter; nil if there is none.
func (p *Place[E]) First() *Waiter[E] {
	if front := p.waiters.Front(); front != nil {
		return front.Value.(*Waiter[E])
	}
	return nil
}

// Next removes and returns the first waiter, to be served; nil if there is none.
func (p *Place[E]) Next() *Waiter[E] {
	w := p.First()
	if w != nil {
		p.remove(w)
	}
	return w
}

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

// Empty reports whether the place has no waiters, entries and joins.
func (p *Place[E]) Empty() bool {
	return p.waiters.Len() == 0 && len(p.holds) == 0 && len(p.joins) == 0
}

// Check returns an error with the values if an invariant of a place that is not being changed is broken.
func (p *Place[E]) Check() error {
	waiters, holds, joins, anew := p.waiters.Len(), len(p.holds), len(p.joins), 0
	for _, j := range p.joins {
		if j.Until == 0 { // one that continues an entry may come beside the join that a waiter has already
			anew++
		}
	}
	switch {
	case anew > waiters:
		return fmt.Errorf("%d joins of new entries for %d waiters", anew, waiters)
	case p.Shared && joins > 1:
		return fmt.Errorf("%d joins for one shared entry", joins)
	case waiters > 0 && holds+joins == 0:
		return fmt.Errorf("%d waiters wait for 0 holds and 0 joins", waiters)
	}
	return nil
}
