package lock

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestOutcome: only what the server is known to have refused, or not to have got,
// counts as not applied.
func TestOutcome(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want outcome
	}{
		{nil, applied},
		{zk.ErrNoNode, refused},
		{zk.ErrNodeExists, refused},
		{zk.ErrBadVersion, refused},
		{zk.ErrNotEmpty, refused},
		{zk.ErrNoAuth, refused},
		{zk.ErrAuthFailed, refused},
		{zk.ErrInvalidACL, refused},
		{zk.ErrNoChildrenForEphemerals, refused},
		{zk.ErrAPIError, refused},
		{zk.ErrBadArguments, refused},
		{zk.ErrInvalidPath, refused},
		{errors.New("unknown error: -125"), refused}, // quota
		{errors.New("unknown error: -2"), refused},
		{&refusedError{Op: 1, Err: zk.ErrBadVersion}, refused},
		{neverLeft{ErrClosed}, refused},
		{neverLeft{context.Canceled}, notNow},
		{zk.ErrNoServer, notNow},
		{zk.ErrSessionExpired, notNow},
		{zk.ErrSessionMoved, notNow},
		{errors.New(codeThrottled), notNow},
		{&refusedError{Op: 0, Err: zk.ErrSessionMoved}, notNow},
		{zk.ErrConnectionClosed, uncertain},
		{zk.ErrClosing, uncertain},
		{io.EOF, uncertain},
		{io.ErrUnexpectedEOF, uncertain},
		{&net.OpError{Op: "write", Err: errors.New("broken pipe")}, uncertain},
		{zk.ErrShortBuffer, uncertain},
		{zk.ErrPtrExpected, uncertain},
		{abandoned{context.DeadlineExceeded}, uncertain},
		{errors.New("reply to 2 operations has 0 results"), uncertain},
		{errors.New("anything else"), uncertain},
	} {
		if got := outcomeOf(tt.err); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.err, got, tt.want)
		}
	}
}

func TestRefusedOp(t *testing.T) {
	err := fmt.Errorf("delete: %w", &refusedError{Op: 3, Err: zk.ErrNotEmpty})
	if op, cause := refusedOp(err); op != 3 || cause != zk.ErrNotEmpty {
		t.Errorf("%d, %v", op, cause)
	}
	if !strings.Contains(err.Error(), "operation 3: "+zk.ErrNotEmpty.Error()) || !errors.Is(err, zk.ErrNotEmpty) {
		t.Errorf("%v", err)
	}
	if op, cause := refusedOp(io.EOF); op != -1 || cause != io.EOF {
		t.Errorf("%d, %v", op, cause)
	}
}

func TestContextError(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := contextError(ctx); err != nil {
		t.Errorf("%v before its end", err)
	}
	cause := errors.New("closing time")
	cancel(cause)
	if err := contextError(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, cause) || err.Error() != "context canceled: closing time" {
		t.Errorf("%v", err)
	}
	plain, cancelPlain := context.WithCancel(t.Context())
	cancelPlain()
	if err := contextError(plain); err != context.Canceled {
		t.Errorf("%v", err)
	}
	wrapping, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("gave up: %w", context.Canceled))
	if err := contextError(wrapping); err.Error() != "gave up: context canceled" {
		t.Errorf("%v", err)
	}
}

func TestBackoff(t *testing.T) {
	cfg, err := newConfig(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := cfg.newBackoff(20*ms, time.Second)
	for most := 20 * ms; most < 3*time.Second; most *= 2 {
		if d := b.next(); d < min(most, time.Second)/2 || d > min(most, time.Second) {
			t.Errorf("%v, want between half and all of %v", d, min(most, time.Second))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := cfg.newBackoff(time.Hour, time.Hour).sleep(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestJitter(t *testing.T) {
	cfg, err := newConfig(nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if d := cfg.jitter(100, 10); d < 90 || d > 110 {
			t.Fatalf("%d", d)
		}
		if d := cfg.jitter(100, 0); d != 100 {
			t.Fatalf("%d", d)
		}
	}
}

// deadlines is a connection that hands out its bytes a few at a time, and notes
// the deadlines that it is given.
type deadlines struct {
	net.Conn
	bytes []byte
	step  int
	set   time.Time
}

func (d *deadlines) Read(p []byte) (int, error) {
	n := copy(p, d.bytes[:min(d.step, len(d.bytes))])
	d.bytes = d.bytes[n:]
	return n, nil
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.set = t
	return nil
}

// TestHandshakeDeadline: as long as the first frame was not read to its end, no
// deadline goes beyond the limit, however its bytes come; afterwards all are
// passed on. The session timeout in it is told once, if there is a session.
func TestHandshakeDeadline(t *testing.T) {
	for timeout, want := range map[time.Duration][]time.Duration{
		6 * time.Second: {6 * time.Second},
		0:               nil, // the session has expired
	} {
		testHandshake(t, timeout, want)
	}
}

func testHandshake(t *testing.T, timeout time.Duration, want []time.Duration) {
	frame := append(binary.BigEndian.AppendUint32(nil, 36), make([]byte, 36)...)
	binary.BigEndian.PutUint32(frame[8:], uint32(timeout.Milliseconds()))
	limit := time.Now().Add(time.Minute)
	for step := 1; step <= 50; step++ {
		d := &deadlines{bytes: append(frame[:len(frame):len(frame)], make([]byte, 10)...), step: step}
		var told []time.Duration
		c := &handshakeConn{Conn: d, reader: bufio.NewReader(d), limit: limit, granted: func(t time.Duration) { told = append(told, t) }}
		for read := 0; read < len(frame); {
			for asked, want := range map[time.Time]time.Time{{}: limit, limit.Add(time.Hour): limit, limit.Add(-1): limit.Add(-1)} {
				c.SetReadDeadline(asked)
				if d.set != want {
					t.Fatalf("step %d, %d bytes read: asked for %v, set %v", step, read, asked, d.set)
				}
			}
			n, err := c.Read(make([]byte, min(7, len(frame)-read)))
			if read += n; err != nil {
				t.Fatal(err)
			}
		}
		for _, asked := range []time.Time{{}, limit.Add(time.Hour)} {
			if c.SetReadDeadline(asked); d.set != asked {
				t.Errorf("step %d: asked for %v, set %v", step, asked, d.set)
			}
		}
		if !slices.Equal(told, want) {
			t.Errorf("step %d: the session timeout was told as %v, want %v", step, told, want)
		}
	}
}

// TestGroup: while it is waited for, those inside may bring in others.
func TestGroup(t *testing.T) {
	var g group
	if !g.enter() {
		t.Fatal("cannot enter")
	}
	idle := g.close()
	if waitFor(idle, 0) || !g.enter() {
		t.Fatal("closed with somebody inside")
	}
	g.leave()
	g.leave()
	if !waitFor(idle, time.Hour) || !waitFor(g.close(), time.Hour) {
		t.Fatal("not idle")
	}
	if g.enter() {
		t.Fatal("entered after the end")
	}
	var empty group
	if !waitFor(empty.close(), time.Hour) || empty.enter() {
		t.Fatal("an empty one is not closed at once")
	}
}

// TestTimeLimit: it ends at its time, whether or not anybody waits, and its timer stops
// when it is released.
func TestTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		l := newTimeLimit(time.Minute)
		if at, ok := l.Deadline(); !ok || !at.Equal(start.Add(time.Minute)) {
			t.Errorf("deadline %v, %v", at, ok)
		}
		time.Sleep(time.Minute - 1)
		if l.Err() != nil {
			t.Errorf("before its time: %v", l.Err())
		}
		<-l.Done()
		if passed := time.Since(start); passed != time.Minute || contextError(l) != context.DeadlineExceeded {
			t.Errorf("ended after %v: %v", passed, contextError(l))
		}
		<-l.Done() // again
		l.release()

		unwatched := newTimeLimit(time.Minute)
		time.Sleep(time.Minute)
		if unwatched.Err() != context.DeadlineExceeded {
			t.Errorf("at its time, and nobody waits: %v", unwatched.Err())
		}
		unwatched.release()

		released := newTimeLimit(time.Minute)
		done := released.Done()
		released.release()
		time.Sleep(time.Hour)
		select {
		case <-done:
			t.Error("the timer goes on after the release")
		default:
		}
	})
}

// TestGoroutinesAreReused by calls that come one after the other, and not all are kept
// of those that came at once.
func TestGoroutinesAreReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := locktest.Start(t, locktest.Options{Latency: func(string, string) time.Duration { return time.Millisecond }})
		c, err := Dial(t.Context(), e.Servers(), WithDialer(e.Dial))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for range 10 {
			if _, err := c.conn.children(t.Context(), "/"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if idle, all := len(c.conn.idle), workers(); idle != 1 || all != 1 {
			t.Errorf("%d goroutines are idle of %d after calls one after the other", idle, all)
		}
		var all sync.WaitGroup
		for range 3 * mostIdle {
			all.Go(func() {
				if _, err := c.conn.children(t.Context(), "/"); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		synctest.Wait()
		if idle, all := len(c.conn.idle), workers(); idle != mostIdle || all != mostIdle {
			t.Errorf("%d goroutines are idle of %d after calls at once", idle, all)
		}
	})
}

// workers counts the goroutines that run work. runtime.NumGoroutine would count others,
// too, and for a moment those that have ended.
func workers() int {
	stacks := make([]byte, 1<<20)
	return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte(".(*conn).work("))
}

// TestWatchIsShared by all who wait for a path, until it fires: go-zookeeper could
// not take more of them back.
func TestWatchIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := locktest.Start(t, locktest.Options{Latency: func(string, string) time.Duration { return time.Microsecond }})
		c, err := Dial(t.Context(), e.Servers(), WithDialer(e.Dial))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		h, err := c.Mutex("x").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		watch := func() (node, <-chan zk.Event) {
			n, events, err := c.conn.watch(t.Context(), h.Entry())
			if err != nil {
				t.Fatal(err)
			}
			return n, events
		}
		first, events := watch()
		if again, shared := watch(); shared != events || again.stat.Mzxid != first.stat.Mzxid {
			t.Error("the second one has a watch of its own")
		}
		if err := h.Extend(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		<-events
		if again, renewed := watch(); renewed == events || again.stat.Version != first.stat.Version+1 {
			t.Errorf("version %d after version %d, the same watch: %v", again.stat.Version, first.stat.Version, renewed == events)
		}
		if err := h.Unlock(); err != nil {
			t.Error(err)
		}
	})
}
