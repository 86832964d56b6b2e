package queue

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestLoneEntryHasNoParty: while nobody rides on an entry its party is not remembered, and
// its door stays open; when it has ended, however, nothing is left.
func TestLoneEntryHasNoParty(t *testing.T) {
	for name, end := range map[string]func(w *office, e *Entry){
		"unlocked": func(w *office, e *Entry) {
			if last, err := e.Unlock(); !last || err != nil {
				w.Fatal(last, err)
			}
			if w.Pass(e) {
				w.Fatal("it was passed on, to nobody")
			}
			if err := w.Leave(w.Ctx, e); err != nil {
				w.Fatal(err)
			}
		},
		"lost": func(_ *office, e *Entry) { e.Lose(lease.ErrMaxHold) },
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, "", func(w *office) {
				request := Request{Lock: "x", Kind: znode.Mutex, Terms: lease.Terms{TTL: time.Minute, Grace: time.Second}, Window: time.Second, Values: w.Ctx}
				e, err := w.Acquire(w.Ctx, request)
				if err != nil {
					t.Fatal(err)
				}
				d := w.doors.byLock["x"]
				if d.rides.lone != e || d.rides.first != nil || e.seat != nil || d.users != 1 || !e.Seated() {
					t.Errorf("lone entry %v, parties %v, its seat %v, %d users of the door", d.rides.lone, d.rides.first, e.seat, d.users)
				}
				c := w.newContender(request)
				d.rides.mu.Lock()
				p := c.party()
				d.rides.mu.Unlock()
				w.closeDoor(c.door)
				if d.rides.lone != nil || e.seat == nil || e.seat.party != p || e.seat.entry != e || e.seat.until != e.HeldSince()+time.Second {
					t.Errorf("somebody comes: lone entry %v, its seat %+v", d.rides.lone, e.seat)
				}
				d.rides.mu.Lock()
				e.seat.forget(e)
				d.rides.mu.Unlock()
				if d.rides.lone != e || d.rides.first != nil || e.seat != nil {
					t.Errorf("and goes: lone entry %v, parties %v, its seat %v", d.rides.lone, d.rides.first, e.seat)
				}
				end(w, e)
				<-w.Tasks.Close() // what is done about it in the background
				if d.rides.lone != nil || d.rides.first != nil || d.users != 0 {
					t.Errorf("after the end: lone entry %v, parties %v, %d users of the door", d.rides.lone, d.rides.first, d.users)
				}
			})
		})
	}
}

// TestOneJoinsAtATime: in the order in which they come, and who gives up is passed over, also
// if that is when its turn has come.
func TestOneJoinsAtATime(t *testing.T) {
	for range 50 { // of what comes at once either is noticed first
		synctest.Test(t, func(t *testing.T) {
			d := lone("").openDoor("x")
			var turns []int
			wait := func(ctx context.Context, i int) {
				go func() {
					if err := d.lock(ctx); err == nil {
						turns = append(turns, i)
					} else if !errors.Is(err, context.Canceled) || i%2 > 0 {
						t.Errorf("%d: %v", i, err)
					}
				}()
				synctest.Wait()
			}
			unlock := func() {
				d.unlock()
				synctest.Wait()
			}
			soon, giveUp := context.WithCancel(t.Context())
			later, giveUpLater := context.WithCancel(t.Context())
			wait(t.Context(), 1)
			wait(t.Context(), 3)
			wait(soon, 2)
			wait(later, 4)
			wait(t.Context(), 5)
			giveUp()
			synctest.Wait()
			unlock() // 3 has it
			giveUpLater()
			unlock() // 4 has it, or 5
			if len(turns) > 2 && turns[2] == 4 {
				turns = turns[:2]
				unlock()
			}
			if !slices.Equal(turns, []int{1, 3, 5}) {
				t.Errorf("turns of %v, want of 1, 3 and 5", turns)
			}
			if unlock(); d.joining || d.toJoin != nil {
				t.Errorf("nobody is left, and joining: %v, waiting: %v", d.joining, d.toJoin)
			}
		})
	}
}
