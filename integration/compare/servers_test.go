package main

import (
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/wait"
)

// TestEtcdCluster: a leader that is parted from the other members knows no leader, and the other
// members elect another leader. After the partition all members know a leader.
func TestEtcdCluster(t *testing.T) {
	t.Parallel()
	started, err := startEtcd(t.Context(), t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	c := started.(*etcdCluster)
	defer func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}()
	old, err := c.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	id := s.Header.MemberId
	if err := c.Part(old); err != nil {
		t.Fatal(err)
	}
	if err := wait.Until(t.Context(), time.Minute, "the others elect a leader", leads(func(i int, leader, own uint64) bool {
		if i == old {
			return leader == 0 // it knows no leader
		}
		return leader != 0 && leader != id
	})); err != nil {
		t.Error(err)
	}
	if err := c.Heal(old); err != nil {
		t.Fatal(err)
	}
	if err := wait.Until(t.Context(), time.Minute, "all have a leader", leads(func(_ int, leader, _ uint64) bool { return leader != 0 })); err != nil {
		t.Error(err)
	}
	if err := c.Kill(old); err != nil {
		t.Fatal(err)
	}
	if err := c.Restart(t.Context(), old); err != nil {
		t.Fatal(err)
	}
}
