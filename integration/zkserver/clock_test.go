package zkserver

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// offset returns how far the clock of the client's server is ahead of this process's clock.
func offset(t *testing.T, conn *zk.Conn, path string) time.Duration {
	t.Helper()
	stat, err := conn.Set(path, nil, -1)
	if err != nil {
		t.Fatal(err)
	}
	return time.Until(time.UnixMilli(stat.Mtime))
}

func near(off, want time.Duration) bool { return (off - want).Abs() < 10*time.Second }

// TestClockSteps: a server uses a stepped clock, also if the step was made while the server was
// stopped.
func TestClockSteps(t *testing.T) {
	clock := ClockForTest(t, -90*time.Second)
	s := ForTest(t, Options{Env: clock.Env()})
	conn := connect(t, lasting, new(Tap), s.Addr())
	create(t, conn, "/x", "", 0)
	if off := offset(t, conn, "/x"); !near(off, -90*time.Second) {
		t.Errorf("before a step the server's clock is ahead by %v", off)
	}
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		if err := clock.Step(ahead); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the server's clock steps", func() bool { return near(offset(t, conn, "/x"), ahead) })
	}
	s.Kill()
	if err := clock.Step(0); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn = connect(t, lasting, new(Tap), s.Addr())
	if off := offset(t, conn, "/x"); !near(off, 0) {
		t.Errorf("after a restart the server's clock is ahead by %v", off)
	}
}
