package list

import (
	"bytes"
	"github.com/go-zookeeper/zk"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
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
		"show-broken": {State: func() admin.State {
			s := state("busy", "imports/a")
			s.Contenders = append([]admin.Contender(nil), s.Contenders...)
			s.Contenders[0].Broken = "by root (host node1, pid 7): it hangs"
			return s
		}()},
	} {
		q.Root, q.Path, q.Time, q.Policy = "/locks", "/locks/"+q.State.Name, at(noon), p
		for name, print := range map[string]func(*bytes.Buffer) error{
			file + ".txt":  func(b *bytes.Buffer) error { return q.Picture(b, false) },
			file + ".json": func(b *bytes.Buffer) error { return q.JSON(b) },
		} {
			var got bytes.Buffer
			if err := print(&got); err != nil {
				t.Fatal(err)
			}
			golden(t, name, got.Bytes())
		}
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

// golden compares got with the file in testdata. With -update it writes the file first.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
	}
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
