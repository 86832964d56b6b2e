package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/schedule"
)

// TestCausesDecideNothing: a context ends while a request for a job is in flight, the first one or a
// later one. What is reported and recorded, and the error, are the same whatever the context's cause is.
func TestCausesDecideNothing(t *testing.T) {
	calls := map[string]func(ctx context.Context, w *world, c *lock.Client, j *schedule.Job) error{
		"Once": func(ctx context.Context, w *world, _ *lock.Client, j *schedule.Job) error {
			return j.Once(ctx, w.note("a", 0))
		},
		"Status": func(ctx context.Context, _ *world, _ *lock.Client, j *schedule.Job) error {
			_, err := j.Status(ctx)
			return err
		},
		"Forget": func(ctx context.Context, _ *world, c *lock.Client, _ *schedule.Job) error {
			return schedule.Forget(ctx, c, "", "nightly/export")
		},
	}
	const trip, steps = 100 * time.Millisecond, 9
	changing := regexp.MustCompile(`[0-9a-f]{8,}|[0-9]+(\.[0-9]+)?`)
	for what, call := range calls {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for step := range steps {
				want := ""
				for _, cause := range []error{
					errors.New("enough"), zk.ErrNoNode, zk.ErrNoAuth, zk.ErrBadVersion, zk.ErrNodeExists, zk.ErrNotEmpty,
					&lock.HeldError{Lock: "other", Owner: "other"}, lock.ErrInDoubt, lock.ErrUnavailable,
				} {
					t.Run(fmt.Sprintf("%d/%v", step, cause), func(t *testing.T) {
						simulateInTurn(t, func(w *world) {
							w.start(w.job(w.dial("b"), schedule.Options{}), w.note("b", time.Hour))
							time.Sleep(time.Minute)
							iferr.Fatal(t, w.Partition("b")) // its run stays recorded as running
							time.Sleep(ttl + 2*grace)
							c := w.dial("a")
							j := w.job(c, schedule.Options{})
							w.Intercept(func(r locktest.Request) locktest.Fault {
								if r.Label != "a" {
									return locktest.Fault{}
								}
								return locktest.Fault{DelayReply: trip}
							})
							ctx, cancel := context.WithCancelCause(w.Ctx)
							defer cancel(nil)
							time.AfterFunc(trip/2+time.Duration(step)*trip, func() { cancel(cause) })
							err := call(ctx, w, c, j)
							w.Intercept(nil)
							time.Sleep(ttl)
							nodes := ""
							for _, n := range w.Dump(schedule.DefaultPath) {
								nodes += fmt.Sprintf("%s %s\n", n.Path, n.Data)
							}
							text := strings.ReplaceAll(fmt.Sprint(err), cause.Error(), "CAUSE")
							got := changing.ReplaceAllString(fmt.Sprintf("%s\nreported %+v\n%s", text, w.reported, nodes), "#")
							if want == "" {
								want = got
							} else if got != want {
								t.Errorf("with the cause %q:\n%s\nand with another:\n%s", cause, got, want)
							}
						})
					})
				}
			}
		})
	}
}
