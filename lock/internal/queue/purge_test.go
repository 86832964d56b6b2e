package queue

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// TestOldSampleTellsNothingOfAnOutage: what was written after the last sample that is older
// than an outage may be older than that too. Only a younger sample tells.
func TestOldSampleTellsNothingOfAnOutage(t *testing.T) {
	simulate(t, "", func(w *office) {
		parent := w.acquire("x").parent()
		write := func() int64 {
			replies, err := w.other.Multi(w.Ctx, nil, &zk.SetDataRequest{Path: parent, Data: w.node(parent), Version: -1})
			if err != nil {
				t.Fatal(err)
			}
			return replies[0].Stat.Mzxid
		}
		before := func(zxid int64, outage time.Duration) bool { return w.resumed.before(zxid, outage, w.Queue) }
		during := write()
		time.Sleep(time.Second)
		outage := w.Clock.Mono()
		if !before(during, outage) {
			t.Error("a sample from before the outage tells what is younger than that")
		}
		time.Sleep(time.Second)
		w.acquire("y") // takes one
		if !before(during, outage) {
			t.Error("what was written before the outage ended is taken for younger")
		}
		if before(write(), outage) {
			t.Error("what was written after the sample is not taken for younger")
		}
	})
}

func (w *office) node(path string) []byte {
	n, _ := w.Node(path)
	return n.Data
}
