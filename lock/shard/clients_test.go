package shard_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/bubble"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/shard"
)

// TestClients: groups work over all kinds of clients: with ACLs, below another root, with policies by name,
// and on the caller's connection. Groups of one name below two roots, or of two names, are two groups. A
// client that may not read the plan gets ErrDenied.
func TestClients(t *testing.T) {
	simulate(t, 4, func(w *world) {
		rules, err := policy.NewSet(policy.Rule{Match: policy.MustPattern(group + "/**"), Policy: lock.Policy{Name: "shards", TTL: 9 * time.Second, Grace: grace}})
		iferr.Fatal(t, err)
		dial := func(label string, opts ...lock.Option) *lock.Client {
			c, err := lock.Dial(w.Ctx, w.Servers(), append(opts, lock.WithDialer(w.Dialer(label)), lock.WithOwner(label))...)
			iferr.Fatal(t, err)
			return c
		}
		times := []lock.Option{lock.WithTTL(ttl), lock.WithGrace(grace)}
		for name, client := range map[string]func(label string) *lock.Client{
			"policies": func(label string) *lock.Client { return dial(label, lock.WithPolicies(rules)) },
			"ACL": func(label string) *lock.Client {
				return dial(label, append(times, lock.WithRoot("/closed"), lock.WithDigest("svc", "secret"))...)
			},
			"root": func(label string) *lock.Client { return dial(label, append(times, lock.WithRoot("/team/locks"))...) },
			"borrowed": func(label string) *lock.Client {
				conn := w.Plain("borrowed "+label, 6*time.Second, new(zk.DNSHostProvider))
				c, err := lock.New(conn, append(times, lock.WithRoot("/borrowed"), lock.WithOwner(label))...)
				iferr.Fatal(t, err)
				return c
			},
		} {
			a, b := client("a"), client("b")
			stopA, stopB := w.start(a, w.work("a")), w.start(b, w.work("b"))
			w.mustOwn(10*time.Second, "map[a:2 b:2]")
			if s, err := shard.Read(w.Ctx, b, group, false); err != nil || s.Unowned() > 0 || s.Moving() > 0 || len(s.Members) != 2 {
				t.Errorf("%s: %+v: %v", name, s, err)
			}
			if name == "ACL" {
				conn := w.Plain("stranger", 6*time.Second, new(zk.DNSHostProvider))
				if _, _, err := conn.Get("/closed/" + group + "/0"); err != zk.ErrNoAuth {
					t.Errorf("a stranger's read: %v", err)
				}
				other := dial("other", append(times, lock.WithRoot("/closed"))...)
				bubble.MustBe(t, shard.Run(w.Ctx, other, group, 4, w.work("other"), w.options()), lock.ErrDenied)
				iferr.Error(t, other.Close())
			}
			_, _ = stopA(), stopB()
			for _, c := range []*lock.Client{a, b} {
				if err := c.Close(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	})
}

// TestHiddenMember: a member whose entries other members may not read gets no shards, and does no harm.
func TestHiddenMember(t *testing.T) {
	simulate(t, 4, func(w *world) {
		w.start(w.dial("a"), w.work("a"))
		w.mustOwn(10*time.Second, "map[a:4]")
		w.moves()
		stop := w.start(w.dial("b", lock.WithDigest("b", "secret")), w.work("b"))
		time.Sleep(time.Minute)
		w.mustOwn(0, "map[a:4]")
		_ = stop()
		w.start(w.dial("c"), w.work("c"))
		w.mustOwn(30*time.Second, "map[a:2 c:2]")
		if moves, gap := w.moves(); moves != 2 || gap > time.Second {
			t.Errorf("%d moves, and %v without an owner", moves, gap)
		}
	})
}
