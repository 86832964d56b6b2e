package status

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// forest creates a lock in each state that lasts: free, held, expired, foreign, damaged and denied.
func (w *world) forest() {
	w.Helper()
	locks, z := w.dial("shop"), w.raw()
	w.hold(locks, "orders/42", 2)
	w.hold(locks, "holdfast-reaper", 1)
	for _, reader := range []*lock.Client{locks, w.told.locks} {
		iferr.Fatal(w, iferr.Of(reader.RWMutex("catalog").RLock(w.Context())))
	}
	iferr.Fatal(w, iferr.Of(locks.Semaphore("gpu", 3).Acquire(w.Context(), 1)))
	w.dead(z, "crashed", time.Second)
	w.create(z, "/locks/kazoo", nil, 0)
	w.create(z, "/locks/kazoo/1b4f0e98519719981b4f0e9851971998__lock__", []byte("host"), zk.FlagSequence|zk.FlagEphemeral)
	w.create(z, "/locks/broken", znode.Parent{Kind: znode.Mutex}.Encode(), 0)
	w.create(z, "/locks/broken/9f86d081884c7d65-lock-", []byte(`{"holdfast":2,"ttl_ms":"soon"}`), zk.FlagSequence)
	w.create(z, "/locks/secret", znode.Parent{Kind: znode.Mutex}.Encode(), 0, zk.ACL{Perms: zk.PermCreate, Scheme: "world", ID: "anyone"})
	w.create(z, "/locks/idle", znode.Parent{Kind: znode.Mutex}.Encode(), 0)
	w.create(z, "/locks/newer", []byte(`{"holdfast":3,"kind":"mutex"}`), 0)
	w.create(z, "/locks/stranger", []byte("?"), 0)
	time.Sleep(2 * time.Second)
	w.hold(w.told.locks, "latest", 0) // the reply is a sample of the leader's clock
}

// TestStates: the answer has the policy, kind and state of each lock, and its numbers of holders and
// waiters. The reaper's lock is apart from the other locks.
func TestStates(t *testing.T) {
	simulate(t, Options{}, func(w *world) {
		w.forest()
		all := w.locks("")
		got := map[string]string{}
		for _, l := range all.Locks {
			got[l.Name] = fmt.Sprintf("%s %s %s held %d waiting %d", l.Policy, l.Kind, l.State, l.Held, l.Waiting)
		}
		want := map[string]string{
			"broken":    "default mutex damaged held 1 waiting 0",
			"catalog":   "default rw held held 2 waiting 0",
			"crashed":   "default mutex expired held 0 waiting 0",
			"gpu":       "default semaphore held held 1 waiting 0",
			"idle":      "default mutex free held 0 waiting 0",
			"kazoo":     "default  foreign held 1 waiting 0",
			"latest":    "default mutex held held 1 waiting 0",
			"newer":     "default  damaged held 0 waiting 0",
			"orders/42": "orders mutex held held 1 waiting 2",
			"secret":    "default  denied held 0 waiting 0",
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got\n%v\nwant\n%v", got, want)
		}
		if !all.Complete || all.Truncated || all.Error != "" || all.Matching != len(want) {
			t.Errorf("complete %v, truncated %v, error %q, matching %d", all.Complete, all.Truncated, all.Error, all.Matching)
		}
		counts := Count{Root: "/locks", Policy: "default", Locks: 9, Held: 6, States: map[string]int{Damaged: 2, Denied: 1, Expired: 1, Foreign: 1, Free: 1, Held: 3}}
		if len(all.Counts) != 2 || !reflect.DeepEqual(all.Counts[0], counts) || all.Counts[1].Held != 1 || all.Counts[1].Waiting != 2 {
			t.Errorf("counted %+v, want %+v first", all.Counts, counts)
		}
		if len(all.Reapers) != 1 || all.Reapers[0].Waiting != 1 {
			t.Errorf("the reapers: %+v", all.Reapers)
		}
		for _, l := range all.Locks {
			if l.Name != "orders/42" {
				continue
			}
			e := l.Entries[0]
			if e.Owner != "shop" || e.Left == nil || *e.Left < 25_000 || *e.Left > 30_000 || !e.In || l.Entries[1].In {
				t.Errorf("%s: %+v", l.Name, l.Entries)
			}
		}
	})
}

// TestQueries: the parameters of a query select and sort the locks. Invalid parameters get the status
// 400.
func TestQueries(t *testing.T) {
	simulate(t, Options{}, func(w *world) {
		w.forest()
		w.locks("")
		for query, want := range map[string]string{
			"?q=ORDERS":                       "orders/42",
			"?policy=orders":                  "orders/42",
			"?state=expired":                  "crashed",
			"?state=waiting":                  "orders/42",
			"?state=blocked":                  "",
			"?sort=queue&limit=2":             "orders/42 broken",
			"?sort=left&limit=1":              "crashed",
			"?sort=name&offset=8&limit=1":     "orders/42",
			"?sort=policy&offset=9":           "orders/42",
			"?offset=100":                     "",
			"?root=/elsewhere":                "",
			"?q=a&policy=default&state=held":  "catalog latest",
			"?root=/locks&q=latest&sort=name": "latest",
		} {
			if got := strings.Join(w.locks(query).named(), " "); got != want {
				t.Errorf("%s: got %q, want %q", query, got, want)
			}
		}
		for _, query := range []string{"?limit=501", "?limit=0", "?offset=-1", "?offset=x", "?sort=age", "?nam=x", "?state=bogus"} {
			if a := w.get("/api/v1/locks" + query); a.Code != http.StatusBadRequest || !strings.Contains(a.Body.String(), `"error":"`) {
				t.Errorf("%s: %d %s", query, a.Code, a.Body)
			}
		}
	})
}

// TestQueueOfALock: /api/v1/lock answers with the whole queue of a lock. An unknown lock gets the status
// 404, an invalid name 400.
func TestQueueOfALock(t *testing.T) {
	simulate(t, Options{}, func(w *world) {
		w.forest()
		var l Lock
		iferr.Fatal(t, json.Unmarshal(w.get("/api/v1/lock?name=orders/42&root=/locks").Body.Bytes(), &l))
		if len(l.Entries) != 3 || l.Waiting != 2 || l.Entries[2].Owner != "waiter-1" || l.Entries[0].State != Held || l.Entries[2].State != Waiting {
			t.Errorf("%+v", l)
		}
		for query, want := range map[string]int{
			"?name=nobody": 404, "?name=": 400, "?name=../x": 400, "?name=orders/42&root=/else": 404, "?name=secret": 200,
		} {
			if a := w.get("/api/v1/lock" + query); a.Code != want {
				t.Errorf("%s: %d, want %d: %s", query, a.Code, want, a.Body)
			}
		}
	})
}

// TestPendingRequest: the queue of a lock tells of a request to release it: of which client, and why.
func TestPendingRequest(t *testing.T) {
	simulate(t, Options{}, func(w *world) {
		w.hold(w.dial("holder"), "orders/1", 0)
		iferr.Fatal(t, w.dial("operator").Revoke(w.Context(), "orders/1", "deploy"))
		var l Lock
		iferr.Fatal(t, json.Unmarshal(w.get("/api/v1/lock?name=orders/1").Body.Bytes(), &l))
		if a := l.Entries[0].Asked; a == nil || a.Owner != "operator" || a.Reason != "deploy" || a.At.Before(time.Now().Add(-time.Minute)) {
			t.Errorf("%+v", a)
		}
	})
}

// TestMetadata: metadata is shown only with the option Metadata.
func TestMetadata(t *testing.T) {
	for _, shown := range []bool{false, true} {
		simulate(t, Options{Metadata: shown}, func(w *world) {
			w.hold(w.told.locks, "orders/1", 0, lock.WithMetadata(map[string]string{"password": "hunter2"}))
			for _, path := range []string{"/api/v1/locks", "/api/v1/lock?name=orders/1"} {
				if got := strings.Contains(w.get(path).Body.String(), "hunter2"); got != shown {
					t.Errorf("%s: metadata told: %v, want %v", path, got, shown)
				}
			}
		})
	}
}

// TestManyViewers: a thousand requests within ten seconds cause at most ten passes.
func TestManyViewers(t *testing.T) {
	simulate(t, Options{}, func(w *world) {
		w.hold(w.told.locks, "orders/1", 0)
		var lists atomic.Int64
		w.Intercept(func(q locktest.Request) locktest.Fault {
			if strings.HasPrefix(q.Op, "getChildren") && q.Paths[0] == "/locks" {
				lists.Add(1)
			}
			return locktest.Fault{}
		})
		for range 100 {
			for range 10 {
				w.locks("")
			}
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		if n := lists.Load(); n < 5 || n > 10 {
			t.Errorf("the root was listed %d times in ten seconds", n)
		}
	})
}

// TestSlowServer: if the server is slow, the first answer comes after maxWait, and has the locks read
// so far. The next pass begins only after rest times the duration of the last one.
func TestSlowServer(t *testing.T) {
	simulate(t, Options{}, func(w *world) {
		for i := range 40 {
			w.hold(w.told.locks, fmt.Sprintf("orders/%d", i), 0)
		}
		w.SetLatency(func(string, string) time.Duration { return 50 * time.Millisecond })
		begun := time.Now()
		first := w.locks("")
		if took := time.Since(begun); took != maxWait {
			t.Errorf("the first viewer waited for %v", took)
		}
		if first.Complete || len(first.Locks) >= 40 {
			t.Errorf("complete %v with %d locks", first.Complete, len(first.Locks))
		}
		var pass *reading
		for pass == nil {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			if w.locks("").Complete {
				pass, _ = w.passes()
			}
		}
		if got := w.locks(""); got.Matching != 40 {
			t.Errorf("%d locks", got.Matching)
		}
		took := pass.took()
		time.Sleep(rest*took - 200*time.Millisecond)
		w.locks("")
		if _, current := w.passes(); current != nil {
			t.Errorf("reading took %v, and begins again sooner than after ten times that", took)
		}
		time.Sleep(300 * time.Millisecond)
		w.locks("")
		if _, current := w.passes(); current == nil {
			t.Error("reading does not begin again")
		}
	})
}

// passes returns the last complete pass of the first root's listing, and the current one.
func (w *world) passes() (last, current *reading) {
	l := w.server.shown()[0].listing
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last, l.current
}

// TestOutage: during an outage the answer has an error and the last known locks, whose leases are not
// counted down. After the outage the error ends.
func TestOutage(t *testing.T) {
	simulate(t, Options{}, func(w *world) {
		w.hold(w.told.locks, "orders/1", 0)
		w.locks("")
		w.Freeze("reaper")
		time.Sleep(2 * time.Second)
		w.locks("")
		time.Sleep(maxPass + time.Second)
		synctest.Wait()
		got := w.locks("")
		if got.Error == "" || len(got.Locks) != 1 || got.Age < maxPass.Milliseconds() {
			t.Errorf("error %q, %d locks, %d ms old", got.Error, len(got.Locks), got.Age)
		}
		if left := got.Locks[0].Entries[0].Left; left == nil || *left < 5_000 || got.Locks[0].State != Held {
			t.Errorf("what was not read since is %s with %v, want what it was", got.Locks[0].State, left)
		}
		w.Thaw("reaper")
		for got.Error != "" {
			time.Sleep(time.Second)
			synctest.Wait()
			got = w.locks("")
		}
	})
}

// TestAfterOutage: as soon as the session is back, the locks are read again, however long the last pass
// took, whether the outage began in the middle of a pass or between two passes. During the outage the
// answer says so. Each lock is dated by its own read.
func TestAfterOutage(t *testing.T) {
	for name, during := range map[string]bool{"during a pass": true, "between passes": false} {
		t.Run(name, func(t *testing.T) {
			simulate(t, Options{}, func(w *world) {
				for i := range 40 { // so that the first pass takes some time, and the next is not due for long
					w.hold(w.told.locks, fmt.Sprintf("orders/%d", i), 0)
				}
				holder := w.dial("holder")
				hold := w.hold(holder, "orders/going", 0)
				w.SetLatency(func(label, _ string) time.Duration {
					if label == "reaper" {
						return time.Second
					}
					return 0
				})
				for w.locks(""); !w.locks("").Complete; synctest.Wait() {
					time.Sleep(time.Second)
				}
				pass, _ := w.passes()
				if during {
					time.Sleep(rest * pass.took())
					w.locks("")
				}
				w.SetLatency(nil)
				iferr.Fatal(t, w.Partition("reaper"))
				iferr.Fatal(t, hold.Unlock())
				tree := admin.New(w.told.locks)
				for tree.Session().Connected {
					time.Sleep(time.Second)
					w.locks("")
				}
				if got := w.locks(""); got.Error != errNoSession.Error() {
					t.Errorf("when the outage begins: %+v", got)
				}
				time.Sleep(3 * time.Minute)
				if got := w.locks("?q=going"); got.Error == "" || got.Matching != 1 || got.Age < (3*time.Minute).Milliseconds() || got.Locks[0].Age < (3*time.Minute).Milliseconds() {
					t.Errorf("during the outage: %+v", got)
				}
				w.Heal("reaper")
				for !tree.Session().Connected {
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(minAge)
				w.locks("")
				time.Sleep(minAge)
				if got := w.locks("?q=going"); got.Error != "" || got.Matching != 0 || got.Age > (2*minAge).Milliseconds() {
					t.Errorf("a moment after the outage: %+v", got)
				}
			})
		})
	}
}

// TestServerFails: if a server refuses to read a lock, the answer has the error, and is not complete.
func TestServerFails(t *testing.T) {
	simulate(t, Options{}, func(w *world) {
		w.hold(w.told.locks, "orders/1", 0)
		w.Intercept(func(q locktest.Request) locktest.Fault {
			if q.Op == "getData" && q.Paths[0] == "/locks/orders/1" {
				return locktest.Fault{Code: -8} // bad arguments
			}
			return locktest.Fault{}
		})
		w.locks("")
		synctest.Wait()
		if got := w.locks(""); got.Complete || got.Error == "" {
			t.Errorf("%+v", got)
		}
		if a := w.get("/api/v1/lock?name=orders/1"); a.Code != http.StatusServiceUnavailable || !strings.Contains(a.Body.String(), "error") {
			t.Errorf("%d %s", a.Code, a.Body)
		}
	})
}

// TestLimits: a pass leaves out nodes beyond its limit, and is then truncated. A lock has only its
// first entries, but counts all waiters.
func TestLimits(t *testing.T) {
	simulate(t, Options{}, func(w *world) {
		for i := range 20 {
			w.hold(w.told.locks, fmt.Sprintf("orders/%02d", i), 0)
		}
		w.hold(w.told.locks, "queue", 10)
		r, _ := w.server.reader(w.server.shown()[0].Root)
		pass := &reading{reader: r, most: 12, begun: time.Now(), done: make(chan struct{})}
		pass.run(w.Context())
		locks, complete, truncated := pass.view()
		if len(locks) == 0 || len(locks) > 10 || !complete || !truncated {
			t.Errorf("%d locks, complete %v, truncated %v", len(locks), complete, truncated)
		}
		l, _, err := r.lock(w.Context(), "queue", maxEntries)
		if err != nil || len(l.Entries) != maxEntries || l.Waiting != 10 {
			t.Errorf("%+v, %v", l, err)
		}
	})
}

// TestSeveralRoots: queries and metrics identify roots by their names, although all paths are equal.
func TestSeveralRoots(t *testing.T) {
	simulate(t, Options{}, func(w *world) {
		other := w.dial("other", lock.WithRoot("/teams"))
		w.hold(w.told.locks, "orders/1", 0)
		w.hold(other, "orders/2", 0)
		var roots []Root
		for name, locks := range map[string]*lock.Client{"a": w.told.locks, "b": other} {
			m := &told{locks: locks, set: w.told.set, status: w.told.status}
			m.status.Name = name
			roots = append(roots, Root{Monitor: m})
		}
		s, err := New(Options{Roots: roots})
		iferr.Fatal(w, err)
		defer s.Close()
		w.server = s
		for query, want := range map[string]string{"?sort=name": "a orders/1, b orders/2", "?root=b": "b orders/2", "?root=/locks": ""} {
			var got []string
			for _, l := range w.locks(query).Locks {
				got = append(got, l.Root+" "+l.Name)
			}
			slices.Sort(got)
			if text := strings.Join(got, ", "); text != want {
				t.Errorf("%s: got %q, want %q", query, text, want)
			}
		}
		for _, want := range []string{`holdfast_reaper_active{root="a"} 1`, `holdfast_reaper_active{root="b"} 1`} {
			if scrape := w.get("/metrics").Body.String(); !strings.Contains(scrape, want) {
				t.Errorf("no %s in\n%s", want, scrape)
			}
		}
		if a := w.get("/api/v1/lock?name=orders/2&root=a"); a.Code != http.StatusNotFound {
			t.Errorf("%d %s", a.Code, a.Body)
		}
		iferr.Fatal(t, s.SetRoots(roots[:1]))
		stays, goes := fmt.Sprintf("root=%q", roots[0].label()), fmt.Sprintf("root=%q", roots[1].label())
		if scrape := w.get("/metrics").Body.String(); !strings.Contains(scrape, `duration_seconds_count{complete="true",`+stays) || strings.Contains(scrape, goes) {
			t.Errorf("when a root is removed:\n%s", scrape)
		}
	})
}
