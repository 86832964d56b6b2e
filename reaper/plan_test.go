package reaper

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
)

func at(ms int64, zxid int64) lock.Time {
	return lock.Time{Earliest: time.UnixMilli(ms), Latest: time.UnixMilli(ms + 5), Zxid: zxid}
}

var rules = policy.Policy{
	Policy:      lock.Policy{TTL: 10 * time.Second, MaxTTL: time.Minute, Grace: time.Second},
	OrphanAfter: 30 * time.Second,
}

func TestJudgeEntry(t *testing.T) {
	const id = "9f86d081884c7d65"
	record := znode.Record{Owner: "o", TTL: 10_000, ExpiresAt: 110_000}
	broken := znode.Record{Owner: "o", TTL: 10_000, ExpiresAt: 9_000_000}
	stat := func() *zk.Stat { return &zk.Stat{Mtime: 100_000, Mzxid: 50} } // ends at 110 s, 111 s with the grace
	child := func(s *zk.Stat) *zk.Stat { s.NumChildren = 1; return s }
	ephemeral := func(s *zk.Stat) *zk.Stat { s.EphemeralOwner = 7; return s }
	for _, tt := range []struct {
		name string
		node string
		data []byte
		stat *zk.Stat
		now  lock.Time
		want Verdict
	}{
		{"its lease runs", id + "-lock-0000000001", record.Encode(), stat(), at(109_000, 60), Live},
		{"within the grace", id + "-lock-0000000001", record.Encode(), stat(), at(111_000, 60), Live},
		{"past the grace", id + "-lock-0000000001", record.Encode(), stat(), at(111_001, 60), Expired},
		{"a reader's too", id + "-__READ__0000000001", record.Encode(), stat(), at(111_001, 60), Expired},
		{"the time is as old as the record", id + "-lock-0000000001", record.Encode(), stat(), at(111_001, 50), Unproven},
		{"the time is older, but the lease runs", id + "-lock-0000000001", record.Encode(), stat(), at(100_000, 3), Live},
		{"a broken clock wrote it: capped by max_ttl", id + "-lock-0000000001", broken.Encode(), stat(), at(161_001, 60), Expired},
		{"and not before", id + "-lock-0000000001", broken.Encode(), stat(), at(161_000, 60), Live},
		{"another library's", "_c_0123-lock-0000000001", record.Encode(), stat(), at(999_000, 60), Foreign},
		{"ephemeral", id + "-lock-0000000001", record.Encode(), ephemeral(stat()), at(999_000, 60), Foreign},
		{"with nodes below", id + "-lock-0000000001", record.Encode(), child(stat()), at(999_000, 60), Foreign},
		{"no data", id + "-lock-0000000001", nil, stat(), at(999_000, 60), Undecodable},
		{"garbage", id + "-lock-0000000001", []byte("garbage"), stat(), at(999_000, 60), Undecodable},
		{"a newer version", id + "-lock-0000000001", []byte(`{"holdfast":2}`), stat(), at(999_000, 60), Undecodable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name, ok := znode.Parse(tt.node)
			if !ok {
				t.Fatalf("%s is no entry", tt.node)
			}
			if got := JudgeEntry(name, tt.data, tt.stat, tt.now, rules); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func TestJudgeParent(t *testing.T) {
	mutex := znode.Parent{Kind: znode.Mutex, Tail: "x"}.Encode()
	later := znode.Parent{Kind: "semaphore"}.Encode()
	dir := znode.Parent{Kind: znode.Dir}.Encode()
	adopted := znode.Parent{Kind: znode.Mutex, Adopted: true}.Encode()
	keep := rules
	keep.KeepParent = true
	for _, tt := range []struct {
		name    string
		data    []byte
		staying int
		now     lock.Time
		policy  policy.Policy
		want    Verdict
	}{
		{"somebody is there", mutex, 1, at(999_000, 60), rules, Live},
		{"just left", mutex, 0, at(130_000, 60), rules, Young},
		{"left long ago", mutex, 0, at(130_001, 60), rules, Orphan},
		{"of a later kind", later, 0, at(130_001, 60), rules, Orphan},
		{"the time is as old as the node", mutex, 0, at(130_001, 50), rules, Unproven},
		{"kept by policy", mutex, 0, at(999_000, 60), keep, Kept},
		{"not made by us", adopted, 0, at(999_000, 60), rules, Kept},
		{"an ancestor", dir, 0, at(130_001, 60), rules, Ancestor},
		{"an ancestor is not kept by policy", dir, 0, at(130_001, 60), keep, Ancestor},
		{"an ancestor in use", dir, 2, at(999_000, 60), rules, Live},
		{"a young ancestor", dir, 0, at(129_000, 60), rules, Young},
		{"no data", nil, 0, at(999_000, 60), rules, Foreign},
		{"somebody's data", []byte("10.0.0.1"), 0, at(999_000, 60), rules, Foreign},
		{"a newer version", []byte(`{"holdfast":2}`), 0, at(999_000, 60), rules, Undecodable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stat := &zk.Stat{Ctime: 90_000, Mtime: 100_000, Mzxid: 50}
			if got := JudgeParent(tt.data, stat, tt.staying, tt.now, tt.policy); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
			stat.EphemeralOwner = 1
			if got := JudgeParent(tt.data, stat, tt.staying, tt.now, tt.policy); got != Foreign {
				t.Errorf("as an ephemeral node: %v, want foreign", got)
			}
		})
	}
}
