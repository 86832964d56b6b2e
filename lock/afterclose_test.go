// Requests of a client that closes fail because of that, and count as no denial.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestNothingIsDeniedAfterClose: what is asked of a client that is closed, or closes at
// that moment, fails because of that, and neither an error nor the log takes it for the
// refusal of an ACL. On a connection that its owner has closed it is the same.
func TestNothingIsDeniedAfterClose(t *testing.T) {
	for number := range 7 { // of the request during which it closes; 0: before
		for _, borrowed := range []bool{false, true} {
			subtest(t, fmt.Sprint("number ", number, ", borrowed ", borrowed), locktest.Options{}, func(w *world) {
				busy := w.lock(w.client("b"), "busy")
				for what, ask := range afterClose {
					err := w.closed(number, borrowed, ask)
					if errors.Is(err, lock.ErrDenied) || err != nil && strings.Contains(err.Error(), "denied") {
						w.Errorf("%s, closed at request %d, borrowed %v: %v", what, number, borrowed, err)
					}
					if number == 0 && err == nil {
						w.Errorf("%s of a client that is closed, borrowed %v: no error", what, borrowed)
					}
				}
				for line := range strings.Lines(w.logged()) {
					if strings.Contains(line, "denied") || strings.Contains(line, "ACL") {
						w.Errorf("closed at request %d, borrowed %v: logged %s", number, borrowed, line)
					}
				}
				w.unlock(busy)
			})
		}
	}
}

// closed asks a client that closes, or whose connection does, at its request of that
// number.
func (w *world) closed(number int, borrowed bool, ask func(context.Context, *lock.Client, *lock.Hold) error) error {
	w.Helper()
	var c *lock.Client
	var err error
	end := func() { c.Close() }
	if borrowed {
		z := w.raw("a")
		c, err = lock.New(z, w.options("a", usual)[1:]...) // not the dialer
		end = z.Close
	} else {
		c, err = lock.Dial(w.ctx, w.Servers(), w.options("a", usual)...)
	}
	w.ok(err)
	defer c.Close()
	h := w.lock(c, "mine")
	var closing sync.WaitGroup
	if number == 0 {
		end()
	}
	seen := 0
	w.Intercept(func(r locktest.Request) locktest.Fault {
		if r.Label != "a" {
			return locktest.Fault{}
		}
		if seen++; seen != number { // some need fewer
			return locktest.Fault{}
		}
		closing.Go(end)
		return locktest.Fault{Delay: 10 * time.Millisecond}
	})
	ctx := w.limited(3 * time.Second)
	err = ask(ctx, c, h)
	w.Intercept(nil)
	closing.Wait() // two that close a client at once would stop virtual time
	return err
}

// afterClose are what can be asked of a client, and of a hold of its.
var afterClose = map[string]func(context.Context, *lock.Client, *lock.Hold) error{
	"Lock": func(ctx context.Context, c *lock.Client, _ *lock.Hold) error {
		_, err := c.Mutex("free").Lock(ctx)
		return err
	},
	"nested": func(ctx context.Context, c *lock.Client, _ *lock.Hold) error {
		_, err := c.Mutex("a/b/c").Lock(ctx)
		return err
	},
	"waits": func(ctx context.Context, c *lock.Client, _ *lock.Hold) error {
		_, err := c.Mutex("busy").Lock(ctx)
		return err
	},
	"TryLock": func(ctx context.Context, c *lock.Client, _ *lock.Hold) error {
		_, err := c.Mutex("busy").TryLock(ctx)
		return err
	},
	"Extend": func(ctx context.Context, _ *lock.Client, h *lock.Hold) error { return h.Extend(ctx, 2*ttl) },
	"Unlock": func(_ context.Context, _ *lock.Client, h *lock.Hold) error { return h.Unlock() },
	"Get": func(ctx context.Context, c *lock.Client, _ *lock.Hold) error {
		_, _, err := admin.New(c).Get(ctx, "/locks")
		return err
	},
	"Children": func(ctx context.Context, c *lock.Client, _ *lock.Hold) error {
		_, _, err := admin.New(c).Children(ctx, "/locks")
		return err
	},
	"Delete": func(ctx context.Context, c *lock.Client, _ *lock.Hold) error {
		return admin.New(c).Delete(ctx, []admin.Deletion{{Path: "/locks/none"}})
	},
	"Now": func(ctx context.Context, c *lock.Client, _ *lock.Hold) error {
		_, err := admin.New(c).Now(ctx)
		return err
	},
	"Prove": func(ctx context.Context, c *lock.Client, _ *lock.Hold) error {
		_, err := admin.New(c).Prove(ctx, admin.New(c).Estimate(), 1)
		return err
	},
	"Inspect": func(ctx context.Context, c *lock.Client, _ *lock.Hold) error {
		_, err := admin.New(c).Inspect(ctx, "busy")
		return err
	},
}
