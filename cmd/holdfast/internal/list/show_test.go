package list

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/golden"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/admin/jsonout"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestPicture: the picture and the JSON document of each queue equal its golden files.
func TestPicture(t *testing.T) {
	p := policy.Rule{Policy: lock.Policy{Name: "default", TTL: 30 * time.Second, Grace: 2 * time.Second, MaxHold: time.Hour}}
	for file, q := range map[string]Queue{
		"show-mutex":     {State: state("busy", "orders/42")},
		"show-rw":        {State: state("odd", "catalog")},
		"show-shares":    {State: state("odd", "downgraded")},
		"show-semaphore": {State: state("odd", "slots")},
		"show-torn":      {State: state("odd", "torn")},
		"show-crashed":   {State: state("odd", "crashed")},
		"show-wide":      {State: state("wide", "注文/四十二")},
		"show-none":      {State: admin.State{Name: "none"}},
		"show-dir":       {State: admin.State{Name: "old orders", Kind: znode.Dir}},
		"show-foreign": {Unconfigured: true, State: func() admin.State {
			s := state("busy", "orders/42")
			s.Contenders = append([]admin.Contender(nil), s.Contenders[2:]...)
			s.Contenders[0].Session = 0
			return s
		}()},
		"show-asked": {State: state("busy", "orders/42"), Asked: map[string]admin.Revocation{
			state("busy", "orders/42").Contenders[0].Path: {Owner: "ops", Host: "node9", PID: 3, Reason: "deploy", Stat: &zk.Stat{Mtime: noon.UnixMilli()}},
		}},
		"show-detached": {State: func() admin.State {
			s := state("busy", "imports/a")
			s.Contenders = append([]admin.Contender(nil), s.Contenders...)
			s.Contenders[0].Detached = true
			return s
		}()},
		"show-broken": {State: func() admin.State {
			s := state("busy", "imports/a")
			s.Contenders = append([]admin.Contender(nil), s.Contenders...)
			s.Contenders[0].Broken = "by root (host node1, pid 7): it hangs"
			return s
		}()},
	} {
		q.Root, q.Time, q.Policy = "/locks", at(noon), p
		var picture, document bytes.Buffer
		if err := errors.Join(q.Picture(&picture, false), jsonout.Document(&document, q.Document())); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, file+".txt", picture.Bytes())
		golden.Check(t, file+".json", document.Bytes())
	}
}

func state(listing, name string) admin.State {
	for _, s := range listings[listing].Nodes {
		if s.Name == name {
			return s
		}
	}
	panic("no lock " + name)
}

func TestInTheWay(t *testing.T) {
	for name, want := range map[string]string{
		"catalog": "a (node3, pid 1) and 1 more", "crashed": "a?[2Jb? (node3, pid 1)", "idle": "no client",
	} {
		if got := InTheWay(state("odd", name)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := InTheWay(admin.State{Kind: znode.Mutex}); got != "no client" {
		t.Error(got)
	}
}

// TestHeldUnderAnotherClock: a grant that lies ahead of the leader's clock was stamped by an earlier leader:
// for how long it lasts is not known, and is not told as nothing.
func TestHeldUnderAnotherClock(t *testing.T) {
	c := state("busy", "orders/42").Contenders[0]
	if age, known := held(c); !known || age < time.Second {
		t.Errorf("held for %v, known %v", age, known)
	}
	c.Acquired = noon.Add(time.Hour)
	if age, known := held(c); known {
		t.Errorf("granted an hour ahead: held for %v", age)
	}
}
