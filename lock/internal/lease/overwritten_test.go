package lease

import (
	"errors"
	"testing"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestOverwrittenBy: only a force-release of the entry's own incarnation is ErrBroken. The record
// of another incarnation is ErrAttached.
func TestOverwrittenBy(t *testing.T) {
	made := Terms{}
	enqueued := Terms{Detached: true}
	attached := Terms{Incarnation: 1, Attachment: "ours"}
	broken := &znode.Broken{Owner: "root"}
	for _, tt := range []struct {
		name  string
		entry Terms
		found znode.Record
		want  error
	}{
		{"made anew, broken", made, znode.Record{Broken: broken}, ErrBroken},
		{"made anew, overwritten", made, znode.Record{}, ErrTaken},
		{"made anew, attached to", made, znode.Record{Incarnation: 1, Attachment: "theirs"}, ErrAttached},
		{"made anew, attached to, broken", made, znode.Record{Incarnation: 1, Attachment: "theirs", Broken: broken}, ErrAttached},
		{"made anew, attached to, put back", made, znode.Record{Detached: true}, ErrAttached},
		{"made anew, attached to, put back, broken", made, znode.Record{Detached: true, Broken: broken}, ErrAttached},
		{"enqueued, broken", enqueued, znode.Record{Detached: true, Broken: broken}, ErrBroken},
		{"enqueued, attached to, put back", enqueued, znode.Record{Detached: true}, ErrAttached},
		{"enqueued, attached to", enqueued, znode.Record{Incarnation: 1, Attachment: "theirs"}, ErrAttached},
		{"attached, broken", attached, znode.Record{Incarnation: 1, Attachment: "ours", Broken: broken}, ErrBroken},
		{"attached, overwritten", attached, znode.Record{Incarnation: 1, Attachment: "ours"}, ErrTaken},
		{"attached, attached to", attached, znode.Record{Incarnation: 2, Attachment: "theirs"}, ErrAttached},
		{"attached, put back by us, broken", attached, znode.Record{Detached: true, Broken: broken}, ErrAttached},
		{"attached, put back by us, attached to, broken", attached, znode.Record{Incarnation: 1, Attachment: "theirs", Broken: broken}, ErrAttached},
	} {
		tt.found.TTL = testTTL.Milliseconds()
		if got := tt.entry.OverwrittenBy(tt.found.Encode()); !errors.Is(got, tt.want) || errors.Is(got, ErrAttached) != (tt.want == ErrAttached) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
	if got := made.OverwrittenBy([]byte("10.0.0.1")); got != ErrTaken {
		t.Errorf("no record: got %v, want %v", got, ErrTaken)
	}
}
