package status

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/reaper"
)

// group makes a group of five shards as members of package shard leave it: of the three that the
// leader is to own it owns one, another member one, and one has no owner; one more is planned for no
// member and has no owner, and the last one is the other member's.
func (w *world) group(name string) {
	w.Helper()
	own := func(shard int, member string) {
		meta := lock.WithMetadata(map[string]string{"shard": member + "/5"})
		if _, err := w.told.locks.Mutex(fmt.Sprintf("%s/%d", name, shard), meta).Lock(w.Context()); err != nil {
			w.Fatal(err)
		}
	}
	plan := `{"reads":1,"id":"leaderid","shards":5,"weight":1,"plan":"1 1764365000 leaderidother_id 000000ff01"}`
	if _, err := w.told.locks.Election(name+"/plan").Campaign(w.Context(), plan); err != nil {
		w.Fatal(err)
	}
	own(0, "leaderid")
	own(1, "other_id")
	own(4, "other_id")
}

func (w *world) swept(groups ...string) {
	w.told.observer(reaper.Report{Started: time.Now(), Complete: true, Groups: groups, Policies: map[string]*reaper.Counts{"orders": {Locks: 2}, "default": {}}})
	synctest.Wait()
	time.Sleep(time.Second)
	synctest.Wait()
}

// TestShardMetrics: after a sweep the metrics say how many shards have no owner, or another one than
// the plan says. Only the active reaper has them. A group that has ended is forgotten.
func TestShardMetrics(t *testing.T) {
	simulate(t, Options{}, func(w *world) {
		w.group("orders/parts")
		w.hold(w.told.locks, "orders/x/plan", 0) // no group
		w.swept("orders/parts", "orders/x", "orders/gone")
		scrape := w.get("/metrics").Body.String()
		for _, want := range []string{"shards{%s} 5", "shards_unowned{%s} 2", "shards_moving{%s} 1", "shards_oldest_plan_timestamp_seconds{%s} 1.764365e+09", "shard_groups_without_plan{%s} 0"} {
			if want = "holdfast_reaper_" + fmt.Sprintf(want, `policy="orders",root="/locks"`); !strings.Contains(scrape, want+"\n") {
				t.Errorf("no %s", want)
			}
		}
		if n := strings.Count(scrape, "\nholdfast_reaper_shards_unowned{"); n != 1 {
			t.Errorf("%d policies have groups", n)
		}
		var status struct{ Roots []RootState }
		if err := json.Unmarshal(w.get("/api/v1/status").Body.Bytes(), &status); err != nil {
			t.Fatal(err)
		}
		want := GroupState{Name: "orders/parts", Members: 1, Shards: 5, Unowned: 2, Moving: 1, Planned: time.Unix(1764365000, 0).UTC()}
		if r := status.Roots[0]; r.GroupsFound != 1 || len(r.Groups) != 1 || r.Groups[0] != want {
			t.Errorf("the status has the groups %+v, want %+v", r.Groups, want)
		}
		w.swept()
		if a := w.get("/api/v1/status"); !strings.Contains(a.Body.String(), `"shard_groups": []`) && !strings.Contains(a.Body.String(), `"shard_groups":[]`) {
			t.Error("the status has a group that has ended")
		}
		if strings.Contains(w.get("/metrics").Body.String(), "shards_unowned{") {
			t.Error("a group that has ended has metrics")
		}
		w.swept("orders/parts")
		w.told.mu.Lock()
		w.told.status.ActiveSince = time.Now().Add(time.Second)
		w.told.mu.Unlock()
		if strings.Contains(w.get("/metrics").Body.String(), "shards_unowned{") {
			t.Error("a reaper that has become active since has metrics of earlier sweeps")
		}
	})
}
