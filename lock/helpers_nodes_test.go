// Helpers: nodes, records, and the requests that they cost.

package lock_test

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// epochMark is the path of the node that records the leader's epoch. No client deletes it.
const epochMark = lock.DefaultRoot + "/.epoch"

// nodes lists the paths below the root, without epochMark and inbox.
func (w *world) nodes() []string {
	nodes := w.Dump(lock.DefaultRoot)
	return paths(slices.DeleteFunc(nodes, func(n locktest.Node) bool {
		return n.Path == lock.DefaultRoot || n.Path == epochMark || n.Path == inbox
	}))
}

// timeKnownTo returns the bounds that a client has for the leader's clock.
func timeKnownTo(c *lock.Client) (earliest, latest time.Time) {
	now := admin.New(c).Estimate()
	return now.Earliest(), now.Latest()
}

func paths(nodes []locktest.Node) []string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.Path)
	}
	return all
}

// node returns the node at path, which must exist.
func (w *world) node(path string) locktest.Node {
	w.Helper()
	n, there := w.Node(path)
	if !there {
		w.Fatalf("no node %s", path)
	}
	return n
}

// entries returns the nodes of a lock's contenders, in the order of their creation.
func (w *world) entries(name string) []locktest.Node {
	parent := lock.DefaultRoot + "/" + name
	nodes := slices.DeleteFunc(w.Dump(parent), func(n locktest.Node) bool {
		_, contender := znode.Parse(path.Base(n.Path))
		return path.Dir(n.Path) != parent || !contender
	})
	slices.SortFunc(nodes, func(a, b locktest.Node) int { // a transaction may have created several
		return cmp.Or(cmp.Compare(a.Stat.Czxid, b.Stat.Czxid), cmp.Compare(sequenceOf(a), sequenceOf(b)))
	})
	return nodes
}

func sequenceOf(n locktest.Node) int32 {
	name, _ := znode.Parse(path.Base(n.Path))
	return name.Seq
}

func (w *world) record(path string) znode.Record {
	w.Helper()
	n := w.node(path)
	r, err := znode.DecodeRecord(n.Data)
	if err != nil {
		w.Fatalf("%s holds %s: %v", path, n.Data, err)
	}
	return r
}

func (w *world) parent(name string) znode.Parent {
	w.Helper()
	n := w.node(lock.DefaultRoot + "/" + name)
	p, err := znode.DecodeParent(n.Data)
	if err != nil {
		w.Fatalf("%s holds %s: %v", n.Path, n.Data, err)
	}
	return p
}

// anchor returns the data of the anchor of a lock's parent.
func (w *world) anchor(name string) znode.AnchorData {
	w.Helper()
	n := w.node(lock.DefaultRoot + "/" + name + "/" + znode.Anchor(w.parent(name).Generation))
	a, err := znode.DecodeAnchor(n.Data)
	if err != nil {
		w.Fatalf("%s holds %s: %v", n.Path, n.Data, err)
	}
	return a
}

// anchors lists the anchors of a lock's parent.
func (w *world) anchors(name string) []string {
	return paths(slices.DeleteFunc(w.Dump(lock.DefaultRoot+"/"+name), func(n locktest.Node) bool {
		return !strings.HasPrefix(path.Base(n.Path), "anchor-")
	}))
}

// wipe deletes a lock's entries, the youngest first, then its anchors and its parent.
func (w *world) wipe(z *zk.Conn, name string) {
	w.Helper()
	entries := paths(w.entries(name))
	slices.Reverse(entries)
	w.remove(z, entries...)
	w.remove(z, w.anchors(name)...)
	w.remove(z, lock.DefaultRoot+"/"+name)
}

// bare lists the paths below the root as nodes does, without anchors.
func (w *world) bare() []string {
	return slices.DeleteFunc(w.nodes(), func(p string) bool { return strings.HasPrefix(path.Base(p), "anchor-") })
}

// empty waits up to 10 s for background work, and checks that no node is left below the root.
func (w *world) empty() {
	w.Helper()
	time.Sleep(5 * time.Second)
	synctest.Wait()
	for end := time.Now().Add(5 * time.Second); len(w.nodes()) > 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) { // a parent is deleted a second after its last use
			w.Errorf("left behind: %q", w.nodes())
			return
		}
	}
}

// cost is a number of requests and transactions.
type cost struct {
	requests map[string]int // by operation
	txns     int64
}

func (c cost) total() int {
	total := 0
	for _, n := range c.requests {
		total += n
	}
	return total
}

// cost returns the client's requests while f runs and until the clients settle, and the
// transactions of all clients in the same time.
func (w *world) cost(label string, f func()) cost {
	settle()
	before, txns := w.Requests()[label].Requests, w.Transactions()
	f()
	settle()
	requests := w.Requests()[label].Requests
	for op, n := range before {
		requests[op] -= n
	}
	maps.DeleteFunc(requests, func(_ string, n int) bool { return n == 0 })
	return cost{requests, w.Transactions() - txns}
}

// hasEntries checks the number of a lock's contenders.
func (w *world) hasEntries(name string, want int) {
	w.Helper()
	if e := w.entries(name); len(e) != want {
		w.Errorf("lock %q has the entries %q, want %d", name, paths(e), want)
	}
}

// hasNodes checks the number of nodes below the root.
func (w *world) hasNodes(want int) {
	w.Helper()
	if n := w.nodes(); len(n) != want {
		w.Errorf("nodes %q, want %d", n, want)
	}
}

func (w *world) setACL(z *zk.Conn, path string, acl []zk.ACL) {
	w.Helper()
	w.ok(second(z.SetACL(path, acl, -1)))
}

func (w *world) createACL(z *zk.Conn, path, data string, acl []zk.ACL) {
	w.Helper()
	if _, err := z.Create(path, []byte(data), 0, acl); err != nil {
		w.Fatalf("create %s: %v", path, err)
	}
}

func (w *world) create(z *zk.Conn, path, data string, flags int32) string {
	w.Helper()
	path, err := z.Create(path, []byte(data), flags, zk.WorldACL(zk.PermAll))
	if err != nil {
		w.Fatalf("create %s: %v", path, err)
	}
	return path
}

func (w *world) remove(z *zk.Conn, paths ...string) {
	w.Helper()
	for _, p := range paths {
		if err := z.Delete(p, -1); err != nil {
			w.Fatalf("delete %s: %v", p, err)
		}
	}
}

// set writes a node, whatever its version.
func (w *world) set(z *zk.Conn, path string, data []byte) {
	w.Helper()
	if _, err := z.Set(path, data, -1); err != nil {
		w.Fatalf("write %s: %v", path, err)
	}
}

func (w *world) wantCost(what string, got cost, requests map[string]int, txns int64) {
	w.Helper()
	if !maps.Equal(got.requests, requests) || got.txns != txns {
		w.Errorf("%s cost %v and %d transactions, want %v and %d", what, got.requests, got.txns, requests, txns)
	}
}

// totals returns the numbers of requests of all clients, by operation, without pings.
func (w *world) totals() map[string]int {
	all := map[string]int{}
	for _, r := range w.Requests() {
		for op, n := range r.Requests {
			all[op] += n
		}
	}
	maps.DeleteFunc(all, func(op string, _ int) bool { return op == "ping" })
	return all
}

// stays checks that the node is not deleted within five seconds.
func (w *world) stays(n locktest.Node) {
	w.Helper()
	time.Sleep(5 * time.Second)
	if now, there := w.Node(n.Path); !there || now.Stat.Czxid != n.Stat.Czxid {
		w.Errorf("%s was deleted, which another program had made", n.Path)
	}
}
