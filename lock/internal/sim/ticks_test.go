// Jobs of package schedule.

package sim

import (
	"context"
	"errors"
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

	"github.com/robfig/cron/v3"

	"github.com/holdfast-io/holdfast/integration/audited"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/internal/access"
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
// If the leaders' clocks are up to an hour apart, early and missed ticks are no violations.
func TestTicks(t *testing.T) {
	first, ticks := bubble.Env(t, "SEED", 1), bubble.Env(t, "TICKS", 500)
	total, slots := counts{}, make(chan struct{}, runtime.GOMAXPROCS(0))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for seed := first; seed < first+(ticks+ticksOfHistory-1)/ticksOfHistory && !t.Failed(); seed++ {
		slots <- struct{}{}
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
		if err := s.SetClock(member, between(r, -most, most)); err != nil {
			s.Error(err)
		}
	}
}

// intercept returns the fault of a request. If the fault delays a record, intercept first cuts the
// replica off, and then closes the channel from faultOf.
func (s *tickSim) intercept(q locktest.Request) locktest.Fault {
	fault, late := s.faultOf(q)
	if late != nil {
		if err := s.Partition(q.Label); err != nil { // if the replica reconnected, the server would drop the request
			s.Error(err)
		}
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

// replica runs one replica of the job, again and again with new clients.
func (s *tickSim) replica(i int, restart func() <-chan struct{}, wg *sync.WaitGroup) {
	r := random(s.seed, fmt.Sprint("replica", i))
	for life := 0; s.until.Err() == nil; life++ {
		label := fmt.Sprintf("r%d.%d", i, life)
		clock := &simClock{start: time.Now(), rate: 1 + (r.Float64()*600-300)/1e6, counts: true, offset: between(r, -24*time.Hour, 24*time.Hour)}
		client, err := lock.Dial(s.until, s.Servers(), lock.WithDialer(s.Dialer(label)),
			access.UseMachine(access.Machine{Clock: clock.now, Random: bubble.Locked(random(s.seed, "ids of "+label))}).(lock.Option),
			lock.WithTTL(s.ttl), lock.WithGrace(s.grace), lock.WithSessionTimeout(s.sessions),
			lock.WithOwner(label))
		if err != nil {
			if s.until.Err() == nil {
				s.violated("dial %s: %v", label, err)
			}
			return
		}
		var over sync.Mutex
		isKilled := false
		killed := func() bool { over.Lock(); defer over.Unlock(); return isKilled }
		ctx, cancel := context.WithCancel(s.until)
		done := make(chan struct{})
		job := s.job(client, killed)
		go func() {
			defer close(done)
			err := job.Run(ctx, s.work(label, killed, random(s.seed, "work of "+label)))
			if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
				s.violated("%s: Run: %v", label, err)
			}
		}()
		s.setLive(label, true)
		s.survive(r, label, clock, restart())
		s.awaitStorm()
		s.setLive(label, false)
		if s.until.Err() == nil && r.IntN(3) > 0 {
			s.count("kills")
			s.died()
			over.Lock()
			isKilled = true
			over.Unlock()
			if err := s.Partition(label); err != nil {
				s.Error(err)
			}
		}
		cancel()
		wg.Go(func() {
			<-done
			_ = client.Close() // the client of a killed replica cannot reach the servers
		})
		if oneIn(r, 2) {
			s.pause(r, 0, 10*time.Second)
		}
	}
}

// survive disturbs a running replica for a random time, or until restart is closed.
func (s *tickSim) survive(r *rand.Rand, label string, clock *simClock, restart <-chan struct{}) {
	end := time.After(between(r, s.ttl, 20*s.ttl))
	for {
		select {
		case <-restart:
			return
		case <-end:
			return
		case <-s.until.Done():
			return
		case <-time.After(between(r, 0, 6*s.ttl)):
		}
		if !s.awaitStorm() {
			return
		}
		s.setLive(label, false)
		switch what := r.IntN(6); what {
		case 0:
			s.count("connections cut")
			s.Cut(label)
		case 1:
			s.count("sessions expired")
			s.ExpireLabel(label)
		case 2:
			s.count("partitions")
			s.died()
			if err := s.Partition(label); err != nil {
				s.Error(err)
			}
			s.pause(r, 0, 2*s.ttl)
			s.Heal(label)
		case 3:
			s.count("stops")
			s.died()
			s.Freeze(label)
			s.pause(r, 0, 2*s.ttl)
			s.Thaw(label)
		case 4:
			s.delayRecord(r, label)
		default:
			s.count("steps of wall clocks")
			clock.step(between(r, -12*time.Hour, 12*time.Hour))
		}
		s.setLive(label, true)
	}
}

// disturb disturbs the servers, and restarts all replicas, until the end.
func (s *tickSim) disturb(r *rand.Rand, restartAll func()) {
	for s.pause(r, 0, 12*s.ttl) && s.awaitStorm() {
		switch r.IntN(4) {
		case 0:
			s.count("restarts of all replicas")
			restartAll()
		case 1:
			s.count("elections")
			s.serve(false)
			if leader := s.StopLeader(); leader != "" {
				s.pause(r, 0, s.ttl)
				if s.displaced {
					if err := s.SetClock(leader, between(r, -time.Hour, time.Hour)); err != nil {
						s.Error(err)
					}
				}
				if err := s.Start(leader); err != nil {
					s.Error(err)
				}
			}
			s.serve(true)
		case 2:
			s.count("times without a quorum")
			s.serve(false)
			for _, member := range s.Servers() {
				if err := s.Stop(member); err != nil {
					s.Error(err)
				}
			}
			s.pause(r, 0, 3*s.ttl)
			for _, member := range s.Servers() {
				if err := s.Start(member); err != nil {
					s.Error(err)
				}
			}
			s.serve(true)
		default:
			s.count("times of lost requests")
			s.serve(false)
			salt := r.Uint64()
			s.lose(func(q locktest.Request) locktest.Fault {
				switch rand.New(rand.NewPCG(salt^hash(q.Label), uint64(q.Number))).IntN(60) {
				case 0:
					return locktest.Fault{Drop: locktest.BeforeApply}
				case 1:
					return locktest.Fault{Drop: locktest.AfterApply}
				}
				return locktest.Fault{}
			})
			s.pause(r, 0, 3*s.ttl)
			s.lose(nil)
			s.serve(true)
		}
	}
}

func (s *tickSim) job(c *lock.Client, killed func() bool) *schedule.Job {
	opts := s.opts
	opts.Report = func(run schedule.Run) {
		if killed() {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tally["runs "+string(run.Outcome)]++
		switch run.Outcome {
		case schedule.Unfinished:
			s.told[run.Tick.UnixNano()] = true
			for _, known := range s.runs[run.Tick.UnixNano()] {
				if known.token.String() == run.Token && s.kept(known) {
					s.violated("the run of %v by %s is told as unfinished, which had ended, and which nothing disturbed", run.Tick, known.replica)
				}
			}
		default:
			s.recorded[run.Tick.UnixNano()] = true
		}
	}
	job, err := schedule.New(c, "job", cron.Every(s.interval), opts)
	if err != nil {
		s.Fatal(err)
	}
	return job
}

// work returns the function of a replica's job, which checks that it may run now.
func (s *tickSim) work(label string, killed func() bool, r *rand.Rand) schedule.Func {
	return func(ctx context.Context, turn *schedule.Turn) error {
		if killed() {
			return nil
		}
		run := &tickRun{replica: label, token: turn.Hold.Token(), ctx: ctx, killed: killed, began: time.Now()}
		s.begin(turn, run)
		s.mu.Lock()
		lasts := between(r, 0, s.lasts)
		s.mu.Unlock()
		var err error
		select {
		case <-time.After(lasts):
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		run.ended, run.whole = true, err == nil
		return err
	}
}

// begin checks a run when it begins, and records it.
func (s *tickSim) begin(turn *schedule.Turn, run *tickRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tick := turn.Tick.UnixNano()
	if early := time.Until(turn.Tick); early > s.grace && !s.displaced {
		s.violated("%s runs %v %v before its time", run.replica, turn.Tick, early)
	}
	if n := len(s.runs[tick]); n > 0 && !s.opts.AtLeastOnce {
		s.violated("%s runs %v, which %s has run", run.replica, turn.Tick, s.runs[tick][n-1].replica)
	}
	if s.recorded[tick] {
		s.violated("%s runs %v again, whose end was recorded", run.replica, turn.Tick)
	}
	for _, earlier := range s.runs[tick] {
		if s.kept(earlier) {
			s.violated("%s runs %v again, although the run by %s had ended, and nothing disturbed that", run.replica, turn.Tick, earlier.replica)
		}
	}
	for at, runs := range s.runs {
		for _, other := range runs {
			going := !other.ended && !other.killed() && other.ctx.Err() == nil
			if s.opts.Overlap != schedule.OverlapBeside && going {
				s.violated("%s runs %v while %s runs %v", run.replica, turn.Tick, other.replica, time.Unix(0, at))
			}
			if at == tick && run.token.Compare(other.token) <= 0 {
				s.violated("%s runs %v with token %v, after token %v", run.replica, turn.Tick, run.token, other.token)
			}
		}
	}
	s.runs[tick] = append(s.runs[tick], run)
	s.tally["runs"]++
}

// kept reports whether a run has ended by itself, and nothing has disturbed its replica since it
// began; s.mu is held.
func (s *tickSim) kept(run *tickRun) bool {
	since, undisturbed := s.since[run.replica]
	return run.whole && undisturbed && since.Before(run.began)
}

// check checks that no tick was missed that a replica could have run.
func (s *tickSim) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ticks []int64
	for tick := range s.runs {
		ticks = append(ticks, tick)
	}
	if len(ticks) == 0 {
		s.violated("no tick ran")
		return
	}
	slices.Sort(ticks)
	last := ticks[len(ticks)-1]
	if end, _ := s.until.Deadline(); !s.displaced {
		last = max(last, end.Add(-s.opts.Late).Truncate(s.interval).UnixNano())
	}
	for tick := ticks[0]; tick <= last; tick += int64(s.interval) {
		s.tally["ticks"]++
		if _, promised := s.undisturbed(time.Unix(0, tick)); promised && !s.displaced {
			s.tally["ticks that must not be missed"]++
		}
		if s.runs[tick] != nil || s.told[tick] {
			continue
		}
		if s.displaced {
			s.tally["ticks over which clocks jumped"]++
			continue
		}
		s.tally["ticks missed while none could run them"]++
		switch free, enough := s.undisturbed(time.Unix(0, tick)); {
		case enough:
			s.violated("%v was missed, although a replica and the servers were undisturbed for %v", time.Unix(0, tick).UTC(), free)
		case s.opts.Missed == schedule.RunAll && tick < ticks[len(ticks)-1]:
			s.violated("%v was missed, although a later tick ran, and all were to run", time.Unix(0, tick).UTC())
		}
	}
}

// undisturbed returns for how long a replica and the servers were undisturbed while a tick could
// start, and whether that was long enough.
func (s *tickSim) undisturbed(tick time.Time) (longest time.Duration, enough bool) {
	for _, span := range s.spans {
		from, to := span.from, span.to
		if begin := tick.Add(s.grace); from.Before(begin) { // the leader's clock may be so far off
			from = begin
		}
		if end := tick.Add(s.opts.Late - s.grace); to.After(end) {
			to = end
		}
		longest = max(longest, to.Sub(from))
	}
	return longest, longest > s.patience
}
