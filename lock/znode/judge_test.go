package znode_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock/znode"
	"pgregory.net/rapid"
)

const ms = time.Millisecond

// zxid returns the zxid of a transaction by its epoch, and its number in the epoch.
func zxid(epoch, number int64) int64 { return epoch<<32 | number }

// at returns the Stat of a node that transaction mzxid wrote last, at mtime.
func at(mzxid, mtime int64) znode.Stat { return znode.Stat{Mzxid: mzxid, Mtime: mtime} }

// known is the knowledge of a judge whose sample, the tenth transaction of epoch 5, was answered at
// once at 1000 s. The epoch's first known stamp is 990 s.
var known = znode.Now{
	Zxid: zxid(5, 10), Lower: 1000 * time.Second, Upper: 1000 * time.Second,
	Term: zxid(5, 0), Since: 990 * time.Second, Marked: true,
}

func unmarked(n znode.Now) znode.Now {
	n.Marked = false
	return n
}

// wide returns the knowledge with a window that is wider by the duration.
func wide(n znode.Now, by time.Duration) znode.Now {
	n.Upper += by
	return n
}

// after returns the knowledge after the local clock has advanced by d.
func after(n znode.Now, d time.Duration) znode.Now {
	n.Lower += d - d/znode.RateError
	n.Upper += d + d/znode.RateError
	return n
}

func TestPassed(t *testing.T) {
	const precision = 100 * ms
	within := known // the judge saw the clock displaced in transaction 8 of the epoch
	within.Term, within.Since = zxid(5, 8), 995*time.Second
	for _, tt := range []struct {
		name  string
		now   znode.Now
		stat  znode.Stat
		lasts time.Duration
		want  znode.Verdict
	}{
		{"without a sample", znode.Now{}, at(zxid(5, 1), 1), 0, znode.Unproven},

		{"same term, long before the end", known, at(zxid(5, 9), 999_000), time.Hour, znode.Live},
		{"same term, at the end", known, at(zxid(5, 9), 990_000), 10 * time.Second, znode.Live},
		{"same term, past it", known, at(zxid(5, 9), 989_999), 10 * time.Second, znode.Expired},
		{"same term, past it without the mark", unmarked(known), at(zxid(5, 9), 989_999), 10 * time.Second, znode.Expired},
		{"first of the epoch", known, at(zxid(5, 0), 989_999), 10 * time.Second, znode.Expired},

		{"as young as the sample, past the end", known, at(zxid(5, 10), 1), 0, znode.Unproven},
		{"younger than the sample, past the end", known, at(zxid(5, 11), 1), 0, znode.Unproven},
		{"younger than the sample, lives", known, at(zxid(5, 11), 999_000), time.Hour, znode.Live},

		{"epoch before, unmarked", unmarked(known), at(zxid(4, 99), 1), 0, znode.Unproven},
		{"epoch before, lives from the mark on", known, at(zxid(4, 99), 1), 10 * time.Second, znode.Live},
		{"epoch before, has expired from the mark on", known, at(zxid(4, 99), 1), 10*time.Second - ms, znode.Expired},
		{"epoch before, stamped in the future", known, at(zxid(4, 99), 1<<50), 10*time.Second - ms, znode.Expired},
		{"many epochs before", known, at(zxid(1, 1), 1<<50), 10*time.Second - ms, znode.Expired},

		{"later epoch, looks dead", known, at(zxid(6, 1), 1), 0, znode.Unproven},
		{"later epoch, looks alive", known, at(zxid(6, 1), 1<<50), time.Hour, znode.Unproven},

		{"same epoch, term before, looks dead", within, at(zxid(5, 7), 1), 5 * time.Second, znode.Live},
		{"same epoch, term before, has expired since", within, at(zxid(5, 7), 1<<50), 5*time.Second - ms, znode.Expired},
		{"first of the term", within, at(zxid(5, 8), 990_000), 10*time.Second - ms, znode.Expired},

		{"end within a narrow window", wide(known, precision), at(zxid(5, 9), 990_050), 10 * time.Second, znode.Live},
		{"end within a wide window", wide(known, precision+1), at(zxid(5, 9), 990_050), 10 * time.Second, znode.Unproven},
		{"end before a wide window", wide(known, time.Hour), at(zxid(5, 9), 989_999), 10 * time.Second, znode.Expired},
		{"end behind a wide window", wide(known, time.Hour), at(zxid(5, 9), 990_000), 2 * time.Hour, znode.Live},
	} {
		if got, wait := tt.now.Passed(tt.stat, tt.lasts, precision); got != tt.want || wait < 0 || wait > 0 != (got == znode.Live) {
			t.Errorf("%s: %v, and to wait for %v, want %v", tt.name, got, wait, tt.want)
		}
	}
}

// anyNow returns random knowledge of a judge, and anyStat a random Stat to judge.
func anyNow(t *rapid.T) znode.Now {
	epoch := rapid.Int64Range(1, 3).Draw(t, "epoch")
	number := rapid.Int64Range(1, 20).Draw(t, "sample")
	lower := 1000*time.Second + time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "lower"))
	n := znode.Now{
		Zxid: zxid(epoch, number), Lower: lower, Term: zxid(epoch, rapid.Int64Range(0, number).Draw(t, "term")),
		Upper:  lower + time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "width")),
		Since:  lower - time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "since")),
		Marked: rapid.Bool().Draw(t, "marked"),
	}
	return n
}

func anyStat(t *rapid.T) znode.Stat {
	return at(zxid(rapid.Int64Range(0, 4).Draw(t, "record's epoch"), rapid.Int64Range(0, 25).Draw(t, "record")),
		rapid.Int64Range(0, 5_000_000).Draw(t, "mtime"))
}

// TestWaitIsLongEnough: after the returned wait an entry is no longer live. After half of it, the
// entry has not expired.
func TestWaitIsLongEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, left := anyNow(t), time.Duration(rapid.Int64Range(int64(ms), int64(time.Hour)).Draw(t, "left"))
		precision := time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "precision"))
		stat := at(zxid(rapid.Int64Range(0, znode.Epoch(now.Zxid)).Draw(t, "record's epoch"), rapid.Int64Range(0, 25).Draw(t, "record")),
			rapid.Int64Range(0, 5_000_000).Draw(t, "mtime"))
		written := time.Duration(stat.Mtime) * ms
		if stat.Mzxid < now.Term { // the lease counts from the mark's stamp
			now.Marked, written = true, now.Since
		}
		lasts := now.Upper + left - written
		v, wait := now.Passed(stat, lasts, precision)
		if v != znode.Live || wait <= 0 {
			t.Fatalf("%v, and to wait for %v, with %v left: %+v judges %+v", v, wait, left, now, stat)
		}
		if again, _ := after(now, wait).Passed(stat, lasts, precision); again == znode.Live {
			t.Fatalf("still live after the wait of %v: %+v judges %+v", wait, now, stat)
		}
		if early, _ := after(now, wait/2-ms).Passed(stat, lasts, precision); early == znode.Expired {
			t.Fatalf("has expired after half of the wait of %v: %+v judges %+v", wait, now, stat)
		}
	})
}

// TestVerdictsStand: an expired entry stays expired, and a longer lease never expires earlier.
// A write before the term expires only with the epoch's mark, and counts from the term's earliest stamp.
func TestVerdictsStand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, stat := anyNow(t), anyStat(t)
		lasts := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "lasts"))
		precision := time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "precision"))
		v, _ := now.Passed(stat, lasts, precision)
		if v != znode.Expired {
			if longer, _ := now.Passed(stat, lasts+time.Minute, precision); longer == znode.Expired {
				t.Fatalf("%v, and with a longer lease it has expired: %+v judges %+v", v, now, stat)
			}
			return
		}
		if later, _ := after(now, time.Minute).Passed(stat, lasts, precision); later != znode.Expired {
			t.Fatalf("had expired, and is %v a minute later: %+v judges %+v", later, now, stat)
		}
		if stat.Mzxid >= now.Zxid {
			t.Fatalf("has expired by an older sample: %+v judges %+v", now, stat)
		}
		if before := stat.Mzxid < now.Term; before && (!now.Marked || now.Lower <= now.Since+lasts) {
			t.Fatalf("has expired by a stamp of another term: %+v judges %+v", now, stat)
		}
	})
}

// entry returns an entry of Holdfast with a lease of 10 s, which transaction mzxid wrote.
func entry(mzxid, mtime int64) znode.Entry {
	name, _ := znode.Parse(znode.Prefix(id1, znode.Exclusive) + "0000000001")
	record := znode.Record{Owner: "o", TTL: 10_000, ExpiresAt: 1}
	return znode.ReadEntry(name, record.Encode(), at(mzxid, mtime))
}

func TestJudge(t *testing.T) {
	const grace = time.Second
	lasts := 11*time.Second + 11*time.Second/znode.RateError + ms // on a clock that runs wrong
	for _, tt := range []struct {
		name  string
		entry znode.Entry
		now   znode.Now
		seen  time.Duration
		want  znode.Verdict
		most  time.Duration // longest time to wait
	}{
		{"lives by the leader's clock", entry(zxid(5, 9), 995_000), known, 0, znode.Live, 6*time.Second + 5*ms},
		{"dead by the leader's clock", entry(zxid(5, 9), 988_999), known, 0, znode.Expired, 0},
		{"within its grace", entry(zxid(5, 9), 989_001), known, 0, znode.Live, 10 * ms},
		{"expires_at says nothing", entry(zxid(5, 9), 999_000), known, 0, znode.Live, 11 * time.Second},
		{"alive, and judged again when our own clock tells", entry(zxid(5, 9), 999_999), known, 8 * time.Second, znode.Live, 3*time.Second + 10*ms},
		{"dead by our own clock, alive by the leader's", entry(zxid(5, 9), 999_999), known, lasts + 1, znode.Expired, 0},
		{"just not dead by our own clock", entry(zxid(6, 9), 999_999), known, lasts, znode.Unproven, 0},
		{"dead by our own clock, of a later epoch", entry(zxid(6, 9), 1<<50), known, lasts + 1, znode.Expired, 0},
		{"dead by our own clock, unmarked", entry(zxid(4, 9), 1), unmarked(known), lasts + 1, znode.Expired, 0},
		{"dead by our own clock, without a sample", entry(zxid(4, 9), 1), znode.Now{}, lasts + 1, znode.Expired, 0},
		{"nothing is known", entry(zxid(4, 9), 1), znode.Now{}, 0, znode.Unproven, 0},
		{"window as wide as a quarter of the grace", entry(zxid(5, 9), 989_100), wide(known, grace/4), 0, znode.Live, 110 * ms},
		{"window wider than that", entry(zxid(5, 9), 989_100), wide(known, grace/4+1), 0, znode.Unproven, 0},
	} {
		v, wait := tt.entry.Judge(tt.now, grace, tt.seen)
		if v != tt.want || wait < 0 || wait > tt.most {
			t.Errorf("%s: %v, and to wait for %v, want %v, and %v at most", tt.name, v, wait, tt.want, tt.most)
		}
	}
}

// TestUnleasedIsWaitedFor: an entry without a lease never expires, however old it is.
func TestUnleasedIsWaitedFor(t *testing.T) {
	ours := entry(zxid(5, 1), 1)
	record := ours.Record.Encode()
	foreign, _ := znode.Parse("_c_0123-lock-0000000001")
	ephemeral := ours.Stat
	ephemeral.EphemeralOwner = 7
	for name, e := range map[string]znode.Entry{
		"another library's": znode.ReadEntry(foreign, record, ours.Stat),
		"damaged":           znode.ReadEntry(ours.Name, record[1:], ours.Stat),
		"of a newer version": znode.ReadEntry(ours.Name,
			[]byte(`{"holdfast":3,"ttl_ms":1}`), ours.Stat),
		"of a lower version":  znode.ReadEntry(ours.Name, []byte(`{"holdfast":1,"ttl_ms":1}`), ours.Stat),
		"ends with a session": znode.ReadEntry(ours.Name, record, ephemeral),
	} {
		if v, wait := e.Judge(known, ms, 1000*time.Hour); v != znode.Live || wait != -1 || e.Leased() || e.Granted() {
			t.Errorf("%s: %v, to wait for %v, leased %v", name, v, wait, e.Leased())
		}
	}
	if v, _ := ours.Judge(known, ms, 0); v != znode.Expired || !ours.Leased() {
		t.Errorf("the case that the others are made from: %v", v)
	}
}

func TestRemovable(t *testing.T) {
	for _, tt := range []struct {
		name       string
		data       string
		children   int32
		anchored   bool
		owner      int64
		want, kept bool // removable; removable with a spent counter
	}{
		{"a lock's parent without its anchor", `{"holdfast":2,"kind":"mutex"}`, 0, false, 0, true, true},
		{"with its anchor alone", `{"holdfast":2,"kind":"rw"}`, 1, true, 0, true, true},
		{"with an entry", `{"holdfast":2,"kind":"mutex"}`, 1, false, 0, false, false},
		{"with an entry and its anchor", `{"holdfast":2,"kind":"semaphore"}`, 2, true, 0, false, false},
		{"of a kind to come", `{"holdfast":2,"kind":"later"}`, 0, false, 0, false, false},
		{"adopted", `{"holdfast":2,"kind":"mutex","adopted":true}`, 1, true, 0, false, true},
		{"adopted, with an entry", `{"holdfast":2,"kind":"mutex","adopted":true}`, 2, true, 0, false, false},
		{"an ancestor", `{"holdfast":2,"kind":"dir"}`, 0, false, 0, false, false},
		{"the mark of an epoch", `{"holdfast":2,"kind":"epoch"}`, 0, false, 0, false, false},
		{"empty", ``, 0, false, 0, false, false},
		{"foreign", `10.0.0.1`, 0, false, 0, false, false},
		{"of a newer version", `{"holdfast":3,"kind":"mutex"}`, 0, false, 0, false, false},
		{"of a lower version", `{"holdfast":1,"kind":"mutex"}`, 0, false, 0, false, false},
		{"ends with a session", `{"holdfast":2,"kind":"mutex"}`, 0, false, 7, false, false},
	} {
		n := znode.ReadNode([]byte(tt.data), znode.Stat{NumChildren: tt.children, EphemeralOwner: tt.owner})
		if got, spent := n.ParentRemovable(tt.anchored, false), n.ParentRemovable(tt.anchored, true); got != tt.want || spent != tt.kept {
			t.Errorf("%s: removable %v, and with its counter spent %v", tt.name, got, spent)
		}
	}
}

func TestVerdictsHaveNames(t *testing.T) {
	if got := fmt.Sprint(znode.Live, znode.Expired, znode.Unproven); got != "live expired unproven" {
		t.Error(got)
	}
}
