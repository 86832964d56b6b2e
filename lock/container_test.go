package lock_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestContainerOfAnotherProgram: MIGRATING.md says that the server deletes a lock's node that
// Curator made as a container when it has been empty for a while.
func TestContainerOfAnotherProgram(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("curator")
		w.unlock(w.lock(a, "other"))
		_, err := z.CreateContainer("/locks/x", nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
		w.ok(err)
		w.unlock(w.lock(a, "x"))
		time.Sleep(10 * time.Minute)
		w.empty()
	})
}
