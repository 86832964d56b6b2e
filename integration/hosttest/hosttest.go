// Package hosttest provides a ZooKeeper for tests of other projects that use Holdfast's locks.
package hosttest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/localhost"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Servers are the servers of a test. The test's locks are below Root, which no other test uses.
type Servers struct {
	Addresses []string
	Root      string
}

// Start returns the servers that HOLDFAST_ZOOKEEPER names. If it names none, Start starts a server
// in memory, on loopback, so that other processes can reach the server. At the end of the test
// Start deletes the root. The test fails if entries are left.
func Start(t testing.TB) Servers {
	t.Helper()
	s := Servers{zkserver.External(), "/host-" + znode.NewID()}
	if s.Addresses == nil {
		_, address := localhost.InMemory(t, locktest.Options{})
		s.Addresses = []string{address}
	}
	t.Cleanup(func() {
		left, err := s.wipe()
		if err != nil {
			t.Errorf("wipe %s: %v", s.Root, err)
		}
		if len(left) > 0 && !t.Failed() {
			t.Errorf("left behind: %q", left)
		}
	})
	return s
}

// Dial returns a client, which is closed at the end of the test.
func (s Servers) Dial(t testing.TB, opts ...lock.Option) *lock.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	locks, err := lock.Dial(ctx, s.Addresses, append([]lock.Option{lock.WithRoot(s.Root)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := locks.Close(); err != nil {
			t.Error(err)
		}
	})
	return locks
}

// wipe deletes the root and all nodes below it. It returns the paths of entries and anchors: nodes
// without children at least two levels below the root. It does not return empty ancestors, which
// the reaper deletes.
func (s Servers) wipe() (left []string, err error) {
	conn, _, err := zk.Connect(s.Addresses, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var walk func(path string, depth int) error
	walk = func(path string, depth int) error {
		children, _, err := conn.Children(path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, name := range children {
			if err := walk(path+"/"+name, depth+1); err != nil {
				return err
			}
		}
		if len(children) == 0 && depth > 1 {
			left = append(left, path)
		}
		if err := conn.Delete(path, -1); !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		return nil
	}
	return left, walk(s.Root, 0)
}
