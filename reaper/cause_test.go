package reaper_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/reaper"
)

// hostile are errors that a caller may set as causes of contexts, and that mean something as answers.
var hostile = []error{
	zk.ErrNoNode, zk.ErrNoAuth, zk.ErrBadVersion, zk.ErrNotEmpty, lock.ErrDenied, lock.ErrLost,
	&lock.HeldError{Lock: "other", Owner: "other"},
}

// changing matches what differs from run to run: ids, numbers and times.
var changing = regexp.MustCompile(`[0-9a-f]{8,}|[0-9]+(\.[0-9]+)?`)

// TestCausesDecideNothing: a context ends while a request of a sweep is in flight, the first one or a
// later one. Report, log and remaining nodes are the same whatever the context's cause is.
func TestCausesDecideNothing(t *testing.T) {
	const trip, steps = 100 * time.Millisecond, 16
	for step := range steps {
		want := ""
		for _, cause := range append([]error{errors.New("enough")}, hostile...) {
			simulate(t, func(w *world) {
				z := w.raw("others")
				for _, name := range []string{"one", "deep/two", "kept/three"} {
					w.dead(z, name)
				}
				r := w.reaper("reaper", reaper.Options{Concurrency: 1})
				time.Sleep(ttl + 2*grace)
				w.Intercept(func(r locktest.Request) locktest.Fault {
					if r.Label != "reaper" {
						return locktest.Fault{}
					}
					return locktest.Fault{DelayReply: trip}
				})
				ctx, cancel := context.WithCancelCause(w.ctx)
				defer cancel(nil)
				time.AfterFunc(trip/2+time.Duration(step)*trip, func() { cancel(cause) })
				report, err := r.Sweep(ctx)
				if report.Complete == (err != nil) {
					t.Errorf("complete: %v, and the error: %v", report.Complete, err)
				}
				got := fmt.Sprintf("%v\n%s\n%q", err, w.logged(), w.paths())
				quoted := strconv.Quote(cause.Error())
				got = strings.NewReplacer(cause.Error(), "CAUSE", quoted[1:len(quoted)-1], "CAUSE").Replace(got)
				got = fmt.Sprintf("%+v\n%s", seen(report), changing.ReplaceAllString(got, "#"))
				if want == "" {
					want = got
				} else if got != want {
					t.Errorf("step %d: with the cause %q:\n%s\nand with another:\n%s", step, cause, got, want)
				}
			})
		}
	}
}
