package zkconn

import (
	"testing"
	"time"
)

// TestBatch: half as many as were lost, for a minute since the last loss; and a few are
// never too many.
func TestBatch(t *testing.T) {
	b := Batch{Most: 100}
	for _, step := range []struct {
		at   time.Duration
		lost int // 0: none
		told bool
		want int // from then on
	}{
		{at: 0, want: 100},
		{at: 1 * time.Second, lost: 60, told: true, want: 30},
		{at: 2 * time.Second, lost: 9, told: true, want: 4},
		{at: 3 * time.Second, lost: 5, told: true, want: 4},
		{at: 4 * time.Second, lost: 4, want: 4},
		{at: 62 * time.Second, want: 4},
		{at: 63 * time.Second, want: 100},
	} {
		if step.lost > 0 {
			if told := b.Lost(step.lost, step.at); told != step.told {
				t.Errorf("%v: %d lost: fewer %v", step.at, step.lost, told)
			}
		}
		if got := b.Limit(step.at); got != step.want {
			t.Errorf("%v: at most %d, want %d", step.at, got, step.want)
		}
	}
}
