package audited

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestObserve: the observed transactions, applied to an empty state, give the ensemble's data.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ens := locktest.Start(t, locktest.Options{Members: 3, Latency: func(string, string) time.Duration { return time.Microsecond }})
		state, kinds, last := txnlog.NewState(), map[txnlog.OpKind]int{}, int64(0)
		ens.Observe(func(observed locktest.Txn) {
			x := Logged(observed)
			if x.Zxid <= last || x.Time.UnixMilli() != time.Now().UnixMilli() || x.Session == 0 {
				t.Errorf("after %#x: %+v", last, x)
			}
			last = x.Zxid
			for _, o := range x.Ops {
				kinds[o.Kind]++
			}
			state.Apply(&x)
		})
		acl := zk.WorldACL(zk.PermAll)
		for _, label := range []string{"a", "b"} {
			z, _, err := zk.Connect(ens.Servers(), 4*time.Second, zk.WithDialer(ens.Dialer(label)), zk.WithLogInfo(false))
			iferr.Fatal(t, err)
			for i := range 3 {
				_, err = z.Create("/"+label+"-", []byte{byte(i)}, zk.FlagSequence, acl)
				iferr.Fatal(t, err)
			}
			_, _ = z.Create("/missing/node", nil, 0, acl)
			_, err = z.Create("/"+label, nil, zk.FlagEphemeral, acl)
			if err == nil {
				_, err = z.Multi(
					&zk.CreateRequest{Path: "/x", Acl: acl}, &zk.CheckVersionRequest{Path: "/x", Version: 0},
					&zk.SetDataRequest{Path: "/x", Data: []byte(label), Version: 0}, &zk.DeleteRequest{Path: "/x", Version: 1},
					&zk.CreateRequest{Path: "/of-" + label, Data: []byte("1"), Acl: acl}, &zk.SetDataRequest{Path: "/of-" + label, Data: []byte("2"), Version: 0})
			}
			if err == nil {
				_, err = z.SetACL("/of-"+label, zk.WorldACL(zk.PermRead), 0)
			}
			iferr.Fatal(t, err)
			z.Close()
			synctest.Wait()
			ens.StopLeader() // the next epoch; a later client's leader is one of the two others
			if label == "a" {
				for _, member := range ens.Servers() {
					iferr.Fatal(t, ens.Start(member))
				}
			}
		}
		ens.Observe(nil)
		for _, n := range ens.Dump("/") {
			got, there := state[n.Path]
			if n.Path == "/" || strings.HasPrefix(n.Path, "/zookeeper") {
				continue
			}
			if !there || string(got.Data) != string(n.Data) || got.Czxid != n.Stat.Czxid || got.Mzxid != n.Stat.Mzxid ||
				got.Version != n.Stat.Version || got.Mtime.UnixMilli() != n.Stat.Mtime {
				t.Errorf("the log says %+v; the ensemble has %+v", got, n)
			}
		}
		if want := len(ens.Dump("/")) - 3; len(state) != want { // ZooKeeper's own nodes are in no log
			t.Errorf("%d nodes by the log, %d in the ensemble", len(state), want)
		}
		for _, kind := range []txnlog.OpKind{txnlog.OpBeginSession, txnlog.OpCloseSession, txnlog.OpError, txnlog.OpCheck, txnlog.OpSetACL} {
			if kinds[kind] == 0 {
				t.Errorf("no operation of kind %d", kind)
			}
		}
	})
}
