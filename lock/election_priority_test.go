// Elections: priorities of candidates.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// candidates returns a leader and the candidates that wait behind it, each of its own client. The
// first letter of a value is the priority: "2x" has priority two.
func (w *world) candidates(values ...string) (leader *lock.Hold, waiting map[string]<-chan taken) {
	w.Helper()
	leader = w.leads(w.campaign(w.ctx, w.dial("leader"), "leader"), "leader")
	waiting = map[string]<-chan taken{}
	for _, v := range values {
		waiting[v] = w.campaign(w.ctx, w.dial(v), v, int(v[0]-'0'))
	}
	return leader, waiting
}

// succession makes each leader resign, and returns the order of the leaders.
func (w *world) succession(leader *lock.Hold, waiting map[string]<-chan taken) string {
	w.Helper()
	var order []string
	for len(waiting) > 0 {
		ended := w.end(leader)
		w.unlock(leader)
		settle()
		settle() // until some candidates have yielded
		leader = nil
		for v, ch := range waiting {
			select {
			case got := <-ch:
				mustBeTrue(w, got.err == nil && leader == nil, "%s: %v, and %v leads", v, got.err, leader)
				w.inTurn(ended, got)
				leader = got.hold
				order = append(order, v)
				delete(waiting, v)
			default:
			}
		}
		mustBeTrue(w, leader != nil, "no leader after %q", order)
	}
	w.unlock(leader)
	return strings.Join(order, " ")
}

// TestPriorities: a candidate at the head of the queue leads if no waiting candidate has a higher
// priority. Otherwise it yields and queues again at the end. Observers do not see candidates that
// yield.
func TestPriorities(t *testing.T) {
	for waiting, want := range map[string]string{
		"1a 1b 1c":       "1a 1b 1c",
		"1a 2b":          "2b 1a",
		"1a 1b 2c":       "2c 1a 1b",
		"1a 2b 2c 1d":    "2b 2c 1d 1a",
		"1a 2b 3c":       "3c 2b 1a",
		"3a 2b 1c":       "3a 2b 1c",
		"1a 1b 9c 5d 9e": "9c 9e 5d 1a 1b",
	} {
		subtest(t, waiting, locktest.Options{}, func(w *world) {
			values := strings.Fields(waiting)
			leader, candidates := w.candidates(values...)
			seen := w.observe(w.ctx, w.dial("observer"))
			got := w.succession(leader, candidates)
			equal(w, "led in the order", got, want)
			settle()
			told := strings.Join(seen.values(), " ")
			if told = strings.ReplaceAll(told, " -", ""); told != "leader "+got {
				w.Errorf("observed %s, led %s", told, got)
			}
			w.empty()
		})
	}
}

// TestHigherCandidateDies: the candidates of higher priorities have crashed. If their leases have
// expired, another candidate leads at once, and otherwise after they have expired. All candidates
// together need at most 40 transactions.
func TestHigherCandidateDies(t *testing.T) {
	each(t, "before", []time.Duration{0, ttl + grace + time.Second}, func(w *world, before time.Duration) { // from the crash to the resignation
		leader, waiting := w.candidates("1a", "1b", "2c", "3d")
		for _, v := range []string{"2c", "3d"} {
			w.die(v, w.entryOf(v))
		}
		time.Sleep(before)
		stood := w.entryOf("1a")
		txns := w.Transactions()
		w.unlock(leader)
		died := time.Now()
		first := w.first(waiting["1a"], waiting["1b"])
		took := first.at.Sub(died)
		if before > 0 && took > 100*latency || took > ttl+grace+time.Second {
			w.Errorf("it took %v", took)
		}
		isTrue(w, before <= 0 || first.hold.EntryPath() == stood, "the first one has given way to the dead")
		atMost(w, "transactions", w.Transactions()-txns, 40)
		w.unlock(first.hold)
		first = w.first(waiting["1a"], waiting["1b"])
		for _, v := range []string{"2c", "3d"} {
			w.Heal(v)
		}
		w.unlock(first.hold)
		for range 2 { // both have lost their places, and queue again
			w.unlock(w.first(waiting["2c"], waiting["3d"]).hold)
		}
		w.empty()
	})
}

// TestHigherCandidateThatCrashLoops: if candidates of a higher priority crash again and again
// before they lead, each other candidate still leads within three times TTL and grace.
func TestHigherCandidateThatCrashLoops(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		leader, waiting := w.candidates("1a", "1b")
		ctx, stop := context.WithCancel(w.ctx)
		crashed := make(chan struct{})
		go func() {
			defer close(crashed)
			for i := 0; ctx.Err() == nil; i++ {
				label := fmt.Sprint("crash", i)
				e := w.dial(label).Election("x").WithPriority(5)
				go e.Campaign(ctx, "5x")
				time.Sleep(ttl / 2)
				w.kill(label)
			}
		}()
		time.Sleep(ttl)
		w.unlock(leader)
		begun := time.Now()
		for range waiting {
			got := w.first(waiting["1a"], waiting["1b"])
			atMost(t, "led after", time.Since(begun), 3*(ttl+grace))
			w.unlock(got.hold)
			begun = time.Now()
		}
		stop()
		<-crashed
	})
}

// TestCandidateReadsForLong: if a candidate cannot read the other entries until its own lease has
// ended, it leads only after a later write succeeds, and by the same entry.
func TestCandidateReadsForLong(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		leader := w.leads(w.campaign(w.ctx, w.dial("leader"), "leader"), "leader")
		c := w.dial("1a")
		ch := w.campaign(w.ctx, c, "1a", 1)
		stood := w.entryOf("1a")
		var looks time.Time
		w.Intercept(func(r locktest.Request) locktest.Fault {
			if r.Label == "1a" && r.Op == "sync" && looks.IsZero() {
				looks = time.Now()
			}
			slow := 2 * ttl // for so long it cannot read the queue
			if mutates(r, "1a") {
				slow += ttl // it cannot renew its entry for longer
			}
			if r.Label == "1a" && !looks.IsZero() && time.Since(looks) < slow {
				return locktest.Fault{Code: codeThrottled}
			}
			return locktest.Fault{}
		})
		w.unlock(leader)
		time.Sleep(2*ttl + ttl/2)
		w.waits(ch)
		h := w.await(ch).hold
		s := c.Stats()
		isTrue(t, h.EntryPath() == stood && s.Requeued == 0 && s.Lost == 0, "leads by %s, want %s; stats %+v", h.EntryPath(), stood, s)
		w.finish(h)
	})
}

// entryOf returns the path of the owner's entry at lock "x".
func (w *world) entryOf(owner string) string {
	w.Helper()
	for _, n := range w.entries("x") {
		if w.record(n.Path).Owner == owner {
			return n.Path
		}
	}
	w.Fatalf("%s has no entry", owner)
	return ""
}

// TestHigherCandidateGivesUp: if the candidate of the highest priority gives up at any moment while
// the other candidates yield to it, there is a next leader at once.
func TestHigherCandidateGivesUp(t *testing.T) {
	for after := time.Duration(0); after < 60*latency; after += latency {
		subtest(t, fmt.Sprint("after ", after), locktest.Options{}, func(w *world) {
			leader, waiting := w.candidates("1a", "1b")
			ctx, cancel := context.WithCancel(w.ctx)
			higher := w.campaign(ctx, w.dial("2c"), "2c", 2)
			done := make(chan struct{})
			go func() {
				w.unlock(leader)
				close(done)
			}()
			time.Sleep(after)
			cancel()
			<-done
			settle()
			settle()
			switch got := <-higher; {
			case got.err == nil:
				leader = got.hold
				w.ok(leader.Err())
				w.waits(waiting["1a"], waiting["1b"])
				w.unlock(leader)
				settle()
			case !errors.Is(got.err, context.Canceled):
				w.Error(got.err)
			}
			var first taken
			left := waiting["1a"]
			select {
			case first = <-waiting["1a"]:
				left = waiting["1b"]
			case first = <-waiting["1b"]:
			default:
				w.Fatalf("after %v: no leader", after)
			}
			w.waits(left)
			w.finish(w.pass(first.hold, left))
		})
	}
}

// TestFaultsWhileYielding: whichever of the first eight requests of a yielding candidate has an
// unknown outcome, the candidate of the higher priority leads next, and then the yielding one
// leads.
func TestFaultsWhileYielding(t *testing.T) {
	for nth := range 8 {
		forEachMishap(t, func(w *world, mishap int) {
			leader, waiting := w.candidates("1a", "2b")
			n := 0
			w.mishap(mishap, "1a", func(r locktest.Request) bool {
				n++
				return n == nth+1
			})
			w.unlock(leader)
			first := w.await(waiting["2b"])
			w.waits(waiting["1a"])
			time.Sleep(ttl)
			ended := w.end(first.hold)
			w.unlock(first.hold)
			second := w.await(waiting["1a"])
			w.inTurn(ended, second)
			w.finish(second.hold)
		})
	}
}

// TestHigherCandidateDoesNotDepose: a candidate of a higher priority does not depose the leader,
// but can request the leader's resignation. The old leader can campaign again.
func TestHigherCandidateDoesNotDepose(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a := w.dial("a")
		h := w.leads(w.campaign(w.ctx, a, "1a", 3), "1a")
		b := w.dial("b")
		ch := w.campaign(w.ctx, b, "9b", 9)
		time.Sleep(2 * ttl)
		w.waits(ch)
		w.alive(h)
		asked := h.Revoked()
		w.ok(b.Revoke(w.ctx, "x", "a better one is there"))
		r := w.hears(asked)
		equal(t, "asked by", r.Owner, "b")
		equal(t, "asked because", r.Reason, "a better one is there")
		w.unlock(h)
		again := w.campaign(w.ctx, a, "1a")
		h = w.leads(ch, "9b", a)
		w.waits(again)
		w.unlock(h)
		w.finish(w.leads(again, "1a"))
	})
}

// TestFirstCandidateOfAll: observers see the first candidate as the leader from the creation of its
// entry. The first candidate leads, although a candidate of a higher priority joins before the
// first one has the reply to its create.
func TestFirstCandidateOfAll(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		seen := w.observe(w.ctx, w.dial("observer"))
		w.SetLatency(func(label, _ string) time.Duration {
			if label == "a" {
				return 100 * time.Millisecond
			}
			return latency
		})
		first := w.campaign(w.ctx, a, "1a")
		second := w.campaign(w.ctx, b, "2b", 2)
		seen.is(t, "-", "1a")
		select {
		case <-first:
			t.Fatal("it has heard of its own create already")
		default:
		}
		h := w.await(first).hold
		time.Sleep(time.Second)
		w.alive(h)
		w.waits(second)
		seen.is(t, "-", "1a")
		w.handOver(h, second)
	})
}

// TestNoYieldToADamagedCandidate: a candidate does not yield to a damaged entry, because the entry
// may have no owner.
func TestNoYieldToADamagedCandidate(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		leader, waiting := w.candidates("1a")
		z := w.raw("others")
		damaged := w.create(z, "/locks/x/0123456789abcdef-9-lock-", "", zk.FlagSequence)
		w.unlock(w.pass(leader, waiting["1a"]))
		w.remove(z, damaged)
	})
}
