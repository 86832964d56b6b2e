package zkconn

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestAbandonedCall: an abandoned call returns when its context ends, and its outcome is unknown.
// Close waits for it.
func TestAbandonedCall(t *testing.T) {
	for _, fault := range []locktest.Fault{{}, {DelayReply: 3 * time.Second}, {Delay: time.Minute}, {Delay: time.Second, Drop: locktest.AfterApply}} {
		simulate(t, locktest.Options{}, func(w *world) {
			c := w.dial(w.config("a"))
			w.Intercept(func(r locktest.Request) locktest.Fault {
				if r.Op == "multi" {
					return fault
				}
				return locktest.Fault{}
			})
			cause := errors.New("no patience")
			ctx, cancel := context.WithTimeoutCause(w.ctx, 500*time.Millisecond, cause)
			defer cancel()
			began := time.Now()
			replies, err := c.Multi(ctx, &zk.CreateRequest{Path: "/x", Acl: zk.WorldACL(zk.PermAll)})
			if fault == (locktest.Fault{}) {
				if err != nil || len(replies) != 1 {
					t.Errorf("%+v, %v", replies, err)
				}
			} else if mustBe(t, err, context.DeadlineExceeded, cause); !IsAbandoned(err) || OutcomeOf(err) != Ambiguous || time.Since(began) != 500*time.Millisecond {
				t.Errorf("%v after %v", err, time.Since(began))
			}
			iferr.Error(t, c.Close(time.Hour))
			// A request that waits for longer than its connection lives is lost when the session
			// returns on another connection.
			if there := len(w.Dump("/x")) > 0; there != (fault.Delay < sessionTimeout) {
				t.Errorf("%+v: the node is there: %v", fault, there)
			}
		})
	}
}

// TestCallsWithoutSession: without a session, calls return when their contexts end, and no write is
// sent.
func TestCallsWithoutSession(t *testing.T) {
	for _, own := range []bool{true, false} {
		simulate(t, locktest.Options{}, func(w *world) {
			c := w.conn(own, w.config("a"))
			w.Partition("a")
			time.Sleep(2 * sessionTimeout)
			sent := w.Requests()["a"].Requests
			for _, f := range []func(context.Context) error{
				func(ctx context.Context) error { _, err := c.Get(ctx, "/"); return err },
				func(ctx context.Context) error { _, _, err := c.Watch(ctx, "/"); return err },
				func(ctx context.Context) error {
					_, err := c.Multi(ctx, &zk.DeleteRequest{Path: "/x"})
					return err
				},
			} {
				ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second)
				began := time.Now()
				err := f(ctx)
				mustBe(t, err, ErrUnavailable, context.DeadlineExceeded)
				if took := time.Since(began); took > 5*time.Second+100*time.Millisecond || OutcomeOf(err) != Retryable {
					t.Errorf("%v (%d) after %v", err, OutcomeOf(err), took)
				}
				cancel()
			}
			w.Heal("a")
			iferr.Error(t, iferr.Of(c.Get(w.ctx, "/")))
			for op, n := range w.Requests()["a"].Requests {
				if op != "getData" && n != sent[op] {
					t.Errorf("%d requests %s were sent", n-sent[op], op)
				}
			}
		})
	}
}

// lateWrites is a connection on which a write ends after a read with the same deadline. So
// go-zookeeper does not send what is queued meanwhile.
type lateWrites struct{ net.Conn }

func (c lateWrites) SetWriteDeadline(t time.Time) error {
	if !t.IsZero() {
		t = t.Add(time.Millisecond)
	}
	return c.Conn.SetWriteDeadline(t)
}

// TestUnsentCallsEnd: calls, sent or unsent, end at their deadlines, although the server is silent, no
// other server answers, and no name is resolved. Unsent calls without a deadline end with Close.
func TestUnsentCallsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials, lookups := 0, 0
		cfg := testConfig(t)
		cfg.Dialer = func(string, string, time.Duration) (net.Conn, error) {
			if dials++; dials > 1 {
				return stalled(0), nil
			}
			client, server := net.Pipe()
			go func() { // reads no request, so the second one stays in the queue
				server.Read(make([]byte, 256))
				server.Write(greeting(sessionTimeout))
			}()
			return lateWrites{client}, nil
		}
		cfg.lookup = func(ctx context.Context, _ string) ([]string, error) {
			if lookups++; lookups > 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return []string{"192.0.2.1"}, nil
		}
		c, err := Dial(t.Context(), []string{"zk:2181"}, cfg)
		iferr.Fatal(t, err)
		limited, cancel := context.WithTimeout(t.Context(), sessionTimeout*3/4)
		defer cancel()
		var calls, endless sync.WaitGroup
		var unsent atomic.Int32
		began := time.Now()
		for range 5 {
			calls.Go(func() {
				if _, err := c.Multi(limited, &zk.DeleteRequest{Path: "/x"}); OutcomeOf(err) == Applied || OutcomeOf(err) == Refused {
					t.Error(err)
				}
			})
			endless.Go(func() {
				unsent.Add(1)
				defer unsent.Add(-1)
				if _, err := c.Multi(context.Background(), &zk.DeleteRequest{Path: "/x"}); OutcomeOf(err) == Applied || OutcomeOf(err) == Refused {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		if took := time.Since(began); took > sessionTimeout*3/4 {
			t.Errorf("took %v", took)
		}
		if unsent.Load() == 0 {
			t.Error("no call is unsent")
		}
		iferr.Error(t, c.Close(time.Second))
		if endless.Wait(); time.Since(began) > sessionTimeout*3/4+time.Second+100*time.Millisecond {
			t.Errorf("closed after %v", time.Since(began))
		}
		<-c.own.closed // go-zookeeper may wait for its last reply for longer than Close does
	})
}

// TestLongReply: a list may be longer than go-zookeeper's initial buffer.
func TestLongReply(t *testing.T) {
	const children, batch = 30_000, 5_000
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.dial(w.config("a"))
		w.write(c, "/x")
		for range children / batch {
			ops := make([]any, batch)
			for i := range ops {
				ops[i] = &zk.CreateRequest{Path: "/x/" + strings.Repeat("n", 50), Flags: zk.FlagSequence, Acl: zk.WorldACL(zk.PermAll)}
			}
			iferr.Fatal(t, iferr.Of(c.Multi(w.ctx, ops...)))
		}
		if names, _, err := c.Children(w.ctx, "/x"); err != nil || len(names) != children {
			t.Errorf("%d names, %v", len(names), err)
		}
	})
}
