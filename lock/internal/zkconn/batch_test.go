package zkconn

import (
	"testing"
	"time"
)

// TestBatch: after a loss the limit is half of the lost size, for a minute since the last loss. It
// is never below 16 kB.
func TestBatch(t *testing.T) {
	const kB = 1 << 10
	b := Batch{Most: 256 * kB}
	for _, step := range []struct {
		at   time.Duration
		lost int // bytes of a lost transaction; 0: none
		less bool
		want int // limit after that
	}{
		{at: 0, want: 256 * kB},
		{at: 1 * time.Second, lost: 16 * kB, want: 256 * kB},
		{at: 2 * time.Second, lost: 100 * kB, less: true, want: 50 * kB},
		{at: 3 * time.Second, lost: 20 * kB, less: true, want: 16 * kB},
		{at: 4 * time.Second, lost: 10 * kB, want: 16 * kB},
		{at: 5 * time.Second, lost: 100 * kB, less: true, want: 16 * kB}, // sent before the loss
		{at: 64 * time.Second, want: 16 * kB},
		{at: 65 * time.Second, want: 256 * kB},
	} {
		if step.lost > 0 {
			if less := b.Lost(step.lost, step.at); less != step.less {
				t.Errorf("%v: %d lost: try with less: %v", step.at, step.lost, less)
			}
		}
		if got := b.Limit(step.at); got != step.want {
			t.Errorf("%v: at most %d, want %d", step.at, got, step.want)
		}
	}
}
