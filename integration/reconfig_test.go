package integration_test

import (
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
)

// TestReconfiguration: while all servers of an ensemble are replaced one by one, no hold is lost
// and no waiter leaves its queue. At the end none of the servers given to the clients is left.
func TestReconfiguration(t *testing.T) {
	t.Parallel()
	r := onReconfigurable(t)
	c := r.crowd(livingTTL, lock.WithReconfiguration())
	first := slices.Clone(r.members.Servers())
	for _, step := range []struct {
		name          string
		leads, killed bool
	}{{"the leader was replaced", true, false}, {"a follower was replaced", false, false}, {"the leader was killed and replaced", true, true}} {
		began := time.Now()
		s := r.pick(first, step.leads)
		r.replace(s, step.killed)
		first = slices.DeleteFunc(first, func(other *zkserver.Server) bool { return other == s })
		c.unhurt(step.name)
		if members, err := admin.New(c.waiters[0]).Members(r.ctx); err != nil || !slices.Equal(members, slices.Sorted(slices.Values(r.members.Addrs()))) {
			t.Errorf("members %q, %v; they are %q", members, err, r.members.Addrs())
		}
		r.Logf("%s in %v", step.name, time.Since(began).Round(time.Millisecond))
	}
	c.disperse()
}

// pick returns a server of the list: the leader if leads is true, and otherwise a server that does
// not lead. If the list has no such server, pick returns the list's first server.
func (r *reconfigurable) pick(list []*zkserver.Server, leads bool) *zkserver.Server {
	r.Helper()
	leader, err := r.members.Leader(r.ctx)
	iferr.Fatal(r, err)
	i := slices.IndexFunc(list, func(s *zkserver.Server) bool { return (s == leader) == leads })
	return list[max(i, 0)]
}

// reconfigurable is an ensemble whose members change, and a bench on it.
type reconfigurable struct {
	*bench
	members *zkserver.Ensemble
}

func onReconfigurable(t *testing.T) *reconfigurable {
	t.Helper()
	zkserver.NeedReal(t)
	if exists, _, err := onShared(t).raw.Exists("/zookeeper/config"); err != nil {
		t.Fatal(err)
	} else if !exists {
		zkserver.NotRun(t, "needs ZooKeeper 3.5")
	}
	installation, err := zkserver.FindFixed(t.Context())
	iferr.Fatal(t, err)
	r := &reconfigurable{members: zkserver.EnsembleForTest(t, 3, zkserver.Options{Installation: installation, Reconfig: true})}
	t.Cleanup(func() { r.raw.Close() }) // runs after the bench's own cleanup
	r.bench = on(t, r.members.Addrs())
	r.reconnect()
	return r
}

// reconnect connects the bench to the present members.
func (r *reconfigurable) reconnect() {
	r.Helper()
	r.servers = r.members.Addrs()
	z, _, err := zk.Connect(r.servers, time.Minute, zk.WithLogInfo(false), zk.WithLogger(testLog{}), zk.WithDialer(dialAnswered))
	iferr.Fatal(r, err)
	r.raw.Close()
	r.raw = steady{z, r.ctx}
}

// replace removes a server from the ensemble, and adds a server with the same id, without data and
// on other ports. If killed is false, the old server runs until no client uses it.
func (r *reconfigurable) replace(s *zkserver.Server, killed bool) {
	r.Helper()
	if killed {
		s.Kill()
	}
	iferr.Fatal(r, r.members.Remove(r.ctx, s))
	r.reconnect()
	if !killed {
		r.eventually("no client is at the removed server", func() bool {
			stats, err := s.Mntr(r.ctx)                                   // fails during an election
			return err == nil && stats["zk_num_alive_connections"] == "1" // the connection of this query
		})
	}
	iferr.Fatal(r, s.Stop())
	iferr.Fatal(r, iferr.Of(r.members.Add(r.ctx)))
	r.reconnect()
}
