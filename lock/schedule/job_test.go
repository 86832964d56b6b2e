// Jobs on an ensemble in memory, in virtual time.

package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/robfig/cron/v3"
	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast/integration/audited"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/bubble"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/schedule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ttl   = 10 * time.Second
	grace = time.Second
)

// world is an ensemble in memory, and the runs of a test's jobs.
type world struct {
	*bubble.World
	begun time.Time // the full minute a second before the test began

	mu       sync.Mutex
	runs     []ran
	reported []schedule.Run
}

// ran is one call of a job's function.
type ran struct {
	replica string
	tick    time.Time
	attempt int
	token   lock.Token
}

func simulate(t *testing.T, f func(w *world)) {
	t.Helper()
	t.Parallel()
	simulateInTurn(t, f)
}

// simulateInTurn is simulate for a test whose simulations depend on each other.
func simulateInTurn(t *testing.T, f func(w *world)) {
	t.Helper()
	bubble.Run(t, locktest.Options{Members: 3}, 5*time.Second, func(b *bubble.World) {
		w := &world{World: b, begun: time.Now().Truncate(time.Minute).Add(time.Minute)}
		time.Sleep(time.Until(w.begun.Add(time.Second)))
		audited.Test(b, b.Ensemble, func() { f(w) })
	})
}

func (w *world) dial(label string, opts ...lock.Option) *lock.Client {
	w.Helper()
	c, err := lock.Dial(w.Ctx, w.Servers(), append([]lock.Option{
		lock.WithDialer(w.Dialer(label)), lock.WithTTL(ttl), lock.WithGrace(grace), lock.WithSessionTimeout(6 * time.Second), lock.WithOwner(label),
	}, opts...)...)
	iferr.Fatal(w, err)
	w.Cleanup(func() {
		w.Heal(label)
		if err := c.Close(); err != nil {
			w.Errorf("close %s: %v", label, err)
		}
	})
	return c
}

// minutely is a schedule with a tick each minute.
var minutely = cron.Every(time.Minute)

func (w *world) job(c *lock.Client, opts schedule.Options) *schedule.Job {
	w.Helper()
	if opts.Report == nil {
		opts.Report = func(run schedule.Run) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.reported = append(w.reported, run)
		}
	}
	j, err := schedule.New(c, "nightly/export", minutely, opts)
	iferr.Fatal(w, err)
	return j
}

// note returns a function that records its calls, and lasts for the duration or until its context
// ends.
func (w *world) note(replica string, lasts time.Duration) schedule.Func {
	return func(ctx context.Context, turn *schedule.Turn) error {
		w.mu.Lock()
		w.runs = append(w.runs, ran{replica, turn.Tick, turn.Attempt, turn.Hold.Token()})
		w.mu.Unlock()
		select {
		case <-time.After(lasts):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// start runs a job in the background. The returned function stops it, and waits for its end.
func (w *world) start(j *schedule.Job, f schedule.Func) (stop func()) {
	ctx, cancel := context.WithCancel(w.Ctx)
	done := make(chan error, 1)
	go func() { done <- j.Run(ctx, f) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			w.Errorf("Run: %v", err)
		}
	})
	w.Cleanup(stop)
	return stop
}

// ticks returns how often each tick ran. Ticks are numbered by the minutes after begun.
func (w *world) ticks() map[int]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	count := map[int]int{}
	for _, r := range w.runs {
		count[w.minute(r.tick)]++
	}
	return count
}

// minute returns the number of a tick.
func (w *world) minute(tick time.Time) int { return int(tick.Sub(w.begun).Minutes()) }

// order returns the numbers of the ticks that ran, in their order.
func (w *world) order() (ticks []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs {
		ticks = append(ticks, w.minute(r.tick))
	}
	return ticks
}

// mustTick checks how often each tick has run; want is the printed map.
func (w *world) mustTick(want string) {
	w.Helper()
	if got := fmt.Sprint(w.ticks()); got != want {
		w.Errorf("the ticks ran %s times, want %s", got, want)
	}
}

func (w *world) status(j *schedule.Job) schedule.Status {
	w.Helper()
	s, err := j.Status(w.Ctx)
	iferr.Fatal(w, err)
	return s
}

// ofRecord reports whether a request reads or writes the record of a job.
func ofRecord(r locktest.Request) bool {
	return slices.ContainsFunc(r.Paths, func(p string) bool { return strings.HasPrefix(p, schedule.DefaultPath) })
}

// TestOneRunATick: of five replicas one runs each tick, within 100 ms of its time.
func TestOneRunATick(t *testing.T) {
	for _, opts := range []schedule.Options{{}, {AtLeastOnce: true}, {Overlap: schedule.OverlapSkip}, {Overlap: schedule.OverlapBeside}} {
		t.Run(fmt.Sprintf("%+v", opts), func(t *testing.T) {
			simulate(t, func(w *world) {
				var j *schedule.Job
				for i := range 5 {
					label := fmt.Sprint("replica", i)
					j = w.job(w.dial(label), opts)
					w.start(j, func(ctx context.Context, turn *schedule.Turn) error {
						if late := time.Since(turn.Tick); late < 0 || late > 100*time.Millisecond {
							t.Errorf("tick %v ran %v after its time", turn.Tick, late)
						}
						return w.note(label, 0)(ctx, turn)
					})
				}
				time.Sleep(10 * time.Minute)
				w.mustTick("map[1:1 2:1 3:1 4:1 5:1 6:1 7:1 8:1 9:1 10:1]")
				last, ok := w.status(j).Last()
				if !ok || last.Outcome != schedule.Done || !last.Tick.Equal(w.begun.Add(10*time.Minute)) || last.Owner == "" || last.PID == 0 || last.Ended.Before(last.Started) {
					t.Errorf("the status is %+v", last)
				}
			})
		})
	}
}

// TestCrash: if a replica crashes in a run, the run is reported as unfinished. The tick runs again
// if the job runs at least once, and otherwise not.
func TestCrash(t *testing.T) {
	for _, opts := range []schedule.Options{{}, {AtLeastOnce: true}, {Overlap: schedule.OverlapSkip}, {Overlap: schedule.OverlapBeside}} {
		t.Run(fmt.Sprintf("%+v", opts), func(t *testing.T) {
			simulate(t, func(w *world) {
				a, b := w.job(w.dial("a"), opts), w.job(w.dial("b"), opts)
				w.start(a, w.note("a", 30*time.Second))
				time.Sleep(60 * time.Second)
				w.start(b, w.note("b", 0)) // b is second in the queue
				time.Sleep(time.Second)
				iferr.Fatal(t, w.Partition("a"))
				if s, _ := w.status(b).Last(); s.Outcome != schedule.Running || s.Owner != "a" {
					t.Errorf("while it runs: %+v", s)
				}
				time.Sleep(ttl + grace + 5*time.Second)
				s, _ := w.status(b).Last()
				if want := map[bool]schedule.Outcome{false: schedule.Unfinished, true: schedule.Done}[opts.AtLeastOnce]; s.Outcome != want {
					t.Errorf("after the crash: %+v, want it %s", s, want)
				}
				time.Sleep(time.Minute)
				w.Heal("a")
				time.Sleep(3 * time.Minute)
				want := 1
				if opts.AtLeastOnce {
					want = 2
				}
				got := w.ticks()
				if got[1] != want || got[2] != 1 || got[3] != 1 || got[4] != 1 {
					t.Errorf("the ticks ran %v times, want the first %d times", got, want)
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				if i := slices.IndexFunc(w.reported, func(r schedule.Run) bool { return r.Outcome == schedule.Unfinished }); i < 0 {
					t.Error("the crash was not reported")
				}
				if second := w.runs[1]; opts.AtLeastOnce && (second.attempt != 2 || second.token.Compare(w.runs[0].token) <= 0) {
					t.Errorf("the second attempt is %+v, after %+v", second, w.runs[0])
				}
			})
		})
	}
}

// TestCrashIsReportedInDoubt: if a replica is cut off while it records the crash of another
// replica, the replica that was cut off still reports the crash, and only once.
func TestCrashIsReportedInDoubt(t *testing.T) {
	simulate(t, func(w *world) {
		w.start(w.job(w.dial("a"), schedule.Options{}), w.note("a", time.Hour))
		time.Sleep(60 * time.Second)
		told := 0 // reports by b
		report := func(r schedule.Run) {
			if r.Owner == "a" && r.Outcome == schedule.Unfinished {
				told++
			}
		}
		w.start(w.job(w.dial("b", lock.WithSessionTimeout(time.Minute)), schedule.Options{Report: report}), w.note("b", 0))
		time.Sleep(time.Second)
		iferr.Fatal(t, w.Partition("a"))
		cut := false
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if cut || r.Label != "b" || r.Op != "multi" || !ofRecord(r) {
				return locktest.Fault{}
			}
			cut = true
			iferr.Error(t, w.Partition("b"))
			return locktest.Fault{Delay: time.Second} // it is applied, and b gets no reply
		})
		time.Sleep(40 * time.Second)
		w.Heal("b")
		time.Sleep(20 * time.Second)
		if !cut || told != 1 {
			t.Errorf("cut off %v, told %d times", cut, told)
		}
	})
}

// TestCrashedWaiter: a replica that crashes while it waits for another replica's run delays no tick.
func TestCrashedWaiter(t *testing.T) {
	simulate(t, func(w *world) {
		for _, label := range []string{"a", "b", "c"} { // they wait in this order
			w.start(w.job(w.dial(label), schedule.Options{}), func(ctx context.Context, turn *schedule.Turn) error {
				if late := time.Since(turn.Tick); late > time.Second {
					t.Errorf("tick %v ran %v after its time", turn.Tick, late)
				}
				return w.note(label, 55*time.Second)(ctx, turn)
			})
			time.Sleep(time.Second)
		}
		time.Sleep(time.Until(w.begun.Add(time.Minute + 54*time.Second)))
		w.mu.Lock()
		runs := w.runs[0].replica
		w.mu.Unlock()
		for _, label := range []string{"a", "b", "c"} {
			if label != runs {
				iferr.Fatal(t, w.Partition(label))
				break
			}
		}
		time.Sleep(time.Minute)
		w.mustTick("map[1:1 2:1]")
	})
}

// TestCost: a tick of five replicas takes at most the number of requests that the doc of package
// schedule states.
func TestCost(t *testing.T) {
	simulate(t, func(w *world) {
		for i := range 5 {
			label := fmt.Sprint("replica", i)
			w.start(w.job(w.dial(label), schedule.Options{}), w.note(label, 0))
		}
		time.Sleep(10 * time.Minute)
		var mu sync.Mutex
		requests := map[string]int{}
		w.Intercept(func(r locktest.Request) locktest.Fault {
			mu.Lock()
			defer mu.Unlock()
			requests[r.Label+" "+r.Op]++
			requests["total"]++
			return locktest.Fault{}
		})
		const ticks = 20
		time.Sleep(ticks * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if requests["total"] > ticks*(14+4*3) {
			t.Errorf("%d ticks took %v", ticks, requests)
		}
	})
}

// TestLateRecord: a record that arrives when its replica has lost the job changes nothing. The
// tick, which another replica has run meanwhile, runs once.
func TestLateRecord(t *testing.T) {
	simulate(t, func(w *world) {
		opts := schedule.Options{AtLeastOnce: true}
		w.start(w.job(w.dial("a", lock.WithSessionTimeout(time.Minute)), opts), w.note("a", 0)) // else the servers refuse the record
		time.Sleep(58 * time.Second)
		delayed := false
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if delayed || r.Label != "a" || !ofRecord(r) || r.Op == "getData" {
				return locktest.Fault{}
			}
			delayed = true
			iferr.Error(t, w.Partition("a")) // the replica does not reconnect before
			return locktest.Fault{Delay: ttl + grace + 10*time.Second}
		})
		time.Sleep(2 * time.Second)
		w.start(w.job(w.dial("b"), opts), w.note("b", 0)) // b is second in the queue
		time.Sleep(48 * time.Second)
		w.Heal("a")
		time.Sleep(2 * time.Minute)
		w.mustTick("map[1:1 2:1 3:1]")
		if !delayed {
			t.Error("no record was delayed")
		}
	})
}

// TestRecordIsRetried: if the connection fails seven times while a run's end is recorded, or the server
// does, but the hold lasts, the end is recorded.
func TestRecordIsRetried(t *testing.T) {
	for name, fault := range map[string]locktest.Fault{"the connection": {Drop: locktest.BeforeApply}, "the server": {Code: -1}} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				j := w.job(w.dial("a"), schedule.Options{AtLeastOnce: true})
				w.start(j, w.note("a", time.Second))
				time.Sleep(59*time.Second + 500*time.Millisecond) // the run has begun
				failed := 0
				w.Intercept(func(r locktest.Request) locktest.Fault {
					if failed == 7 || r.Op != "multi" || !ofRecord(r) {
						return locktest.Fault{}
					}
					failed++
					return fault
				})
				time.Sleep(20 * time.Second)
				w.mustTick("map[1:1]")
				if last, _ := w.status(j).Last(); failed != 7 || last.Outcome != schedule.Done {
					t.Errorf("%d requests failed, the status is %+v", failed, last)
				}
			})
		})
	}
}

// TestOverlap: during a run of two and a half minutes, OverlapWait keeps the ticks for later,
// OverlapSkip skips them, and OverlapBeside runs them beside that run.
func TestOverlap(t *testing.T) {
	for overlap, want := range map[schedule.Overlap][]int{
		schedule.OverlapWait:   {1, 2, 3, 4},
		schedule.OverlapSkip:   {1, 4, 7, 10},
		schedule.OverlapBeside: {1, 2, 3, 4},
	} {
		t.Run(overlap.String(), func(t *testing.T) {
			simulate(t, func(w *world) {
				var j *schedule.Job
				for i := range 3 {
					label := fmt.Sprint("replica", i)
					j = w.job(w.dial(label), schedule.Options{Overlap: overlap})
					w.start(j, w.note(label, 150*time.Second))
				}
				time.Sleep(10*time.Minute + 30*time.Second)
				got := w.order()
				if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
					t.Errorf("ran %v, want %v", got, want)
				}
				running := 0
				s := w.status(j)
				for _, r := range s.Runs {
					if r.Outcome == schedule.Running {
						running++
					}
				}
				if most := map[schedule.Overlap]int{schedule.OverlapBeside: 2}; running != max(1, most[overlap]) {
					t.Errorf("%d are running: %+v", running, s.Runs)
				}
				if (s.Skipped != nil) != (overlap == schedule.OverlapSkip) {
					t.Errorf("skipped: %+v", s.Skipped)
				}
			})
		})
	}
}

// TestMissed: of the ticks that pass while no replica runs, the job runs those that Missed selects.
// Ticks that are late, but not missed, run in any case.
func TestMissed(t *testing.T) {
	for missed, want := range map[schedule.Missed][]int{
		schedule.Skip:    {9, 10, 11},
		schedule.RunLast: {9, 10, 11},
		schedule.RunAll:  {5, 6, 7, 8, 9, 10, 11},
	} {
		t.Run(missed.String(), func(t *testing.T) {
			simulate(t, func(w *world) {
				j := w.job(w.dial("a"), schedule.Options{Missed: missed, Limit: 4})
				stop := w.start(j, w.note("a", 0))
				time.Sleep(time.Second)
				stop() // the job has begun, and no tick has come
				time.Sleep(10*time.Minute + 10*time.Second)
				w.start(j, w.note("a", 0))
				time.Sleep(time.Minute)
				if got := w.order(); !slices.Equal(got, want) {
					t.Errorf("ran %v, want %v", got, want)
				}
			})
		})
	}
}

// TestStoppedInARun: the only replica stops or crashes in a run, and another replica starts hours
// later. Missed ticks do not run; ticks that are only late do.
func TestStoppedInARun(t *testing.T) {
	for _, opts := range []schedule.Options{{}, {Missed: schedule.RunLast}, {AtLeastOnce: true}, {AtLeastOnce: true, Overlap: schedule.OverlapSkip}} {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprintf("%+v, crash %v", opts, crash), func(t *testing.T) {
				simulate(t, func(w *world) {
					stop := w.start(w.job(w.dial("a"), opts), w.note("a", 4*time.Hour))
					time.Sleep(3*time.Minute + 30*time.Second) // a tick has run, and two wait
					if crash {
						iferr.Fatal(t, w.Partition("a"))
					}
					stop()
					time.Sleep(time.Until(w.begun.Add(120*time.Minute + 30*time.Second)))
					w.start(w.job(w.dial("b"), opts), w.note("b", 0))
					time.Sleep(time.Minute)
					want := "map[1:1 119:1 120:1 121:1]"
					if opts.AtLeastOnce {
						want = "map[1:2 119:1 120:1 121:1]"
					}
					w.mustTick(want)
				})
			})
		}
	}
}

// TestOnce: programs that are started at about the time of a tick run it once, although some are
// early and some late.
func TestOnce(t *testing.T) {
	simulate(t, func(w *world) {
		for minute := 1; minute < 4; minute++ {
			var all sync.WaitGroup
			for i, off := range []time.Duration{-20 * time.Second, -time.Millisecond, 0, 50 * time.Millisecond, 20 * time.Second} {
				time.Sleep(time.Until(w.begun.Add(time.Duration(minute)*time.Minute + off)))
				j := w.job(w.dial(fmt.Sprintf("%d-%d", minute, i)), schedule.Options{})
				all.Go(func() {
					iferr.Error(t, j.Once(w.Ctx, w.note(fmt.Sprint(i), 0)))
				})
			}
			all.Wait()
		}
		w.mustTick("map[1:1 2:1 3:1]")
	})
}

// TestOnceIsNew: a new job that is started a second after a tick runs this tick, and only once.
func TestOnceIsNew(t *testing.T) {
	simulate(t, func(w *world) {
		for range 2 {
			iferr.Error(t, w.job(w.dial("a"), schedule.Options{}).Once(w.Ctx, w.note("a", 0)))
		}
		w.mustTick("map[0:1]")
	})
}

// TestSkippedIsReported: a tick that is missed, or comes during a run, is reported as skipped, once. A
// tick from before a change of the schedule is not.
func TestSkippedIsReported(t *testing.T) {
	simulate(t, func(w *world) {
		time.Sleep(2 * time.Hour)
		c := w.dial("a")
		job := func(name string, s schedule.Schedule, opts schedule.Options) *schedule.Job {
			opts.Report = func(run schedule.Run) { w.reported = append(w.reported, run) }
			j, err := schedule.New(c, name, s, opts)
			iferr.Fatal(t, err)
			return j
		}
		once := func(j *schedule.Job, lasts time.Duration) {
			t.Helper()
			iferr.Error(t, j.Once(w.Ctx, w.note("a", lasts)))
		}
		says := func(outcome schedule.Outcome, tick time.Time, text string) {
			t.Helper()
			if len(w.reported) == 0 {
				t.Fatalf("no report of %s", text)
			}
			if run := w.reported[0]; run.Outcome != outcome || !run.Tick.Equal(tick) || !strings.Contains(run.Error, text) {
				t.Errorf("reported %+v, want %s at %v, %q", run, outcome, tick, text)
			}
			w.reported = w.reported[1:]
		}
		wrongZone, err := cron.ParseStandard(fmt.Sprintf("%d %d * * *", w.begun.UTC().Minute(), w.begun.UTC().Hour()))
		iferr.Fatal(t, err)
		for range 2 {
			once(job("zone", wrongZone, schedule.Options{}), 0)
		}
		says(schedule.NotRun, w.begun, "missed")

		skips := job("overlap", minutely, schedule.Options{Overlap: schedule.OverlapSkip})
		once(skips, 145*time.Second)
		once(skips, 0)
		says(schedule.Done, w.begun.Add(2*time.Hour), "")
		says(schedule.NotRun, w.begun.Add(2*time.Hour+2*time.Minute), "overlap")
		w.reported = nil

		once(job("changed", wrongZone, schedule.Options{}), 0)
		w.reported = nil
		once(job("changed", minutely, schedule.Options{}), 0)
		for _, run := range w.reported {
			if run.Outcome == schedule.NotRun {
				t.Errorf("reported %+v", run)
			}
		}
	})
}

// TestOnceBehindALongRun: a call of Once that waits for another replica's run returns when the run has
// ended, even if the next tick is then nearer than the tick of the run.
func TestOnceBehindALongRun(t *testing.T) {
	simulate(t, func(w *world) {
		w.start(w.job(w.dial("a"), schedule.Options{}), w.note("a", 40*time.Second))
		time.Sleep(60 * time.Second)
		iferr.Error(t, w.job(w.dial("b"), schedule.Options{}).Once(w.Ctx, w.note("b", 0)))
		if now := time.Since(w.begun); now > 101*time.Second {
			t.Errorf("Once waited until %v, for a run that ended at 1m40s", now)
		}
	})
}

// TestOnceOfALongRun: a call of Once whose run lasts longer than the interval returns after the run,
// and runs no other tick.
func TestOnceOfALongRun(t *testing.T) {
	simulate(t, func(w *world) {
		ctx, cancel := context.WithTimeout(w.Ctx, 10*time.Minute)
		defer cancel()
		iferr.Error(t, w.job(w.dial("a"), schedule.Options{}).Once(ctx, w.note("a", 90*time.Second)))
		w.mustTick("map[0:1]")
	})
}

// TestWrapper: five crons, each with the wrapper, run each tick once.
func TestWrapper(t *testing.T) {
	simulate(t, func(w *world) {
		for i := range 5 {
			j := w.job(w.dial(fmt.Sprint("replica", i)), schedule.Options{})
			c := cron.New(cron.WithLocation(time.UTC))
			c.Schedule(minutely, cron.NewChain(j.Wrapper(w.Ctx, func(err error) { t.Error(err) })).Then(cron.FuncJob(func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.runs = append(w.runs, ran{tick: time.Now()})
			})))
			c.Start()
			w.Cleanup(func() { <-c.Stop().Done() })
		}
		time.Sleep(5*time.Minute + 30*time.Second)
		w.mustTick("map[1:1 2:1 3:1 4:1 5:1]")
	})
}

// TestClockSetBack: if the leader's clock is set back by three minutes, each tick still runs once.
func TestClockSetBack(t *testing.T) {
	simulate(t, func(w *world) {
		j := w.job(w.dial("a"), schedule.Options{})
		w.start(j, w.note("a", 0))
		time.Sleep(5 * time.Minute)
		w.StepClock(-3 * time.Minute)
		time.Sleep(10 * time.Minute)
		w.mustTick("map[1:1 2:1 3:1 4:1 5:1 6:1 7:1 8:1 9:1 10:1 11:1 12:1]")
	})
}

// TestClockSetForwardInAWait: a replica that waits for the lock decides by the leader's clock as it is when it
// has the lock, not by what it knew while it waited: it runs no tick that is older than Late by then. So does
// one that gets the hold from the other within its process, which asks no server.
func TestClockSetForwardInAWait(t *testing.T) {
	for _, second := range []string{"a", "b"} {
		t.Run(second, func(t *testing.T) {
			simulate(t, func(w *world) {
				clients := map[string]*lock.Client{"a": w.dial("a"), "b": w.dial("b")}
				a, b := w.job(clients["a"], schedule.Options{}), w.job(clients[second], schedule.Options{})
				w.start(a, func(ctx context.Context, turn *schedule.Turn) error {
					err := w.note("a", 65*time.Second)(ctx, turn)
					w.StepClock(3 * time.Minute)
					return err
				})
				time.Sleep(2 * time.Minute)
				w.start(b, w.note("b", time.Hour))
				time.Sleep(time.Minute)
				w.mustTick("map[1:1 4:1]") // it is five minutes later, and DefaultLate is more than one
			})
		})
	}
}

// TestOnceInAnOutage: Once waits out an outage in which its hold ends before the tick is recorded.
func TestOnceInAnOutage(t *testing.T) {
	simulate(t, func(w *world) {
		j, cut := w.job(w.dial("a"), schedule.Options{}), false
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if cut || r.Op != "multi" || !ofRecord(r) {
				return locktest.Fault{}
			}
			cut = true
			iferr.Error(t, w.Partition("a"))
			time.AfterFunc(ttl+20*time.Second, func() { w.Heal("a") })
			return locktest.Fault{Drop: locktest.BeforeApply}
		})
		time.Sleep(40 * time.Second)
		if err := j.Once(w.Ctx, w.note("a", 0)); err != nil || !cut {
			t.Errorf("cut %v, %v", cut, err)
		}
		w.mustTick("map[1:1]")
	})
}

// TestFailure: if the function returns an error, the error is recorded, and the tick does not run again.
func TestFailure(t *testing.T) {
	for _, atLeastOnce := range []bool{false, true} {
		t.Run(fmt.Sprint(atLeastOnce), func(t *testing.T) {
			simulate(t, func(w *world) {
				j := w.job(w.dial("a"), schedule.Options{AtLeastOnce: atLeastOnce})
				w.start(j, func(ctx context.Context, turn *schedule.Turn) error {
					return errors.Join(w.note("a", 0)(ctx, turn), errors.New("the disk is full"))
				})
				time.Sleep(90 * time.Second)
				w.mustTick("map[1:1]")
				if last, _ := w.status(j).Last(); last.Outcome != schedule.Failed || last.Error != "the disk is full" {
					t.Errorf("the status is %+v", last)
				}
			})
		})
	}
}

// TestInterrupted: if a job runs at least once and a replica stops during a run, another replica runs
// the tick again at once.
func TestInterrupted(t *testing.T) {
	simulate(t, func(w *world) {
		opts := schedule.Options{AtLeastOnce: true}
		stop := w.start(w.job(w.dial("a"), opts), w.note("a", time.Hour))
		time.Sleep(60 * time.Second)
		w.start(w.job(w.dial("b"), opts), w.note("b", 0))
		time.Sleep(8 * time.Second)
		stop()
		time.Sleep(time.Second)
		if got := w.ticks(); got[1] != 2 {
			t.Errorf("the ticks ran %v times, want the first one twice", got)
		}
	})
}

// TestPanic: if the function panics, Once panics too, the job is unlocked, and its run is recorded as
// unfinished.
func TestPanic(t *testing.T) {
	simulate(t, func(w *world) {
		c := w.dial("a")
		j := w.job(c, schedule.Options{})
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_ = j.Once(w.Ctx, func(context.Context, *schedule.Turn) error { panic("oops") })
		}()
		synctest.Wait()
		if held := c.Stats().Holds; held != 0 {
			t.Errorf("%d locks are held", held)
		}
		if last, _ := w.status(j).Last(); last.Outcome != schedule.Unfinished {
			t.Errorf("the status is %+v", last)
		}
	})
}

// TestClosedClient: Run ends soon after its client is closed, between two ticks and in a run.
func TestClosedClient(t *testing.T) {
	for _, after := range []time.Duration{2 * time.Second, 70 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			simulate(t, func(w *world) {
				c := w.dial("a")
				j, done := w.job(c, schedule.Options{}), make(chan error, 1)
				go func() { done <- j.Run(w.Ctx, w.note("a", time.Hour)) }()
				time.Sleep(after)
				iferr.Error(t, c.Close())
				closed := time.Now()
				bubble.MustBe(t, <-done, lock.ErrClosed)
				if late := time.Since(closed); late > time.Second {
					t.Errorf("Run ended %v after its client", late)
				}
			})
		})
	}
}

// TestNoTick: Run and Once of a schedule without a further tick return ErrNoTick. The last tick
// still runs.
func TestNoTick(t *testing.T) {
	simulate(t, func(w *world) {
		c := w.dial("a")
		newYear, err := cron.ParseStandard("0 0 30 2 *")
		iferr.Fatal(t, err)
		for name, ticks := range map[string]schedule.Schedule{"never": newYear, "over": once(time.Now().Add(time.Minute))} {
			j, err := schedule.New(c, name, ticks, schedule.Options{})
			iferr.Fatal(t, err)
			bubble.MustBe(t, j.Run(w.Ctx, w.note(name, 0)), schedule.ErrNoTick)
		}
		if len(w.runs) != 1 || w.runs[0].replica != "over" {
			t.Errorf("ran %+v", w.runs)
		}
		j, err := schedule.New(c, "never", newYear, schedule.Options{})
		iferr.Fatal(t, err)
		bubble.MustBe(t, j.Once(w.Ctx, w.note("never", 0)), schedule.ErrNoTick)
	})
}

// once is a schedule with one tick.
type once time.Time

func (o once) Next(t time.Time) time.Time {
	if t.Before(time.Time(o)) {
		return time.Time(o)
	}
	return time.Time{}
}

// TestForget: Forget deletes the record of the job, and no other record. While the job runs, Forget
// returns ErrHeld.
func TestForget(t *testing.T) {
	simulate(t, func(w *world) {
		c := w.dial("a")
		for _, name := range []string{"a", "a/b"} {
			j, err := schedule.New(c, name, minutely, schedule.Options{})
			iferr.Fatal(t, err)
			if err := j.Once(w.Ctx, func(context.Context, *schedule.Turn) error {
				bubble.MustBe(t, schedule.Forget(w.Ctx, w.dial("other of "+name), "", name), lock.ErrHeld)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		for i, want := range [][]string{{"a/b"}, {}} {
			name := []string{"a", "a/b"}[i]
			iferr.Error(t, schedule.Forget(w.Ctx, c, "", name))
			bubble.MustBe(t, schedule.Forget(w.Ctx, c, "", name), zk.ErrNoNode)
			all, err := schedule.List(w.Ctx, c, "")
			got := []string{}
			for _, s := range all {
				got = append(got, s.Job)
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("after %q: %q, %v", name, got, err)
			}
		}
		z := w.Plain("other", time.Minute, zk.NewDNSHostProvider())
		iferr.Fatal(t, iferr.Of(z.Create(schedule.DefaultPath+"/foreign", []byte("x"), 0, zk.WorldACL(zk.PermAll))))
		bubble.MustSay(t, schedule.Forget(w.Ctx, c, "", "foreign"), "not the record of a job")
		beside := w.job(c, schedule.Options{Overlap: schedule.OverlapBeside})
		if err := beside.Once(w.Ctx, func(context.Context, *schedule.Turn) error {
			time.Sleep(time.Second) // the job's own lock is not held any more
			bubble.MustBe(t, schedule.Forget(w.Ctx, c, "", beside.Name()), lock.ErrHeld)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		iferr.Error(t, schedule.Forget(w.Ctx, c, "", beside.Name()))
		bubble.MustBe(t, schedule.Forget(w.Ctx, c, "", "/a"), lock.ErrInvalid)
	})
}

// TestRecordsBelongToTheClient: records have the client's ACL, and ancestors are created.
func TestRecordsBelongToTheClient(t *testing.T) {
	simulate(t, func(w *world) {
		c := w.dial("a", lock.WithDigest("shop", "secret"))
		j := w.job(c, schedule.Options{Path: "/a/b/jobs"})
		w.start(j, w.note("a", 0))
		time.Sleep(time.Minute)
		for _, path := range []string{"/a", "/a/b/jobs", "/a/b/jobs/nightly/export"} {
			if n, ok := w.Node(path); !ok || len(n.ACL) != 1 || n.ACL[0].Scheme != "digest" {
				t.Errorf("%s: %v, %+v", path, ok, n.ACL)
			}
		}
	})
}

// TestUnusableRecord: Run ends if the record is damaged, or the client may not read it.
func TestUnusableRecord(t *testing.T) {
	for _, acl := range [][]zk.ACL{zk.WorldACL(zk.PermAll), zk.DigestACL(zk.PermAll, "other", "secret")} {
		t.Run(acl[0].Scheme, func(t *testing.T) {
			simulate(t, func(w *world) {
				c := w.dial("a")
				j := w.job(c, schedule.Options{Path: "/jobs"})
				z := w.Plain("other", time.Minute, zk.NewDNSHostProvider())
				for _, path := range []string{"/jobs", "/jobs/nightly", "/jobs/nightly/export"} {
					nodes := zk.WorldACL(zk.PermAll)
					if path == "/jobs/nightly/export" {
						nodes = acl
					}
					iferr.Fatal(t, iferr.Of(z.Create(path, []byte("x"), 0, nodes)))
				}
				ctx, cancel := context.WithCancel(w.Ctx)
				defer cancel()
				var requests atomic.Int32
				w.Intercept(func(locktest.Request) locktest.Fault {
					if requests.Add(1) == 1000 {
						cancel()
					}
					return locktest.Fault{}
				})
				err := j.Run(ctx, w.note("a", 0))
				if errors.Is(err, context.Canceled) {
					t.Errorf("Run goes on after %d requests", requests.Load())
				}
				if acl[0].Scheme == "digest" {
					_, status := j.Status(w.Ctx)
					for _, err := range []error{err, status, schedule.Forget(w.Ctx, c, "/jobs", j.Name())} {
						bubble.MustBe(t, err, lock.ErrDenied)
					}
				} else {
					bubble.MustSay(t, err, "not the record of a job")
				}
			})
		})
	}
}

// TestDamagedDuringTheRun: if the record is damaged when a run ends, the hold is given back at once, and Run ends.
func TestDamagedDuringTheRun(t *testing.T) {
	simulate(t, func(w *world) {
		j := w.job(w.dial("a"), schedule.Options{})
		ended := make(chan error)
		go func() { ended <- j.Run(w.Ctx, w.note("a", time.Second)) }()
		time.Sleep(time.Until(w.begun.Add(time.Minute + time.Second/2)))
		iferr.Fatal(t, iferr.Of(w.Plain("other", time.Minute, zk.NewDNSHostProvider()).Set(schedule.DefaultPath+"/nightly/export", []byte("x"), -1)))
		bubble.MustSay(t, <-ended, "not the record of a job")
		if ran := time.Since(w.begun); ran > time.Minute+2*time.Second {
			t.Errorf("Run ended %v after the tick", ran-time.Minute)
		}
	})
}

func TestList(t *testing.T) {
	simulate(t, func(w *world) {
		c := w.dial("a")
		if all, err := schedule.List(w.Ctx, c, ""); err != nil || len(all) > 0 {
			t.Errorf("of none: %v, %v", all, err)
		}
		for _, name := range []string{"b", "a/b", "a"} {
			j, err := schedule.New(c, name, minutely, schedule.Options{})
			iferr.Fatal(t, err)
			iferr.Fatal(t, j.Once(w.Ctx, w.note("a", 0)))
		}
		all, err := schedule.List(w.Ctx, c, "")
		var names []string
		for _, s := range all {
			names = append(names, s.Job)
			if s.Next.IsZero() || !s.Next.After(s.Upto) || len(s.Runs) != 1 {
				t.Errorf("%+v", s)
			}
		}
		if want := []string{"a", "a/b", "b"}; err != nil || !slices.Equal(names, want) {
			t.Errorf("jobs %q, %v, want %q", names, err, want)
		}
		z := w.Plain("other", time.Minute, zk.NewDNSHostProvider())
		iferr.Fatal(t, iferr.Of(z.Create(schedule.DefaultPath+"/foreign", []byte("x"), 0, zk.WorldACL(zk.PermAll))))
		if all, err = schedule.List(w.Ctx, c, ""); len(all) != 3 || err == nil {
			t.Errorf("with a foreign node: %d jobs, %v", len(all), err)
		}
	})
}

// TestDenied: if the ACL above the records denies their creation, Run ends with an error that names the
// node.
func TestDenied(t *testing.T) {
	simulate(t, func(w *world) {
		z := w.Plain("admin", time.Minute, zk.NewDNSHostProvider())
		iferr.Fatal(t, z.AddAuth("digest", []byte("admin:secret")))
		iferr.Fatal(t, iferr.Of(z.Create("/private", nil, 0, append(zk.AuthACL(zk.PermAll), zk.WorldACL(zk.PermRead)...))))
		j := w.job(w.dial("a"), schedule.Options{Path: "/private/jobs"})
		ctx, cancel := context.WithTimeout(w.Ctx, time.Minute)
		defer cancel()
		err := j.Run(ctx, w.note("a", 0))
		bubble.MustBe(t, err, lock.ErrDenied)
		if err != nil && !strings.Contains(err.Error(), "/private/jobs") {
			t.Errorf("the error does not name the node: %v", err)
		}
		t.Log(err)
	})
}

// TestErrorThatPasses: Run tries again after an error of the servers that can pass.
func TestErrorThatPasses(t *testing.T) {
	for name, code := range map[string]int32{"the server failed": -1, "a quota is exceeded": -125} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				var fails atomic.Bool
				w.Intercept(func(r locktest.Request) locktest.Fault {
					if fails.Load() && (r.Op == "multi" || code == -1 && strings.HasPrefix(r.Op, "get")) {
						return locktest.Fault{Code: code}
					}
					return locktest.Fault{}
				})
				w.start(w.job(w.dial("a"), schedule.Options{}), w.note("a", 0))
				time.Sleep(90 * time.Second)
				fails.Store(true)
				time.Sleep(time.Minute)
				fails.Store(false)
				time.Sleep(2 * time.Minute)
				w.mustTick("map[1:1 2:1 3:1 4:1]")
			})
		})
	}
}

// TestInvalid: an error names the argument, its value and the rule.
func TestInvalid(t *testing.T) {
	simulate(t, func(w *world) {
		c := w.dial("a")
		var none context.Context
		for says, err := range map[string]error{
			"client nil: must come from lock.Dial":        iferr.Of(schedule.New(nil, "a", minutely, schedule.Options{})),
			"schedule nil: must not be nil":               iferr.Of(schedule.New(c, "a", nil, schedule.Options{})),
			`job: lock name "/a": must not start`:         iferr.Of(schedule.New(c, "/a", minutely, schedule.Options{})),
			"missed 7: must be Skip":                      iferr.Of(schedule.New(c, "a", minutely, schedule.Options{Missed: 7})),
			"overlap 7: must be OverlapWait":              iferr.Of(schedule.New(c, "a", minutely, schedule.Options{Overlap: 7})),
			"overlap beside: must not be given with":      iferr.Of(schedule.New(c, "a", minutely, schedule.Options{Overlap: schedule.OverlapBeside, AtLeastOnce: true})),
			"limit -1: must be within 1..1000":            iferr.Of(schedule.New(c, "a", minutely, schedule.Options{Limit: -1})),
			"late -1s: must be positive":                  iferr.Of(schedule.New(c, "a", minutely, schedule.Options{Late: -time.Second})),
			"path /locks/jobs: must be apart from":        iferr.Of(schedule.New(c, "a", minutely, schedule.Options{Path: "/locks/jobs"})),
			`path: root "jobs": must start with a slash`:  iferr.Of(schedule.New(c, "a", minutely, schedule.Options{Path: "jobs"})),
			"ttl 1ms: must be at least":                   iferr.Of(schedule.New(c, "a", minutely, schedule.Options{Lock: []lock.LockOption{lock.WithTTL(time.Millisecond)}})),
			`missed "never": must be one of skip, last`:   iferr.Of(schedule.ParseMissed("never")),
			`overlap "never": must be one of wait, skip,`: iferr.Of(schedule.ParseOverlap("never")),
			"function nil: must not be nil":               w.job(c, schedule.Options{}).Run(w.Ctx, nil),
			"context <nil>: must not be nil":              w.job(c, schedule.Options{}).Run(none, w.note("a", 0)),
		} {
			bubble.MustBe(t, err, lock.ErrInvalid)
			bubble.MustSay(t, err, says)
		}
	})
}
