// Elections: campaign, proclaim, resign, arguments, cost.

package lock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// campaign starts a Campaign of the client with the value, and returns when the candidate is in the
// queue. The outcome has the hold of the leadership.
func (w *world) campaign(ctx context.Context, c *lock.Client, value string, priority ...int) <-chan taken {
	w.Helper()
	settle()
	before := len(w.entries("x"))
	ch := start(func() (*lock.Hold, error) {
		return holdOf(c.Election("x").WithPriority(max(1, append(priority, 1)[0])).Campaign(ctx, value))
	})
	w.until(value+" stands for election", func() bool { return len(w.entries("x")) > before })
	settle()
	return ch
}

// holdOf returns the hold of a Campaign's result.
func holdOf(l *lock.Leadership, err error) (*lock.Hold, error) {
	if err != nil {
		return nil, err
	}
	return lock.HoldOf(l), nil
}

// leader returns the value of the leader that c sees, "" if there is none.
func (w *world) leader(c *lock.Client) string {
	w.Helper()
	l, err := c.Election("x").Leader(w.ctx)
	mustBeTrue(w, err == nil || errors.Is(err, lock.ErrNoLeader), "%v", err)
	isTrue(w, (err == nil) == l.Leads && (err == nil) != (l.Token == lock.Token{}), "%+v, %v", l, err)
	return l.Value
}

func valueOf(h *lock.Hold) string { return h.Metadata()[znode.ValueKey] }

// leads checks that the candidate with the value was elected, and that the clients see it as the
// leader. It returns the hold.
func (w *world) leads(ch <-chan taken, value string, clients ...*lock.Client) *lock.Hold {
	w.Helper()
	h := w.expect(ch).hold
	got := valueOf(h)
	mustBeTrue(w, got == value, "%q leads, want %q", got, value)
	for _, c := range clients {
		equal(w, "the leader that is shown", w.leader(c), value)
	}
	return h
}

func TestElection(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		observer := w.dial("observer")
		equal(t, "the leader that is shown", w.leader(observer), "")
		election := a.Election("x", lock.WithMetadata(map[string]string{"zone": "1"})).WithPriority(3)
		first, err := election.Campaign(w.ctx, "a:80")
		w.ok(err)
		equal(t, "the leader that is shown", w.leader(observer), "a:80")
		second := w.campaign(w.ctx, b, "b:80")
		w.waits(second)
		got, err := observer.Election("x").Leader(w.ctx)
		want := lock.Candidate{Leads: true, Value: "a:80", Priority: 3, Token: first.Token(), Entry: first.EntryPath(), Owner: "a", Host: got.Host, PID: got.PID}
		isTrue(t, err == nil && got == want && got.PID != 0, "%+v, %v, want %+v", got, err, want)
		equal(t, "zone", first.Metadata()["zone"], "1")
		all, err := observer.Election("x").Candidates(w.ctx)
		if err != nil || len(all) != 2 || all[0] != want || all[1].Leads || all[1].Value != "b:80" || all[1].Priority != 1 {
			t.Errorf("candidates %+v, %v", all, err)
		}

		w.ok(first.Proclaim(w.ctx, "a:81"))
		equal(t, "the leader that is shown", w.leader(observer), "a:81")
		time.Sleep(ttl) // renewals keep the value
		equal(t, "the leader that is shown", w.leader(observer), "a:81")
		w.ok(first.Resign())
		mustBe(t, first.Proclaim(w.ctx, "late"), lock.ErrUnlocked)
		h := w.leads(second, "b:80", a, b, observer)
		isTrue(t, h.Token().Compare(first.Token()) > 0, "token %v follows %v", h.Token(), first.Token())
		w.unlock(h)
		equal(t, "the leader that is shown", w.leader(observer), "")
		w.empty()
	})
}

// TestElectionAndMutex: a mutex of the same name excludes candidates, and its holder is no leader.
func TestElectionAndMutex(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		h := w.lock(a, "x")
		ch := w.campaign(w.ctx, b, "b")
		w.waits(ch)
		equal(t, "the leader that is shown", w.leader(a), "")
		w.unlock(h)
		leader := w.leads(ch, "b", a)
		mustBe(t, second(a.Mutex("x").TryLock(w.ctx)), lock.ErrHeld)
		mustBe(t, second(leader.Detach(w.ctx, 0)), lock.ErrInvalid)
		fails(t, second(leader.Ticket()), lock.ErrInvalid, `hold of "x"`, "leadership", "resign")
		mustBe(t, b.RWMutex("x").Downgrade(w.ctx, leader), lock.ErrInvalid)
		w.alive(leader)
		mustBe(t, second(b.Election("x").Campaign(leader.Context(), "again")), lock.ErrInvalid)
		again, err := b.Mutex("x").Lock(leader.Context())
		w.ok(err)
		w.finish(leader, again)
	})
}

func TestElectionArguments(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		c := w.dial("a")
		for name, e := range map[string]*lock.Election{
			"priority 0: must be":       c.Election("x").WithPriority(0),
			"priority 1048577: must be": c.Election("x").WithPriority(lock.MaxPriority + 1),
			"\"election.value\": is":    c.Election("x", lock.WithMetadata(map[string]string{"election.value": "x"})),
			"starts":                    c.Election("/x"),
			"must come from a client":   new(lock.Election),
		} {
			_, err := e.Campaign(w.ctx, "v")
			mustBe(t, err, lock.ErrInvalid)
			if name != "starts" {
				mustSay(t, err, name)
			}
			mustBe(t, second(e.Leader(w.ctx)), lock.ErrInvalid)
			mustBe(t, second(e.Candidates(w.ctx)), lock.ErrInvalid)
			for l, err := range e.Observe(w.ctx) {
				mustBe(t, err, lock.ErrInvalid)
				isTrue(t, l == (lock.Candidate{}), "%v", l)
			}
		}
		fails(t, second(c.Election("x").Campaign(w.ctx, strings.Repeat("v", 4<<10))), lock.ErrInvalid, `value "vvvvvvvv`, "4110 bytes", "at most 4096")
		var none context.Context
		mustBe(t, second(c.Election("x").Campaign(none, "v")), lock.ErrInvalid)
		_, err := c.Mutex("x", lock.WithMetadata(map[string]string{"election.value": "x"})).Lock(w.ctx)
		mustBe(t, err, lock.ErrInvalid) // observers would take the holder for the leader
		w.hasNodes(0)
	})
}

// TestTryCampaign: TryCampaign leads if no candidate leads or waits, and all clients see that. Else it
// fails with ErrHeld, also with a higher priority, and leaves nothing behind.
func TestTryCampaign(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		first, err := a.Election("x").TryCampaign(w.ctx, "a:80")
		w.ok(err)
		equal(t, "the leader that is shown", w.leader(b), "a:80")
		for _, priority := range []int{1, 2} {
			mustBe(t, second(b.Election("x").WithPriority(priority).TryCampaign(w.ctx, "b:80")), lock.ErrHeld)
		}
		equal(t, "entries", len(w.entries("x")), 1)
		w.ok(first.Resign())
		last, err := b.Election("x").TryCampaign(w.ctx, "b:80")
		w.ok(err)
		equal(t, "the leader that is shown", w.leader(a), "b:80")
		w.ok(last.Resign())
	})
}

// TestElectionDo: Do runs the function while the candidate leads, and then resigns. The function's
// context ends when the leadership is lost.
func TestElectionDo(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, b := w.dial("a"), w.dial("b")
		wrong := errors.New("wrong")
		mustBe(t, a.Election("x").Do(w.ctx, "a:80", func(ctx context.Context) error {
			equal(t, "the leader that is shown", w.leader(b), "a:80")
			return wrong
		}), wrong)
		equal(t, "the leader that is shown", w.leader(b), "")
		mustBe(t, a.Election("x").Do(w.ctx, "a:80", func(ctx context.Context) error {
			w.remove(w.raw("admin"), w.entries("x")[0].Path)
			<-ctx.Done()
			return context.Cause(ctx)
		}), lock.ErrRemoved)
		mustBe(t, a.Election("x").Do(w.ctx, "a:80", nil), lock.ErrInvalid)
	})
}
