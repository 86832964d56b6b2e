package reaper

import (
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// epoch is the epoch of most nodes in these tests, all written at 100 s.
const epoch = 3

func zxid(epoch, n int64) int64 { return epoch<<32 + n }

// at returns the ensemble time of a sample at ms milliseconds, by transaction n of the nodes' epoch.
// The term is as old as the epoch.
func at(ms, n int64) admin.Time { return in(epoch, ms, n) }

// in returns the ensemble time of a sample at ms milliseconds, by transaction n of the given epoch. The
// epoch's mark has not been read yet.
func in(epoch, ms, n int64) admin.Time {
	return admin.Time{
		Zxid: zxid(epoch, n), Term: zxid(epoch, 0),
		Lower: time.Duration(ms) * time.Millisecond, Upper: time.Duration(ms+5) * time.Millisecond,
		Since: time.Duration(ms) * time.Millisecond,
	}
}

// marked returns the time with the epoch's mark, stamped at since milliseconds.
func marked(now admin.Time, since int64) admin.Time {
	now.Marked, now.Since = true, time.Duration(since)*time.Millisecond
	return now
}

// stepped returns the time in a term that began with transaction n, at since milliseconds.
func stepped(now admin.Time, n, since int64) admin.Time {
	now = marked(now, since)
	now.Term += n
	return now
}

var rules = policy.Rule{
	Policy:      lock.Policy{TTL: 10 * time.Second, MaxTTL: time.Minute, Grace: time.Second},
	OrphanAfter: 30 * time.Second,
}

func TestJudgeEntry(t *testing.T) {
	const id, foreign = "9f86d081884c7d65", "_c_0123"
	record := (&znode.Record{Owner: "o", TTL: 10_000, ExpiresAt: 110_000}).Encode()
	wrong := (&znode.Record{Owner: "o", TTL: 10_000, ExpiresAt: 9_000_000}).Encode()
	long := (&znode.Record{Owner: "o", TTL: 120_000, ExpiresAt: 110_000}).Encode()
	leased := znode.Stat{Mtime: 100_000, Mzxid: zxid(epoch, 50)} // ends at 110 s, 111 s with the grace
	ephemeral, above := leased, leased
	ephemeral.EphemeralOwner, above.NumChildren = 7, 1
	own := 11*time.Second + 6500*time.Microsecond // the lease and the grace, by a clock that may be 500 ppm slow
	for _, tt := range []struct {
		name string
		node string
		data []byte
		stat znode.Stat
		now  admin.Time
		seen time.Duration
		want Verdict
	}{
		{"its lease runs", id + "-lock-", record, leased, at(109_000, 60), 0, Live},
		{"within the grace", id + "-lock-", record, leased, at(111_000, 60), 0, Live},
		{"past the grace", id + "-lock-", record, leased, at(111_001, 60), 0, Expired},
		{"a reader's too", id + "-__READ__", record, leased, at(111_001, 60), 0, Expired},
		{"the time is as old as the record", id + "-lock-", record, leased, at(111_001, 50), 0, Unproven},
		{"the time is older, but the lease runs", id + "-lock-", record, leased, at(100_000, 3), 0, Live},
		{"what it tells people is no verdict", id + "-lock-", wrong, leased, at(111_001, 60), 0, Expired},
		{"longer than max_ttl now is", id + "-lock-", long, leased, at(220_000, 60), 0, Live},
		{"and over", id + "-lock-", long, leased, at(221_001, 60), 0, Expired},
		{"nothing is known of the time", id + "-lock-", record, leased, admin.Time{}, 0, Unproven},

		{"of another library", foreign + "-lock-", record, leased, at(999_000, 60), time.Hour, Foreign},
		{"ephemeral", id + "-lock-", record, ephemeral, at(999_000, 60), time.Hour, Foreign},
		{"with nodes below", id + "-lock-", record, above, at(999_000, 60), time.Hour, Foreign},
		{"no data", id + "-lock-", nil, leased, at(999_000, 60), time.Hour, Undecodable},
		{"garbage", id + "-lock-", []byte("garbage"), leased, at(999_000, 60), time.Hour, Undecodable},
		{"a newer version", id + "-lock-", []byte(`{"holdfast":3}`), leased, at(999_000, 60), time.Hour, Undecodable},

		{"a lower version", id + "-lock-", []byte(`{"holdfast":1,"owner":"o","ttl_ms":1,"expires_at":1}`), leased, at(999_000, 60), time.Hour, Undecodable},

		{"a new leader, whose mark is not known", id + "-lock-", record, leased, in(epoch+1, 999_000, 60), 0, Unproven},
		{"who has begun just now", id + "-lock-", record, leased, marked(in(epoch+1, 999_000, 60), 990_000), 0, Live},
		{"a lease and the grace ago", id + "-lock-", record, leased, marked(in(epoch+1, 999_000, 60), 988_000), 0, Live},
		{"and longer", id + "-lock-", record, leased, marked(in(epoch+1, 999_000, 60), 987_999), 0, Expired},
		{"whose clock is behind", id + "-lock-", record, leased, marked(in(epoch+1, 20_000, 60), 8_999), 0, Expired},
		{"by the sample of an old leader", id + "-lock-", record, leased, marked(in(epoch-1, 999_000, 60), 0), 0, Unproven},

		{"written before the clock was set", id + "-lock-", record, leased, stepped(at(999_000, 60), 55, 988_000), 0, Live},
		{"and long ago", id + "-lock-", record, leased, stepped(at(999_000, 60), 55, 987_999), 0, Expired},
		{"written since the clock was set", id + "-lock-", record, leased, stepped(at(111_001, 60), 50, 99_000), 0, Expired},

		{"known for long, by the own clock", id + "-lock-", record, leased, marked(in(epoch+9, 999_000, 60), 999_000), own + 1, Expired},
		{"and not long enough", id + "-lock-", record, leased, marked(in(epoch+9, 999_000, 60), 999_000), own, Live},
		{"even if nothing is known of the time", id + "-lock-", record, leased, admin.Time{}, own + 1, Expired},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name, ok := znode.Parse(tt.node + "0000000001")
			if !ok {
				t.Fatalf("%s is no entry", tt.node)
			}
			e := znode.ReadEntry(name, tt.data, tt.stat)
			if got, _ := JudgeEntry(e, tt.now, tt.seen, rules); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func TestJudgeParent(t *testing.T) {
	mutex := znode.Parent{Kind: znode.Mutex, Generation: znode.NewID()}.Encode()
	later := znode.Parent{Kind: "semaphore"}.Encode()
	dir := znode.Parent{Kind: znode.Dir}.Encode()
	adopted := znode.Parent{Kind: znode.Mutex, Adopted: true}.Encode()
	mark := znode.Parent{Kind: znode.Mark}.Encode()
	keep := rules
	keep.KeepParent = true
	own := 30*time.Second + 15*time.Millisecond // orphan_after, by a clock that may be 500 ppm slow
	for _, tt := range []struct {
		name    string
		data    []byte
		staying int
		now     admin.Time
		seen    time.Duration
		policy  policy.Rule
		want    Verdict
	}{
		{"somebody is there", mutex, 1, at(999_000, 60), time.Hour, rules, Live},
		{"just left", mutex, 0, at(130_000, 60), 0, rules, Young},
		{"left long ago", mutex, 0, at(130_001, 60), 0, rules, Orphan},
		{"of a later kind", later, 0, at(130_001, 60), 0, rules, Orphan},
		{"the time is as old as the node", mutex, 0, at(130_001, 50), 0, rules, Unproven},
		{"kept by policy", mutex, 0, at(999_000, 60), time.Hour, keep, Kept},
		{"not made by us", adopted, 0, at(999_000, 60), time.Hour, rules, Kept},
		{"the mark of an epoch", mark, 0, at(999_000, 60), time.Hour, rules, Kept},
		{"an ancestor", dir, 0, at(130_001, 60), 0, rules, Ancestor},
		{"an ancestor is not kept by policy", dir, 0, at(130_001, 60), 0, keep, Ancestor},
		{"an ancestor in use", dir, 2, at(999_000, 60), time.Hour, rules, Live},
		{"a young ancestor", dir, 0, at(129_000, 60), 0, rules, Young},
		{"no data", nil, 0, at(999_000, 60), time.Hour, rules, Foreign},
		{"somebody's data", []byte("10.0.0.1"), 0, at(999_000, 60), time.Hour, rules, Foreign},
		{"a newer version", []byte(`{"holdfast":3}`), 0, at(999_000, 60), time.Hour, rules, Undecodable},
		{"a lower version", []byte(`{"holdfast":1,"kind":"mutex"}`), 0, at(999_000, 60), time.Hour, rules, Foreign},

		{"a new leader, whose mark is not known", mutex, 0, in(epoch+1, 999_000, 60), 0, rules, Unproven},
		{"who has not led for long", mutex, 0, marked(in(epoch+1, 999_000, 60), 969_000), 0, rules, Young},
		{"and for longer", mutex, 0, marked(in(epoch+1, 999_000, 60), 968_999), 0, rules, Orphan},
		{"an ancestor under a new leader", dir, 0, marked(in(epoch+1, 50_000, 60), 20_000), 0, rules, Young},
		{"by the sample of an old leader", dir, 0, marked(in(epoch-1, 999_000, 60), 0), 0, rules, Unproven},
		{"left before the clock was set", mutex, 0, stepped(at(999_000, 60), 55, 969_000), 0, rules, Young},

		{"known for long, by the own clock", mutex, 0, marked(in(epoch+9, 999_000, 60), 999_000), own + 1, rules, Orphan},
		{"and not long enough", mutex, 0, marked(in(epoch+9, 999_000, 60), 999_000), own, rules, Young},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stat := znode.Stat{Ctime: 90_000, Mtime: 100_000, Czxid: zxid(epoch, 40), Mzxid: zxid(epoch, 50)}
			if got := JudgeParent(znode.ReadNode(tt.data, stat), tt.staying, tt.now, tt.seen, tt.policy); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
			stat.EphemeralOwner = 1
			if got := JudgeParent(znode.ReadNode(tt.data, stat), tt.staying, tt.now, tt.seen, tt.policy); got != Foreign {
				t.Errorf("as an ephemeral node: %v, want foreign", got)
			}
		})
	}
}
