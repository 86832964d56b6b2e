package supervise

import (
	"testing"
	"time"
)

func TestLeads(t *testing.T) {
	for _, test := range []struct {
		ttl  time.Duration
		want leads
	}{
		{3 * time.Second, leads{terminate: time.Second, kill: 300 * time.Millisecond, look: 500 * time.Millisecond}},
		{30 * time.Second, leads{terminate: 10 * time.Second, kill: 3 * time.Second, look: 5 * time.Second}},
		{time.Hour, leads{terminate: 30 * time.Second, kill: 3 * time.Second, look: 10 * time.Minute}},
	} {
		if got := leadsFor(test.ttl); got != test.want {
			t.Errorf("leadsFor(%v) = %v, want %v", test.ttl, got, test.want)
		}
	}
}

func TestDecide(t *testing.T) {
	l := leadsFor(30 * time.Second) // 10s, 3s, 5s
	const s = time.Second
	for _, test := range []struct {
		left  time.Duration
		asked bool
		want  action
		wait  time.Duration
	}{
		{30 * s, false, nothing, 5 * s},
		{15 * s, false, nothing, 5 * s},
		{12 * s, false, nothing, 2 * s}, // until SIGTERM is due
		{10*s + 1, false, nothing, 1},
		{10 * s, false, terminate, 7 * s}, // until SIGKILL is due
		{3*s + 1, false, terminate, 1},
		{10 * s, true, nothing, 5 * s},
		{4 * s, true, nothing, s},
		{29 * s, true, nothing, 5 * s}, // renewed after SIGTERM: no SIGKILL is due
		{3 * s, false, kill, 5 * s},
		{3 * s, true, kill, 5 * s},
		{0, true, kill, 5 * s},
		{-s, false, kill, 5 * s},
	} {
		if got, wait := l.decide(test.left, test.asked); got != test.want || wait != test.wait {
			t.Errorf("decide(%v, %v) = %v, %v; want %v, %v", test.left, test.asked, got, wait, test.want, test.wait)
		}
	}
}
