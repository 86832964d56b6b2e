package zkconn

import (
	"errors"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestSyncedReadIsOfOneSession: if the session ends between the Sync and the read, both are
// repeated, because the next session's server may lag behind.
func TestSyncedReadIsOfOneSession(t *testing.T) {
	reads := map[string]func(w *world, c *Conn) error{
		"Get":      func(w *world, c *Conn) error { _, err := c.GetSynced(w.ctx, "/x"); return err },
		"Children": func(w *world, c *Conn) error { _, _, err := c.ChildrenSynced(w.ctx, "/x"); return err },
		"Synced": func(w *world, c *Conn) error {
			_, err := Synced(w.ctx, c, "/x", func() (Node, error) { return c.Get(w.ctx, "/x") })
			return err
		},
	}
	for name, read := range reads {
		for _, own := range []bool{true, false} {
			simulate(t, locktest.Options{}, func(w *world) {
				c := w.conn(own, w.config("a"))
				w.write(c, "/x")
				syncs, ends := 0, 2
				var synced, readIn int64 // sessions of the last sync and read
				w.Intercept(func(r locktest.Request) (f locktest.Fault) {
					switch r.Op {
					case "sync":
						syncs++
						synced = r.Session
					case "getData", "getChildren2":
						readIn = r.Session
						if ends--; ends >= 0 {
							w.ExpireLabel("a")
						}
					}
					return f
				})
				if err := read(w, c); err != nil || syncs != 2 || synced != readIn {
					t.Errorf("%s, own %v: %v, after %d Syncs, the last in session %#x, read in %#x", name, own, err, syncs, synced, readIn)
				}
				w.Intercept(nil)
				if _, err := c.Multi(w.ctx, &zk.DeleteRequest{Path: "/x", Version: -1}); err != nil {
					t.Fatal(err)
				}
				if err := read(w, c); !errors.Is(err, zk.ErrNoNode) {
					t.Errorf("%s, own %v: of a node that is not there: %v", name, own, err)
				}
			})
		}
	}
}
