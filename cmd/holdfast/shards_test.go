package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/golden"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/shard"
)

func TestPrintShards(t *testing.T) {
	now := time.Unix(1764365000, 0)
	at := admin.Time{Zxid: 1, Lower: time.Duration(now.UnixNano()), Upper: time.Duration(now.UnixNano())}
	s := shard.Status{
		Group: "orders/partitions", Number: 4, Planned: now.Add(-90 * time.Second),
		Members: []shard.Member{
			{ID: "aaaaaaaa", Name: "blue\x1b", Owner: "shop", Host: "node1", PID: 17, Weight: 1, Leads: true, Shards: 2, Owns: 1},
			{ID: "bbbbbbbb", Owner: "shop", Host: "node2", PID: 18, Weight: 2, Shards: 2, Owns: 2},
		},
		Shards: []shard.Shard{{Planned: "aaaaaaaa"}, {Planned: "aaaaaaaa", Owner: "bbbbbbbb"}, {Planned: "bbbbbbbb", Owner: "bbbbbbbb"}, {}},
	}
	leaderless := shard.Status{Group: "other", Number: 1, Shards: []shard.Shard{{Owner: "cccccccc"}}}
	var got bytes.Buffer
	for _, print := range []func() error{
		func() error { return printGroups(&got, "/locks", []shard.Status{s, leaderless}, at, false, false) },
		func() error { return printGroups(&got, "/locks", []shard.Status{s}, at, true, false) },
		func() error { return printGroups(&got, "/locks", nil, at, false, false) },
		func() error { return printGroup(&got, s, at, false, false) },
		func() error { return printGroup(&got, leaderless, at, false, false) },
		func() error { return printGroup(&got, s, admin.Time{}, true, false) },
	} {
		iferr.Fatal(t, print())
		got.WriteByte('\n')
	}
	golden.Check(t, "shards.txt", got.Bytes())
}

// acquired observes a client, and has an event for each lock that the client acquires.
type acquired chan lock.Event

func (a acquired) Observe(_ context.Context, e lock.Event) {
	if e.Kind == lock.EventAcquired {
		a <- e
	}
}

// TestShards: holdfast shards lists groups and shows one, with and without its owners.
func TestShards(t *testing.T) {
	taken := make(acquired, 100)
	_, locks := served(t, lock.WithOwner("shop"), lock.WithObserver(taken))
	if out, errs, status := holdfast(t, "shards"); status != 0 || out != "no groups of shards below /locks\n" {
		t.Errorf("without groups: status %d, %s%s", status, out, errs)
	}
	if _, errs, status := holdfast(t, "shards", "orders/partitions"); status != 1 || !strings.Contains(errs, `group "orders/partitions" has neither members`) {
		t.Errorf("no such group: status %d, %s", status, errs)
	}
	g, err := shard.Join(t.Context(), locks, "orders/partitions", 8, shard.Options{Name: "blue"})
	iferr.Fatal(t, err)
	for range 9 { // the shards, and the lead of the group
		select {
		case <-taken:
		case <-time.After(time.Minute):
			t.Fatalf("%+v", locks.Stats())
		}
	}
	for _, c := range []struct{ args, says string }{
		{"", "orders/partitions  8"}, {"--fast", "orders/partitions  8"}, {"orders/partitions", "without an owner: none"},
		{"orders/partitions --fast", "8 shards"}, {"orders/partitions", "blue"},
	} {
		if out, errs, status := holdfast(t, strings.Fields("shards "+c.args)...); status != 0 || !strings.Contains(out, c.says) {
			t.Errorf("shards %s: status %d, %s%s", c.args, status, out, errs)
		}
	}
	out, errs, status := holdfast(t, "shards", "orders/partitions", "--json")
	var got struct{ Groups []shard.Status }
	if err := json.Unmarshal([]byte(out), &got); status != 0 || err != nil || len(got.Groups) != 1 || got.Groups[0].Unowned() != 0 || got.Groups[0].Members[0].Owns != 8 {
		t.Errorf("--json: status %d, %v, %s%s", status, err, out, errs)
	}
	iferr.Fatal(t, g.Leave(t.Context()))
}

// TestShardsOfAnIncompleteListing: if a node could not be read, shards prints what it has read, also if
// that has no group.
func TestShardsOfAnIncompleteListing(t *testing.T) {
	served(t)
	create(t, "/locks", "", 0, zk.WorldACL(zk.PermAll))
	create(t, "/locks/secret", "", 0, zk.DigestACL(zk.PermAll, "other", "password"))
	for arg, want := range map[string]string{"--json": "{\n  \"groups\": []\n}\n", "--json=false": "no groups of shards below /locks\n"} {
		out, errs, status := holdfast(t, "shards", arg)
		if status != app.StatusFailed || out != want || !strings.Contains(errs, "/locks/secret") {
			t.Errorf("%s: status %d, prints %q, says %q", arg, status, out, errs)
		}
	}
}
