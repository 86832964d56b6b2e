package locktest

import (
	"cmp"
	"slices"
	"time"
)

// An alarm calls a function at its time, with the ensemble locked.
type alarm struct {
	e      *Ensemble
	at     time.Time
	number int64 // orders the alarms of one instant: the first one set goes off first
	f      func()
}

// alarms has the alarms that are set, the next one last.
type alarms struct {
	list  []*alarm
	set   int64 // number of alarms ever set
	timer *time.Timer
}

// find returns the index of an alarm in the list, or the one at which it belongs.
func (a *alarms) find(one *alarm) (int, bool) {
	return slices.BinarySearchFunc(a.list, one, func(x, y *alarm) int {
		return cmp.Or(y.at.Compare(x.at), cmp.Compare(y.number, x.number))
	})
}

// after sets an alarm that calls f after the time d. All alarms share one timer, so events of the
// same instant always happen in the same order.
func (e *Ensemble) after(d time.Duration, f func()) *alarm {
	e.alarms.set++
	a := &alarm{e: e, at: time.Now().Add(d), number: e.alarms.set, f: f}
	i, _ := e.alarms.find(a)
	e.alarms.list = slices.Insert(e.alarms.list, i, a)
	if i == len(e.alarms.list)-1 {
		e.arm()
	}
	return a
}

// stop does nothing if the alarm went off, or was stopped before.
func (a *alarm) stop() {
	if i, ok := a.e.alarms.find(a); ok {
		a.e.alarms.list = slices.Delete(a.e.alarms.list, i, i+1)
	}
}

// arm sets the timer for the next alarm.
func (e *Ensemble) arm() {
	last := len(e.alarms.list) - 1
	if last < 0 || e.closed {
		return
	}
	d := time.Until(e.alarms.list[last].at)
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
	for !e.closed && len(e.alarms.list) > 0 {
		next := e.alarms.list[len(e.alarms.list)-1]
		if next.at.After(now) {
			break
		}
		next.stop()
		next.f()
	}
	e.arm()
}

// silence stops all alarms forever; the ensemble is closed.
func (e *Ensemble) silence() {
	e.alarms.list = nil
	if e.alarms.timer != nil {
		e.alarms.timer.Stop()
	}
}
