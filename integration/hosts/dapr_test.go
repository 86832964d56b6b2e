package hosts

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	dapr "github.com/dapr/components-contrib/lock"
	"github.com/dapr/components-contrib/metadata"
	conformance "github.com/dapr/components-contrib/tests/conformance/lock"

	"github.com/holdfast-io/holdfast/integration/hosttest"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// daprStore is a lock store of Dapr. In Dapr, a lock belongs to an owner's name and not to a
// process, and is not renewed. So a lock is a detached hold, with the owner in its metadata.
type daprStore struct {
	metadata.ComponentWithMetadata
	locks *lock.Client
}

var _ dapr.Store = (*daprStore)(nil)

const daprOwner = "dapr.owner"

func (s *daprStore) InitLockStore(ctx context.Context, m dapr.Metadata) (err error) {
	s.locks, err = lock.Dial(ctx, strings.Split(m.Properties["servers"], ","), lock.WithRoot(m.Properties["root"]))
	return err
}

func (s *daprStore) TryLock(ctx context.Context, r *dapr.TryLockRequest) (*dapr.TryLockResponse, error) {
	expiry := time.Duration(r.ExpiryInSeconds) * time.Second
	hold, err := s.locks.Mutex(r.ResourceID, lock.WithTTL(expiry), lock.WithMetadata(map[string]string{daprOwner: r.LockOwner})).TryLock(ctx)
	if errors.Is(err, lock.ErrHeld) {
		return &dapr.TryLockResponse{}, nil
	}
	if err == nil {
		_, err = hold.Detach(ctx, expiry)
	}
	if err != nil {
		return nil, err
	}
	return &dapr.TryLockResponse{Success: true}, nil
}

func (s *daprStore) Unlock(ctx context.Context, r *dapr.UnlockRequest) (*dapr.UnlockResponse, error) {
	status, err := s.unlock(ctx, r)
	if err != nil {
		return &dapr.UnlockResponse{Status: dapr.InternalError}, err
	}
	return &dapr.UnlockResponse{Status: status}, nil
}

func (s *daprStore) unlock(ctx context.Context, r *dapr.UnlockRequest) (dapr.Status, error) {
	tree := admin.New(s.locks)
	state, err := tree.Inspect(ctx, r.ResourceID)
	switch {
	case err != nil:
		return 0, err
	case len(state.Contenders) == 0:
		return dapr.LockDoesNotExist, nil
	case state.Contenders[0].Metadata[daprOwner] != r.LockOwner:
		return dapr.LockBelongsToOthers, nil
	}
	held, err := tree.Break(ctx, state.Contenders[0].Path, znode.Broken{Owner: r.LockOwner, Reason: "unlocked"})
	if err != nil {
		return 0, err
	}
	return dapr.Success, held.Delete(ctx, lock.Policy{})
}

func (s *daprStore) Close() error { return s.locks.Close() }

// TestDapr: Dapr's conformance test of lock stores passes. The conformance test leaves one lock.
// Through another store, only the lock's owner can unlock it.
func TestDapr(t *testing.T) {
	servers := hosttest.Start(t)
	properties := map[string]string{"servers": strings.Join(servers.Addresses, ","), "root": servers.Root}
	config, err := conformance.NewTestConfig("holdfast", nil, nil)
	iferr.Fatal(t, err)
	store := new(daprStore)
	conformance.ConformanceTests(t, properties, store, config)
	iferr.Error(t, store.Close())

	other := &daprStore{locks: servers.Dial(t)}
	names, _, err := admin.New(other.locks).Children(t.Context(), servers.Root)
	iferr.Fatal(t, err)
	for _, name := range slices.DeleteFunc(names, znode.Reserved) {
		for _, want := range []struct {
			owner  string
			status dapr.Status
		}{{"stranger", dapr.LockBelongsToOthers}, {"conftest", dapr.Success}, {"conftest", dapr.LockDoesNotExist}} {
			if r, err := other.Unlock(t.Context(), &dapr.UnlockRequest{ResourceID: name, LockOwner: want.owner}); err != nil || r.Status != want.status {
				t.Errorf("%s unlocks: status %d, %v; want status %d", want.owner, r.Status, err, want.status)
			}
		}
	}
}
