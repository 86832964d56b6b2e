package reaper_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/holdfast-io/holdfast/reaper"
)

// TestFormat1: nodes of format 1 are counted, named and kept. With the option, expired and empty
// ones are deleted.
func TestFormat1(t *testing.T) {
	simulate(t, func(w *world) {
		z := w.raw("others")
		r := w.reaper("reaper", reaper.Options{})
		w.mustSweep(r)
		record := `{"holdfast":1,"owner":"old","ttl_ms":10000,"expires_at":1}`
		w.create(z, "/locks/old", `{"holdfast":1,"kind":"dir"}`, 0)
		w.create(z, "/locks/old/lock", `{"holdfast":1,"kind":"mutex","tail":"9f86d081884c7d65-lock-"}`, 0)
		dead := w.create(z, "/locks/old/lock/9f86d081884c7d65-lock-", record, zk.FlagSequence)
		alive := w.create(z, "/locks/old/lock/60303ae22b998861-lock-", record, zk.FlagSequence)
		w.create(z, "/locks/adopted", `{"holdfast":1,"kind":"mutex","adopted":true}`, 0)
		w.create(z, "/locks/"+znode.Inbox, string(znode.Parent{Kind: znode.Asked}.Encode()), 0)
		w.create(z, "/locks/"+znode.Inbox+"/9f86d081884c7d65", `{"holdfast":1,"entry":"old/lock/9f86d081884c7d65-lock-0000000000"}`, 0)
		time.Sleep(ttl + grace + orphan)
		before := w.paths()
		report := w.mustSweep(r)
		if c := report.Total; c.Format1 != 6 || c.Deleted+c.Expired+c.Orphans+c.Foreign+c.Undecodable != 0 || !slices.Equal(w.paths(), before) {
			t.Errorf("%+v, left %q", c, w.paths())
		}
		if len(report.Format1) != 6 || !slices.Contains(report.Format1, dead) {
			t.Errorf("%q", report.Format1)
		}
		if !strings.Contains(w.logged(), `"format_1":6`) {
			t.Error("the log does not tell")
		}

		if _, err := z.Set(alive, []byte(record), -1); err != nil { // an old process renews it
			t.Fatal(err)
		}
		deleting := w.reaper("deleting", reaper.Options{Format1: true})
		report = w.mustSweep(deleting)
		if c := report.Total; c.Format1 != 0 || c.Deleted != 2 || c.Expired != 1 || c.Stale != 1 || c.Live != 1 || c.Kept != 1 {
			t.Errorf("%+v, left %q", c, w.paths())
		}
		time.Sleep(ttl + grace + orphan)
		w.mustSweep(deleting)
		if left, want := w.paths(), []string{"", "/" + znode.Inbox, "/adopted"}; !slices.Equal(left, want) {
			t.Errorf("left %q, want %q", left, want)
		}
	})
}
