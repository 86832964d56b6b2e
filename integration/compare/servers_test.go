package main

import (
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/wait"
)

// TestEtcdCluster: a leader that is parted from the other members knows no leader, and the other
// members elect another leader. After the partition all members know a leader.
func TestEtcdCluster(t *testing.T) {
	t.Parallel()
	started, err := startEtcd(t.Context(), t.TempDir(), 3)
	iferr.Fatal(t, err)
	c := started.(*etcdCluster)
	defer func() {
		iferr.Error(t, c.Stop())
	}()
	old, err := c.Leader(t.Context())
	iferr.Fatal(t, err)
	leads := func(want func(i int, leader, own uint64) bool) func() (bool, error) {
		return func() (bool, error) {
			for i := range c.Given {
				s, err := c.status(t.Context(), i)
				if err != nil || !want(i, s.Leader, s.Header.MemberId) {
					return false, nil
				}
			}
			return true, nil
		}
	}
	s, err := c.status(t.Context(), old)
	iferr.Fatal(t, err)
	id := s.Header.MemberId
	iferr.Fatal(t, c.Part(old))
	if err := wait.Until(t.Context(), time.Minute, "the others elect a leader", leads(func(i int, leader, own uint64) bool {
		if i == old {
			return leader == 0 // it knows no leader
		}
		return leader != 0 && leader != id
	})); err != nil {
		t.Error(err)
	}
	iferr.Fatal(t, c.Heal(old))
	iferr.Error(t, wait.Until(t.Context(), time.Minute, "all have a leader", leads(func(_ int, leader, _ uint64) bool { return leader != 0 })))
	iferr.Fatal(t, c.Kill(old))
	iferr.Fatal(t, c.Restart(t.Context(), old))
}
