package locktest

import (
	"container/heap"
	"time"
)

// An alarm calls a function at its time, with the ensemble locked.
type alarm struct {
	e      *Ensemble
	at     time.Time
	number int64 // orders the alarms of one instant: the first one set goes off first
	index  int   // index in the heap; -1: it went off, or was stopped
	f      func()
}

// after sets an alarm that calls f after the time d. All alarms share one timer, so events of the
// same instant always happen in the same order.
func (e *Ensemble) after(d time.Duration, f func()) *alarm {
	e.alarms.set++
	a := &alarm{e: e, at: time.Now().Add(d), number: e.alarms.set, f: f}
	heap.Push(&e.alarms, a)
	if a.index == 0 {
		e.arm()
	}
	return a
}

func (a *alarm) stop() {
	if a.index >= 0 {
		heap.Remove(&a.e.alarms, a.index)
	}
}

// arm sets the timer for the first alarm.
func (e *Ensemble) arm() {
	if len(e.alarms.heap) == 0 || e.closed {
		return
	}
	d := time.Until(e.alarms.heap[0].at)
	if e.alarms.timer == nil {
		e.alarms.timer = time.AfterFunc(d, e.ring)
	} else {
		e.alarms.timer.Reset(d)
	}
}

// ring calls the functions of the due alarms.
func (e *Ensemble) ring() {
	e.lock()
	defer e.unlock()
	now := time.Now()
	for !e.closed && len(e.alarms.heap) > 0 && !e.alarms.heap[0].at.After(now) {
		heap.Pop(&e.alarms).(*alarm).f()
	}
	e.arm()
}

// silence stops all alarms forever; the ensemble is closed.
func (e *Ensemble) silence() {
	for _, a := range e.alarms.heap {
		a.index = -1
	}
	e.alarms.heap = nil
	if e.alarms.timer != nil {
		e.alarms.timer.Stop()
	}
}

// alarms is a heap of alarms by time.
type alarms struct {
	heap  []*alarm
	set   int64 // number of alarms ever set
	timer *time.Timer
}

func (a *alarms) Len() int { return len(a.heap) }

func (a *alarms) Less(i, j int) bool {
	x, y := a.heap[i], a.heap[j]
	if x.at.Equal(y.at) {
		return x.number < y.number
	}
	return x.at.Before(y.at)
}

func (a *alarms) Swap(i, j int) {
	a.heap[i], a.heap[j] = a.heap[j], a.heap[i]
	a.heap[i].index, a.heap[j].index = i, j
}

func (a *alarms) Push(x any) {
	x.(*alarm).index = len(a.heap)
	a.heap = append(a.heap, x.(*alarm))
}

func (a *alarms) Pop() any {
	last := len(a.heap) - 1
	x := a.heap[last]
	a.heap[last] = nil
	a.heap = a.heap[:last]
	x.index = -1
	return x
}
