package hosts

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/vault/sdk/physical"
	"github.com/hashicorp/vault/sdk/physical/inmem"

	"github.com/holdfast-io/holdfast/integration/hosttest"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
)

// vaultBackend is a backend of Vault whose servers elect the active server with Holdfast. The
// backend stores data in memory.
type vaultBackend struct {
	physical.Backend
	locks *lock.Client
}

var _ physical.HABackend = vaultBackend{}

func (vaultBackend) HAEnabled() bool { return true }

func (b vaultBackend) LockWith(key, value string) (physical.Lock, error) {
	election := b.locks.Election(key)
	return &vaultLock{election: election, value: value}, election.Validate()
}

// vaultLock is a candidate. Vault does not call the methods of one vaultLock concurrently.
type vaultLock struct {
	election *lock.Election
	value    string
	leads    *lock.Leadership
}

// Lock returns a channel that is closed when the leadership is lost; nil if stop is closed first.
func (l *vaultLock) Lock(stop <-chan struct{}) (<-chan struct{}, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-stop:
			cancel()
		case <-done:
		}
	}()
	leads, err := l.election.Campaign(ctx, l.value)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, nil
	case err != nil:
		return nil, err
	}
	l.leads = leads
	return leads.Context().Done(), nil
}

func (l *vaultLock) Unlock() error {
	if l.leads == nil {
		return nil
	}
	return l.leads.Resign()
}

// Value reports whether any server leads, and returns the leader's value.
func (l *vaultLock) Value() (bool, string, error) {
	leader, err := l.election.Leader(context.Background())
	if errors.Is(err, lock.ErrNoLeader) {
		return false, "", nil
	}
	return err == nil, leader.Value, err
}

// TestVault: Vault's test of backends for several servers passes, several times in a row, with one
// client and with two.
func TestVault(t *testing.T) {
	for _, clients := range []int{1, 2} {
		t.Run(fmt.Sprint("clients ", clients), func(t *testing.T) {
			servers := hosttest.Start(t)
			var backends []physical.HABackend
			for i := range 2 {
				storage, err := inmem.NewInmem(nil, hclog.NewNullLogger())
				iferr.Fatal(t, err)
				b := vaultBackend{Backend: storage}
				if i < clients {
					b.locks = servers.Dial(t)
				} else {
					b.locks = backends[0].(vaultBackend).locks
				}
				backends = append(backends, b)
				physical.ExerciseBackend(t, b)
			}
			for range 10 {
				physical.ExerciseHABackend(t, backends[0], backends[1])
			}
		})
	}
}
