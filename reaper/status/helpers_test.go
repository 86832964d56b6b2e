package status

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/holdfast-io/holdfast/reaper"
)

// told is a monitor whose contents the test sets.
type told struct {
	locks *lock.Client
	set   *policy.Set

	mu       sync.Mutex
	status   reaper.Status
	observer func(reaper.Report)
}

func (m *told) Status() reaper.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status
}

func (m *told) Locks() *lock.Client           { return m.locks }
func (m *told) Policies() *policy.Set         { return m.set }
func (m *told) Observe(f func(reaper.Report)) { m.observer = f }

// world is an ensemble in memory, and the status server of a reaper with a client.
type world struct {
	*testing.T
	*locktest.Ensemble
	told   *told
	server *Server
}

// simulate runs a test in virtual time, with a status server of the given options.
func simulate(t *testing.T, o Options, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, Ensemble: locktest.Start(t, locktest.Options{})}
		set, err := policy.NewSet(policy.Rule{Match: policy.MustPattern("orders/**"), Policy: lock.Policy{Name: "orders", TTL: 10 * time.Second}})
		iferr.Fatal(t, err)
		w.told = &told{set: set, locks: w.dial("reaper", lock.WithPolicies(set))}
		w.told.status = reaper.Status{
			About: reaper.About{Root: "/locks"}, State: reaper.Active, Started: time.Now(), ActiveSince: time.Now(),
			Session:   reaper.Session{Connected: true, Since: time.Now()},
			Leader:    &reaper.Leader{Owner: "reaper", Self: true, TTL: 30, Standbys: 1},
			Schedules: []reaper.Schedule{{Schedule: "@every 1m", Policies: []string{"orders", "default"}}},
		}
		o.Roots = []Root{{Monitor: w.told, Lock: reaper.DefaultLock}}
		if w.server, err = New(o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.server.Close)
		f(w)
	})
}

func (w *world) dial(label string, opts ...lock.Option) *lock.Client {
	w.Helper()
	opts = append(opts, lock.WithDialer(w.Dialer(label)), lock.WithOwner(label))
	locks, err := lock.Dial(w.Context(), w.Servers(), opts...)
	iferr.Fatal(w, err)
	w.Cleanup(func() {
		if err := locks.Close(); err != nil {
			w.Errorf("close %s: %v", label, err)
		}
	})
	return locks
}

// raw returns a connection of go-zookeeper, for nodes that no client of Holdfast creates.
func (w *world) raw() *zk.Conn {
	w.Helper()
	z, _, err := zk.Connect(w.Servers(), time.Minute, zk.WithDialer(w.Dialer("raw")), zk.WithLogInfo(false))
	iferr.Fatal(w, err)
	w.Cleanup(func() {
		z.Close()
		synctest.Wait()
	})
	return z
}

func (w *world) create(z *zk.Conn, path string, data []byte, flags int32, acl ...zk.ACL) {
	w.Helper()
	if acl == nil {
		acl = zk.WorldACL(zk.PermAll)
	}
	if _, err := z.Create(path, data, flags, acl); err != nil {
		w.Fatalf("create %s: %v", path, err)
	}
}

// dead creates a lock with an entry that was written just now and that no client renews.
func (w *world) dead(z *zk.Conn, name string, ttl time.Duration) {
	w.Helper()
	generation := znode.NewID()
	w.create(z, "/locks/"+name, znode.Parent{Kind: znode.Mutex, Generation: generation}.Encode(), 0)
	w.create(z, "/locks/"+name+"/"+znode.Anchor(generation), znode.AnchorData{}.Encode(), 0)
	r := znode.Record{Owner: "dead", TTL: ttl.Milliseconds(), AcquiredAt: 1}
	w.create(z, "/locks/"+name+"/"+znode.Prefix(generation, znode.Exclusive), r.Encode(), zk.FlagSequence)
}

// hold takes a lock. waiting is the number of new clients that then wait for it.
func (w *world) hold(locks *lock.Client, name string, waiting int, opts ...lock.LockOption) *lock.Hold {
	w.Helper()
	hold, err := locks.Mutex(name, opts...).Lock(w.Context())
	iferr.Fatal(w, err)
	for i := range waiting { // waiters of the same client would share an entry
		waiter := w.dial(fmt.Sprintf("waiter-%d", i))
		go waiter.Mutex(name).Lock(w.Context())
		synctest.Wait()
	}
	return hold
}

func (w *world) get(path string) *httptest.ResponseRecorder {
	w.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://localhost:9090"+path, nil)
	answer := httptest.NewRecorder()
	w.server.ServeHTTP(answer, r)
	return answer
}

// locks returns the answer of /api/v1/locks to a query.
func (w *world) locks(query string) (a locksAnswer) {
	w.Helper()
	answer := w.get("/api/v1/locks" + query)
	if answer.Code != http.StatusOK {
		w.Fatalf("%s: %d %s", query, answer.Code, answer.Body)
	}
	iferr.Fatal(w, json.Unmarshal(answer.Body.Bytes(), &a))
	return a
}

// named returns the names of the locks.
func (a locksAnswer) named() []string {
	names := []string{}
	for _, l := range a.Locks {
		names = append(names, l.Name)
	}
	return names
}
