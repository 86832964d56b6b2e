// Jobs of package schedule.

package sim

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/integration/audited"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/internal/bubble"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/schedule"
)

// ticksOfHistory is the number of ticks of one history.
const ticksOfHistory = 250

// TestTicks: random histories of one job with five replicas, in virtual time, keep the promises
// below. TICKS is the number of ticks, 500 by default, and SEED the first seed. Wall clocks are up
// to a day off and step. Replicas are killed, close and start again, one by one and all together.
// Connections and sessions end, requests are lost, leaders change, and the quorum is lost.
//
//   - No tick runs more than the grace before its time.
//   - No tick runs twice, unless the job has the option AtLeastOnce.
//   - No tick is missed if the servers and a replica were undisturbed for long enough to run it.
//   - A run that ends while its replica is undisturbed is recorded as ended, and no replica reports
//     it as unfinished.
//
// If the leaders' clocks are up to an hour apart, early and missed ticks are no violations. If one of
// tickThings is missing in 10,000 or more ticks, the test fails.
func TestTicks(t *testing.T) {
	first, ticks := bubble.Env(t, "SEED", 1), bubble.Env(t, "TICKS", 500)
	total, slots := counts{}, make(chan struct{}, runtime.GOMAXPROCS(0))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for seed := first; seed < first+(ticks+ticksOfHistory-1)/ticksOfHistory; seed++ {
		if slots <- struct{}{}; t.Failed() {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				got := tickHistory(t, seed)
				mu.Lock()
				defer mu.Unlock()
				total.add(got)
			})
		})
	}
	wg.Wait()
	t.Logf("from seed %d on: %s", first, total)
	missing := slices.DeleteFunc(slices.Clone(tickThings), func(thing string) bool { return total[thing] > 0 })
	if ticks >= 10_000 && len(missing) > 0 && !t.Failed() {
		t.Errorf("what these histories should show never happened in them: %q", missing)
	}
}

// tickThings has what 10,000 ticks must show.
var tickThings = []string{
	"runs", "runs done", "runs unfinished", "ticks", "ticks that must not be missed", "ticks over which clocks jumped",
	"connections cut", "sessions expired", "partitions", "stops", "late records", "steps of wall clocks", "kills",
	"restarts of all replicas", "elections", "times without a quorum", "times of lost requests",
	"audited: tick", "audited: holder", "audited: exclusion", "audited: token", "audited: delete", "audited: purge",
}

type counts map[string]int

func (c counts) add(others counts) {
	for what, n := range others {
		c[what] += n
	}
}

func (c counts) String() string {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(c)) {
		all = append(all, fmt.Sprint(c[what], " ", what))
	}
	return strings.Join(all, ", ")
}

// tickSim is the state of one history of ticks.
type tickSim struct {
	*testing.T
	*locktest.Ensemble
	seed       uint64
	opts       schedule.Options
	interval   time.Duration
	lasts      time.Duration // of a run, at most
	ttl, grace time.Duration
	sessions   time.Duration // timeout of sessions; some outlive the lease
	displaced  bool          // leaders' clocks are up to an hour apart
	patience   time.Duration // a replica that nothing disturbs takes a tick within this time
	begun      time.Time
	until      context.Context
	stop       context.CancelFunc // ends the history

	mu       sync.Mutex
	runs     map[int64][]*tickRun // by tick
	recorded map[int64]bool       // ticks whose run was recorded as ended
	told     map[int64]bool       // ticks that were reported as unfinished
	live     map[string]bool      // replicas that nothing disturbs, by label
	since    map[string]time.Time // start of a replica's open span, by label
	served   bool
	spans    []tickSpan // spans that have ended
	tally    counts

	intercepting sync.Mutex
	lossy        func(locktest.Request) locktest.Fault // of a time of lost requests; nil: none
	late         map[string]lateRecord                 // by replica: its next record is to be late
}

// lateRecord is a record that reaches its server late, while its replica is cut off.
type lateRecord struct {
	by    time.Duration
	begun chan<- struct{} // closed when it is on its way
}

// tickRun is one call of the job's function.
type tickRun struct {
	replica string
	token   lock.Token
	ctx     context.Context
	killed  func() bool
	began   time.Time
	ended   bool
	whole   bool // the run ended by itself
}

// tickSpan is a time in which nothing disturbed a replica or the servers, and no other replica
// died. A replica behind several that die one after the other must wait for the lease of each.
type tickSpan struct{ from, to time.Time }

func tickHistory(t *testing.T, seed uint64) (result counts) {
	synctest.Test(t, func(t *testing.T) {
		r := random(seed, "ticks")
		s := &tickSim{
			T: t, seed: seed, begun: time.Now(), served: true, displaced: oneIn(r, 6),
			interval: []time.Duration{time.Second, time.Second, 2 * time.Second, 5 * time.Second}[r.IntN(4)],
			ttl:      between(r, 2*time.Second, 6*time.Second).Truncate(time.Millisecond),
			runs:     map[int64][]*tickRun{}, recorded: map[int64]bool{}, told: map[int64]bool{},
			live: map[string]bool{}, since: map[string]time.Time{}, tally: counts{}, late: map[string]lateRecord{},
		}
		s.grace = (s.ttl / 4).Truncate(time.Millisecond)
		s.sessions = max(time.Second, s.ttl/2).Truncate(time.Millisecond)
		if oneIn(r, 2) {
			s.sessions = 5 * (s.ttl + s.grace)
		}
		s.lasts = []time.Duration{0, time.Millisecond, s.interval / 2}[r.IntN(3)]
		s.patience = s.ttl + s.ttl/3 + s.grace + 4*time.Second
		s.opts = schedule.Options{
			AtLeastOnce: oneIn(r, 3), Missed: schedule.Missed(r.IntN(3)), Limit: schedule.MaxLimit, Late: s.patience * time.Duration(13+17*r.IntN(2)) / 10,
		}
		if !s.opts.AtLeastOnce && oneIn(r, 3) {
			s.opts.Overlap = schedule.OverlapBeside
		}
		s.Ensemble = locktest.Start(t, locktest.Options{
			Members: 3, Seed: seed, ElectionTime: between(r, 0, time.Second),
			Latency: func(string, string) time.Duration { return 10 * time.Microsecond },
		})
		auditor := audited.New(s.Ensemble, s.grace, func(v audit.Violation) { s.failed("audit: %v", v) })
		s.run(r)
		for rule, n := range auditor.Judged() {
			s.tally["audited: "+string(rule)] += n
		}
		result = s.tally
	})
	return result
}

func (s *tickSim) run(r *rand.Rand) {
	s.spreadClocks(r)
	s.Intercept(s.intercept)
	s.until, s.stop = context.WithTimeout(s.Context(), ticksOfHistory*s.interval)
	defer s.stop()
	var wg sync.WaitGroup
	everybody := make(chan struct{}) // closed when all are to restart
	var mu sync.Mutex
	restart := func() <-chan struct{} { mu.Lock(); defer mu.Unlock(); return everybody }
	for i := range 5 {
		wg.Go(func() { s.replica(i, restart, &wg) })
	}
	s.disturb(r, func() {
		mu.Lock()
		defer mu.Unlock()
		close(everybody)
		everybody = make(chan struct{})
	})
	<-s.until.Done()
	s.serve(true)
	wg.Wait()
	s.check()
}

// spreadClocks sets the members' clocks at random.
func (s *tickSim) spreadClocks(r *rand.Rand) {
	most := s.grace * 2 / 5
	if s.displaced {
		most = time.Hour
	}
	for _, member := range s.Servers() {
		iferr.Error(s, s.SetClock(member, between(r, -most, most)))
	}
}

// intercept returns the fault of a request. If the fault delays a record, intercept first cuts the
// replica off, and then closes the channel from faultOf.
func (s *tickSim) intercept(q locktest.Request) locktest.Fault {
	fault, late := s.faultOf(q)
	if late != nil {
		iferr.Error(s, s.Partition(q.Label)) // if the replica reconnected, the server would drop the request
		close(late)
	}
	return fault
}

// faultOf returns the fault of a request. If the fault delays a record, faultOf also returns the
// channel that the caller must close.
func (s *tickSim) faultOf(q locktest.Request) (locktest.Fault, chan<- struct{}) {
	s.intercepting.Lock()
	defer s.intercepting.Unlock()
	record := slices.ContainsFunc(q.Paths, func(p string) bool { return strings.HasPrefix(p, schedule.DefaultPath+"/") })
	if late, armed := s.late[q.Label]; armed && record && q.Op != "getData" {
		delete(s.late, q.Label)
		return locktest.Fault{Delay: late.by}, late.begun
	}
	if s.lossy != nil {
		return s.lossy(q), nil
	}
	return locktest.Fault{}, nil
}

// delayRecord delays the next record of a replica until the replica's lease has ended, and cuts the
// replica off meanwhile.
func (s *tickSim) delayRecord(r *rand.Rand, label string) {
	begun, by := make(chan struct{}), s.ttl+s.grace+between(r, 0, 2*s.ttl)
	s.intercepting.Lock()
	s.late[label] = lateRecord{by, begun}
	s.intercepting.Unlock()
	select {
	case <-begun:
		s.count("late records")
		s.died()
		s.pause(r, by, by+s.ttl)
		s.Heal(label)
	case <-time.After(3 * s.interval):
		s.intercepting.Lock()
		defer s.intercepting.Unlock()
		delete(s.late, label)
	case <-s.until.Done():
	}
}

// lose sets the fault of all requests except late records; nil ends it.
func (s *tickSim) lose(fault func(locktest.Request) locktest.Fault) {
	s.intercepting.Lock()
	defer s.intercepting.Unlock()
	s.lossy = fault
}

func (s *tickSim) pause(r *rand.Rand, least, most time.Duration) bool {
	select {
	case <-time.After(between(r, least, most)):
		return s.until.Err() == nil
	case <-s.until.Done():
		return false
	}
}

func (s *tickSim) count(thing string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally[thing]++
}

// violated fails the history, and ends it. With AUDIT_ONLY=1 it does nothing.
func (s *tickSim) violated(format string, args ...any) {
	if !audited.Only {
		s.failed(format, args...)
	}
}

func (s *tickSim) failed(format string, args ...any) {
	s.stop()
	s.Errorf("seed %d, %+v, interval %v, ttl %v: "+format, append([]any{s.seed, s.opts.Missed, s.interval, s.ttl}, args...)...)
}

// awaitStorm returns at once during a time of disturbances, and otherwise waits for the next one.
// In the calm in between no tick may be missed. awaitStorm reports false when the history is
// ending.
func (s *tickSim) awaitStorm() bool {
	storm, calm := 20*s.ttl, 3*s.ttl+2*s.patience // what a storm began may last for 3 TTLs
	if at := time.Since(s.begun) % (storm + calm); at > storm {
		select {
		case <-time.After(storm + calm - at):
		case <-s.until.Done():
		}
	}
	return s.until.Err() == nil
}

// died ends the open tickSpan of every replica and begins a new one. Other replicas may have to
// wait for the dead replica's lease, so a tick missed now is no violation.
func (s *tickSim) died() {
	s.mu.Lock()
	defer s.mu.Unlock()
	served := s.served
	for _, s.served = range []bool{false, served} {
		for label := range s.live {
			s.update(label)
		}
	}
}

// setLive records whether a replica is undisturbed.
func (s *tickSim) setLive(label string, live bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[label] = live
	s.update(label)
}

// serve records whether the servers serve all requests.
func (s *tickSim) serve(served bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served = served
	for label := range s.live {
		s.update(label)
	}
}

// update begins or ends the present span of a replica; s.mu is held.
func (s *tickSim) update(label string) {
	from, open := s.since[label]
	switch undisturbed := s.live[label] && s.served; {
	case undisturbed && !open:
		s.since[label] = time.Now()
	case !undisturbed && open:
		s.spans = append(s.spans, tickSpan{from, time.Now()})
		delete(s.since, label)
	}
}
