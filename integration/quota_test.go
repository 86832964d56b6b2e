package integration_test

import (
	"context"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
)

// TestHardQuota: under a hard quota of bytes that is used up, a hold and a waiter are renewed, and the
// waiter enters, because their records keep their length: ZooKeeper refuses other lengths, shorter ones,
// too. A new entry is refused with the meaning of the error.
func TestHardQuota(t *testing.T) {
	t.Parallel()
	zkserver.NeedReal(t)
	s := zkserver.ForTest(t, zkserver.Options{JVMArgs: []string{"-Dzookeeper.enforceQuota=true"}})
	if v := must(s.Version(t.Context()))(t); v.Number[1] < 7 && v.Number[0] == 3 {
		t.Skipf("ZooKeeper %s has no hard quotas", v)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const ttl = 3 * time.Second
	z, _, err := zk.Connect([]string{s.Addr()}, 20*time.Second, zk.WithLogInfo(false))
	iferr.Fatal(t, err)
	defer z.Close()
	create := func(path, data string) {
		t.Helper()
		if _, err := z.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	// quota sets a limit of bytes below the node, which is passed already.
	quota := func(node string) {
		t.Helper()
		at := "/zookeeper/quota"
		for part := range strings.SplitSeq(strings.Trim(node, "/"), "/") {
			at = path.Join(at, part)
			create(at, "")
		}
		create(at+"/zookeeper_limits", "count=-1,bytes=-1=;byteHardLimit=10;countHardLimit=-1")
		create(at+"/zookeeper_stats", "count=0,bytes=0")
	}
	create("/data", "twenty bytes of data")
	quota("/data")
	for data, refused := range map[string]bool{"twenty bytes of DATA": false, "twelve bytes": true, "something that is longer": true} {
		if _, err := z.Set("/data", []byte(data), -1); (err != nil) != refused || refused && !strings.Contains(err.Error(), "-125") {
			t.Errorf("set %q: %v", data, err)
		}
	}

	a, b := dial(t, ctx, []string{s.Addr()}, lock.WithTTL(ttl), lock.WithGrace(grace)), dial(t, ctx, []string{s.Addr()}, lock.WithTTL(ttl), lock.WithGrace(grace))
	hold, err := a.Mutex("x").Lock(ctx)
	iferr.Fatal(t, err)
	entered := make(chan error, 1)
	go func() {
		next, err := b.Mutex("x").Lock(ctx)
		if err == nil {
			select {
			// wall clock: the hold outlives its first leases
			case <-time.After(2 * ttl):
			case <-next.Context().Done():
			}
			err = next.Unlock()
		}
		entered <- err
	}()
	for joined := false; !joined; { // the anchor and two entries
		names, _, err := z.Children("/locks/x")
		iferr.Fatal(t, err)
		joined = len(names) == 3
		select {
		case err := <-entered:
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	quota("/locks")
	if _, err := a.Mutex("y").Lock(ctx); err == nil || !strings.Contains(err.Error(), "a quota is exceeded") {
		t.Errorf("a new lock: %v", err)
	}
	select {
	// wall clock: the hold outlives its first leases
	case <-time.After(2 * ttl):
	case <-hold.Context().Done():
		t.Fatal(fmt.Errorf("the hold: %w", context.Cause(hold.Context())))
	}
	iferr.Error(t, hold.Unlock())
	if err := <-entered; err != nil {
		t.Errorf("the waiter: %v", err)
	}
}
