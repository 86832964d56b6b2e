// Where the reading of a log begins, and what a snapshot lacks.

package txnlog

import (
	"hash/adler32"
	"slices"
	"testing"
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
