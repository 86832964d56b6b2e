package zkconn

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
)

// retrying returns a Conn for tests of Retry only.
func retrying(t *testing.T) *Conn { return newConn(testConfig(t)) }

// TestRetry: Retry tries again after each error of the table that is not final. After an error with
// pauses, the pauses double up to the longest one.
func TestRetry(t *testing.T) {
	const first, most = 20 * time.Millisecond, 100 * time.Millisecond
	quota := errors.New("quota")
	for _, tt := range []struct {
		err    error // of all attempts but the last
		pauses bool
		final  bool
	}{
		{err: ErrAgain},
		{err: answered(zk.ErrConnectionClosed), pauses: true},
		{err: answered(zk.ErrNoServer), pauses: true},
		{err: NotSent(ErrUnavailable), pauses: true},
		{err: Later(answered(zk.ErrNoNode)), pauses: true},
		{err: Later(quota), pauses: true},
		{err: answered(zk.ErrNoNode), final: true},
		{err: RefusedAt(1, zk.ErrNotEmpty), final: true},
		{err: NotSent(ErrClosed), final: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := retrying(t)
			var at []time.Time
			err := c.Retry(t.Context(), Backoff{first, most}, func() error {
				if at = append(at, time.Now()); len(at) == 6 {
					return nil
				}
				return tt.err
			})
			if tt.final {
				if err != tt.err || len(at) != 1 {
					t.Errorf("%v: %v after %d attempts", tt.err, err, len(at))
				}
				return
			}
			if err != nil || len(at) != 6 {
				t.Fatalf("%v: %v after %d attempts", tt.err, err, len(at))
			}
			for i, span := range []time.Duration{first, 2 * first, 4 * first, most, most} {
				switch paused := at[i+1].Sub(at[i]); {
				case !tt.pauses && paused != 0:
					t.Errorf("%v: pause %d is %v", tt.err, i, paused)
				case tt.pauses && (paused < span/2 || paused > span):
					t.Errorf("%v: pause %d is %v, want between half and all of %v", tt.err, i, paused, span)
				}
			}
		})
	}
}

// TestRetryEnds: Retry ends with its context. The error then has the context's cause and the last
// failure.
func TestRetryEnds(t *testing.T) {
	cause := errors.New("no patience")
	for _, last := range []error{zk.ErrConnectionClosed, zk.ErrNoServer, NotSent(ErrUnavailable), Later(zk.ErrNotEmpty), ErrAgain} {
		synctest.Test(t, func(t *testing.T) {
			c := retrying(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Minute, func() { cancel(cause) })
			began := time.Now()
			err := c.Retry(ctx, Backoff{time.Hour, time.Hour}, func() error {
				if last == ErrAgain {
					time.Sleep(time.Second)
				}
				return last
			})
			if took := time.Since(began); took < time.Minute || took > time.Minute+time.Second {
				t.Errorf("took %v", took)
			}
			mustBe(t, err, context.Canceled, cause)
			if last != ErrAgain {
				mustBe(t, err, ErrUnavailable, last)
				if got, want := OutcomeOf(err), OutcomeOf(last); got != want {
					t.Errorf("%v is %d, want %d", err, got, want)
				}
			}
		})
	}
}

// TestRetryErrorIsNotRepeated: the error does not repeat what an attempt's error already says.
func TestRetryErrorIsNotRepeated(t *testing.T) {
	c := retrying(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no patience"))
	err := c.Retry(ctx, Backoff{1, 1}, func() error { return c.unavailable(ctx, NotSent(ErrUnavailable)) })
	if want := "no session with ZooKeeper: context canceled: no patience"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}

// TestRetryOfClosed: if the connection is closed during a pause, Retry returns at once, with
// ErrClosed and the last failure.
func TestRetryOfClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := retrying(t)
		time.AfterFunc(time.Minute, func() { c.shut(ErrClosed) })
		began := time.Now()
		err := c.Retry(t.Context(), Backoff{time.Hour, time.Hour}, func() error { return zk.ErrConnectionClosed })
		mustBe(t, err, ErrClosed, zk.ErrConnectionClosed)
		if took := time.Since(began); took != time.Minute || OutcomeOf(err) != Ambiguous {
			t.Errorf("%v after %v", err, took)
		}
	})
}

func TestJitter(t *testing.T) {
	cfg := testConfig(t)
	for range 1000 {
		if d := cfg.Jitter(100, 10); d < 90 || d > 110 {
			t.Fatalf("%d", d)
		}
		if d := cfg.Jitter(100, 0); d != 100 {
			t.Fatalf("%d", d)
		}
	}
}
