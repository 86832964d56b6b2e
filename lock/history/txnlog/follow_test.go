// Where the reading of a log begins, and what a snapshot lacks.

package txnlog

import (
	"fmt"
	"hash/adler32"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"
)

// snapshot returns the bytes of a snapshot with one session and the nodes, which have the zxids of their
// creation and last write.
func snapshot(nodes ...Node) []byte {
	b := u32(append([]byte("ZKSN"), 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0), 1)
	b = u32(u32(u64(b, 7), 12_000), 0) // a session, and no access control lists
	for _, n := range append([]Node{{}}, nodes...) {
		b = str(str(b, n.Path), string(n.Data))
		b = u64(u64(u64(u64(u64(b, -1), n.Czxid), max(n.Czxid, n.Mzxid)), start.UnixMilli()), start.UnixMilli())
		b = u64(u64(u32(u32(u32(b, 0), 0), 0), 0), 0)
	}
	b = str(b, "/")
	return str(u64(b, int64(adler32.Checksum(b))), "/")
}

func created(zxid int64, path string) []byte {
	acl := str(str(u32(u32(nil, 1), 31), "world"), "anyone")
	return record(zxid, start, 1, u32(append(append(str(str(nil, path), ""), acl...), 0), 1))
}

func deleted(zxid int64, path string) []byte { return record(zxid, start, 2, str(nil, path)) }

// notes is a follower that notes what it is told.
type notes struct {
	blind bool
	told  []string
}

func (n *notes) Keep(path string) bool { return path != "/" && !strings.HasPrefix(path, "/other") }

func (n *notes) Begin(zxid int64, nodes iter.Seq2[Node, error]) error {
	s := fmt.Sprintf("begin %d:", zxid)
	for n, err := range nodes {
		if err != nil {
			return err
		}
		s += " " + n.Path
		if n.Lost {
			s += "?"
		}
	}
	n.told, n.blind = append(n.told, s), false
	return nil
}

func (n *notes) Opened(s Session) {
	n.told = append(n.told, fmt.Sprint("session ", s.ID, " ", s.Timeout))
}
func (n *notes) Gap()         { n.told, n.blind = append(n.told, "gap"), true }
func (n *notes) Blind() bool  { return n.blind }
func (n *notes) Apply(t *Txn) { n.told = append(n.told, fmt.Sprint(t.Zxid)) }

func TestFollow(t *testing.T) {
	at := func(zxid int64) []byte { return setData(zxid, start.Add(time.Duration(zxid)*time.Second), "data") }
	all := [][]byte{nil}
	for zxid := int64(1); zxid <= 9; zxid++ {
		all = append(all, at(zxid))
	}
	a, b := Node{Path: "/a", Czxid: 1}, Node{Path: "/b", Czxid: 2}
	damaged := snapshot(a)
	damaged[60] ^= 1
	for name, tt := range map[string]struct {
		files map[string][]byte
		r     Range
		want  string
		warns int
	}{
		"from the first transaction": {map[string][]byte{"log.1": file(all[1:4]...), "snapshot.0": snapshot(), "snapshot.2": snapshot(a)}, Range{}, "begin 0: 1 2 3", 0},
		"from an older snapshot":     {map[string][]byte{"log.3": file(all[3:5]...), "snapshot.2": snapshot(a, b), "snapshot.4": snapshot(a)}, Range{}, "begin 2: /a /b, session 7 12s, 3, 4", 0},
		"the newest that is older than the range": {
			map[string][]byte{"log.1": file(all[1:4]...), "log.4": file(all[4:]...), "snapshot.0": snapshot(), "snapshot.3": snapshot(a)},
			Range{Since: start.Add(6 * time.Second)}, "begin 3: /a, session 7 12s, 4, 5, 6, 7, 8, 9", 0},
		"the newest one is damaged": {map[string][]byte{"log.4": file(all[4:6]...), "snapshot.3": damaged, "snapshot.1": snapshot(a), "log.2": file(all[2:4]...)}, Range{From: 4}, "gap, begin 1: /a, session 7 12s, 2, 3, 4, 5", 1},
		"purged: the log begins before the snapshot": {
			map[string][]byte{"log.3": file(all[3:7]...), "snapshot.5": snapshot(a), "snapshot.6": snapshot(b)}, Range{}, "gap, 3, 4, 5, begin 5: /a, session 7 12s, 6", 0},
		"a snapshot at the end": {map[string][]byte{"log.3": file(all[3:6]...), "snapshot.5": snapshot(a)}, Range{}, "gap, 3, 4, 5, begin 5: /a, session 7 12s", 0},
		"no snapshot":           {map[string][]byte{"log.3": file(all[3:6]...)}, Range{}, "gap, 3, 4, 5", 0},
		"a gap, and a snapshot of its end": {map[string][]byte{"log.1": file(all[1:4]...), "log.6": file(all[6:8]...), "snapshot.4": snapshot(), "snapshot.5": snapshot(a)}, Range{},
			"begin 0: 1, 2, 3, gap, begin 5: /a, session 7 12s, 6, 7", 1},
		"a gap, and a snapshot later": {map[string][]byte{"log.1": file(all[1:4]...), "log.6": file(all[6:8]...), "snapshot.4": snapshot(), "snapshot.6": snapshot(a)}, Range{},
			"begin 0: 1, 2, 3, gap, 6, begin 6: /a, session 7 12s, 7", 1},
		"a leader sent the beginning of its epoch": {map[string][]byte{"log.1": file(all[1:4]...), "snapshot.100000000": snapshot(a), "log.100000001": file(run(1, 1, 1, "a")...)}, Range{},
			"begin 0: 1, 2, 3, gap, begin 4294967296: /a, session 7 12s, 4294967297", 1},
		"a new ensemble of several servers": {map[string][]byte{"snapshot.0": snapshot(), "log.100000001": file(run(1, 1, 2, "a")...)}, Range{},
			"begin 0:, session 7 12s, 4294967297, 4294967298", 0},
		"a server alone numbers on into the next epoch": {map[string][]byte{"snapshot.ffffffff": snapshot(a), "log.100000000": file(run(1, 0, 1, "a")...)}, Range{},
			"begin 4294967295: /a, session 7 12s, 4294967296, 4294967297", 0},
		"the first epochs are missing": {map[string][]byte{"snapshot.0": snapshot(), "log.200000001": file(run(2, 1, 2, "a")...)}, Range{},
			"gap, 8589934593, 8589934594", 0},
		"nodes that change while they are saved": {map[string][]byte{"log.3": file(all[3], created(4, "/c"), deleted(5, "/d"), deleted(6, "/c"), created(7, "/d"), deleted(8, "/other/d")),
			"snapshot.2": snapshot(a, Node{Path: "/c", Czxid: 4}, Node{Path: "/d", Czxid: 7}, b)}, Range{}, "begin 2: /a /b /d?, session 7 12s, 3, 4, 5, 6, 7, 8", 0},
		"a node that a restore of the data brings back is deleted twice": {map[string][]byte{"log.3": file(all[3], created(4, "/c"), deleted(5, "/c"), deleted(6, "/c"), deleted(7, "/d")), "snapshot.2": snapshot(a)},
			Range{}, "begin 2: /a /d?, session 7 12s, 3, 4, 5, 6, 7", 0},
	} {
		n, warns := &notes{}, 0
		if _, err := mustOpen(t, write(t, tt.files)).Follow(t.Context(), tt.r, n, func(error) { warns++ }); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(n.told, ", ")
		if strings.ReplaceAll(got, ",", "") != strings.ReplaceAll(tt.want, ",", "") || warns != tt.warns {
			t.Errorf("%s: %d warnings, %s\nwant %s", name, warns, got, tt.want)
		}
	}
}

// TestFollowDoubtsSnapshots: a snapshot of transactions that the next leader may have discarded, because no
// log has them or another folder goes on without them, is not what f begins with.
func TestFollowDoubtsSnapshots(t *testing.T) {
	a := Node{Path: "/a", Czxid: 1}
	name := func(kind string, zxid int64) string { return fmt.Sprintf("%s.%x", kind, zxid) }
	for what, tt := range map[string]struct {
		folders []map[string][]byte
		since   time.Time
		want    []int64 // transactions with which f begins
	}{
		"no log has them": {[]map[string][]byte{
			{"log.3": file(run(1, 3, 5, "a")...), name("snapshot", zx(1, 7)): snapshot(a), name("log", zx(2, 1)): file(run(2, 1, 5, "a")...), name("snapshot", zx(2, 3)): snapshot(a)},
		}, time.Time{}, []int64{zx(2, 3)}},
		"a later snapshot shows them": {[]map[string][]byte{
			{"log.3": file(run(1, 3, 5, "a")...), name("snapshot", zx(1, 7)): snapshot(a), name("log", zx(2, 1)): file(run(2, 1, 5, "a")...),
				name("snapshot", zx(2, 3)): snapshot(a, Node{Path: "/ghost", Czxid: zx(1, 6)}), name("snapshot", zx(2, 4)): snapshot(a)},
		}, time.Time{}, []int64{zx(2, 4)}},
		"another folder goes on without them": {[]map[string][]byte{
			{"log.3": file(run(1, 3, 7, "a")...), name("snapshot", zx(1, 7)): snapshot(a), name("log", zx(2, 1)): file(run(2, 1, 5, "a")...), name("snapshot", zx(2, 3)): snapshot(a)},
			{"log.3": file(run(1, 3, 5, "a")...), name("log", zx(2, 1)): file(run(2, 1, 5, "a")...)},
		}, time.Time{}, []int64{zx(2, 3)}},
		"all folders have them": {[]map[string][]byte{
			{"log.3": file(run(1, 3, 7, "a")...), name("snapshot", zx(1, 7)): snapshot(a), name("log", zx(2, 1)): file(run(2, 1, 5, "a")...)},
			{"log.3": file(run(1, 3, 7, "a")...), name("log", zx(2, 1)): file(run(2, 1, 5, "a")...)},
		}, time.Time{}, []int64{zx(1, 7)}},
		"before the range, no log has them": {[]map[string][]byte{
			{"log.3": file(run(1, 3, 5, "a")...), name("snapshot", zx(1, 4)): snapshot(a), name("snapshot", zx(1, 7)): snapshot(a), name("log", zx(2, 1)): file(run(2, 1, 5, "a")...)},
		}, start.Add(2*time.Hour + 3*time.Second), []int64{zx(1, 4)}},
		"before the range, another folder goes on without them": {[]map[string][]byte{
			{"log.3": file(run(1, 3, 7, "a")...), name("snapshot", zx(1, 4)): snapshot(a), name("snapshot", zx(1, 7)): snapshot(a), name("log", zx(2, 1)): file(run(2, 1, 5, "a")...)},
			{"log.3": file(run(1, 3, 5, "a")...), name("log", zx(2, 1)): file(run(2, 1, 5, "a")...)},
		}, start.Add(2*time.Hour + 3*time.Second), []int64{zx(1, 4)}},
		"before the range, a log has them": {[]map[string][]byte{
			{"log.3": file(run(1, 3, 7, "a")...), name("snapshot", zx(1, 4)): snapshot(a), name("snapshot", zx(1, 7)): snapshot(a), name("log", zx(2, 1)): file(run(2, 1, 5, "a")...)},
		}, start.Add(2*time.Hour + 3*time.Second), []int64{zx(1, 7)}},
		"before the range, a later snapshot shows what no log has": {[]map[string][]byte{
			{name("log", zx(1, 3)): file(run(1, 3, 5, "a")...), name("snapshot", zx(1, 4)): snapshot(a), name("log", zx(2, 1)): file(run(2, 1, 3, "a")...),
				name("snapshot", zx(2, 3)): snapshot(a, Node{Path: "/ghost", Czxid: zx(1, 6)}), name("log", zx(2, 4)): file(run(2, 4, 6, "a")...)},
		}, start.Add(2*time.Hour + 5*time.Second), []int64{zx(1, 4)}},
		"before the range, a later snapshot shows what only another one has": {[]map[string][]byte{
			{name("log", zx(1, 3)): file(run(1, 3, 5, "a")...), name("snapshot", zx(1, 4)): snapshot(a), name("snapshot", zx(1, 7)): snapshot(a), name("log", zx(2, 1)): file(run(2, 1, 3, "a")...),
				name("snapshot", zx(2, 3)): snapshot(a, Node{Path: "/ghost", Czxid: zx(1, 6)}), name("log", zx(2, 4)): file(run(2, 4, 6, "a")...)},
		}, start.Add(2*time.Hour + 5*time.Second), []int64{zx(1, 4)}},
		"before the range, a later snapshot shows what another folder lacks": {[]map[string][]byte{
			{name("log", zx(1, 3)): file(run(1, 3, 7, "a")...), name("snapshot", zx(1, 4)): snapshot(a), name("log", zx(2, 1)): file(run(2, 1, 3, "a")...),
				name("snapshot", zx(2, 3)): snapshot(a, Node{Path: "/ghost", Czxid: zx(1, 6)}), name("log", zx(2, 4)): file(run(2, 4, 6, "a")...)},
			{name("log", zx(1, 3)): file(run(1, 3, 5, "a")...), name("log", zx(2, 1)): file(run(2, 1, 3, "a")...), name("log", zx(2, 4)): file(run(2, 4, 6, "a")...)},
		}, start.Add(2*time.Hour + 5*time.Second), []int64{zx(1, 4)}},
		"before the range, a later snapshot shows what a leader sent with its epoch's beginning": {[]map[string][]byte{
			{name("log", zx(1, 3)): file(run(1, 3, 5, "a")...), name("snapshot", zx(2, 0)): snapshot(a), name("log", zx(2, 1)): file(run(2, 1, 3, "a")...),
				name("snapshot", zx(2, 3)): snapshot(Node{Path: "/a", Czxid: zx(1, 6)}), name("log", zx(2, 4)): file(run(2, 4, 6, "a")...)},
		}, start.Add(2*time.Hour + 5*time.Second), []int64{zx(2, 3)}},
		"after a gap, one of what another folder goes on without": {[]map[string][]byte{
			{name("log", zx(1, 5)): file(run(1, 5, 5, "a")...), name("snapshot", zx(1, 7)): snapshot(a), name("log", zx(2, 1)): file(run(2, 1, 5, "a")...), name("snapshot", zx(2, 3)): snapshot(a)},
			{name("log", zx(1, 5)): file(run(1, 5, 5, "a")...), name("log", zx(2, 1)): file(run(2, 1, 5, "a")...)},
		}, time.Time{}, []int64{zx(2, 3)}},
	} {
		var dirs []string
		for _, files := range tt.folders {
			dirs = append(dirs, write(t, files))
		}
		n := &notes{}
		if _, err := mustOpen(t, dirs...).Follow(t.Context(), Range{Since: tt.since}, n, func(error) {}); err != nil {
			t.Fatal(err)
		}
		var want, got []string
		for _, zxid := range tt.want {
			want = append(want, fmt.Sprintf("begin %d: /a", zxid))
		}
		for _, s := range n.told {
			if strings.HasPrefix(s, "begin") {
				got = append(got, s)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
}

// TestExactStopsAtAGap: a node that is deleted after a gap may have been created in it.
func TestExactStopsAtAGap(t *testing.T) {
	l := mustOpen(t, write(t, map[string][]byte{"log.3": file(deleted(3, "/a"), deleted(6, "/b"))}))
	var got []string
	for n := range Exact(2, func(func(Node, error) bool) {}, l.Txns(Range{From: 3}), func(string) bool { return true }) {
		got = append(got, n.Path)
	}
	if !slices.Equal(got, []string{"/a"}) {
		t.Errorf("lost: %q", got)
	}
}
