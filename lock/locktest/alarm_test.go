package locktest

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestAlarms: alarms fire in the order of their times, and alarms of one instant in the order in which
// they were set. Stopped alarms do not fire.
func TestAlarms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := Start(t, Options{})
		begin := time.Now()
		type ring struct {
			after  time.Duration
			number int
		}
		var want, got []ring
		var alarms []*alarm
		e.lock()
		for i := range 200 {
			r := ring{time.Duration(rand.IntN(20)) * time.Second, i}
			alarms = append(alarms, e.after(r.after, func() {
				if d := time.Since(begin); d != r.after {
					t.Errorf("%v after %v", r, d)
				}
				got = append(got, r)
			}))
			want = append(want, r)
		}
		for i := len(alarms) - 1; i >= 0; i -= 3 {
			alarms[i].stop()
			alarms[i].stop()
			want = slices.Delete(want, i, i+1)
		}
		e.unlock()
		slices.SortStableFunc(want, func(a, b ring) int { return int(a.after - b.after) })
		time.Sleep(time.Minute)
		e.lock()
		defer e.unlock()
		if !slices.Equal(got, want) {
			t.Errorf("went off: %v\nwant: %v", got, want)
		}
	})
}
