package lock_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestContainerOfAnotherProgram: a lock's node that another program, such as Curator, made as a
// container stays when the last client has left: below it there is the lock's anchor.
func TestContainerOfAnotherProgram(t *testing.T) {
	simulate(t, locktest.Options{}, func(w *world) {
		a, z := w.dial("a"), w.raw("curator")
		w.unlock(w.lock(a, "other"))
		_, err := z.CreateContainer("/locks/x", nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
		w.ok(err)
		made := w.node("/locks/x").Stat.Czxid
		w.unlock(w.lock(a, "x"))
		time.Sleep(10 * time.Minute)
		equal(t, "anchors", len(w.anchors("x")), 1)
		equal(t, "czxid of the container", w.node("/locks/x").Stat.Czxid, made)
	})
}
