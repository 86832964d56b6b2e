package audit

import (
	"time"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// entry is a contender. A log may have hundreds of thousands at a time, so it has what differs from
// entry to entry, and shares the rest of its record.
type entry struct {
	znode.Name
	Record            *znode.Record // without its times and attempt; never changed
	czxid             int64         // the transaction that created it; 0: unknown
	expires, acquired int64         // times in its record, in Unix ms
	attempt           uint64        // the number in its record
	last              write
	damaged           bool // its data is not a record of this format
	ephemeral         bool // it ends with a session
}

// write is what the lease of an entry counts from.
type write struct {
	session int64
	now     time.Duration // see Audit.now
	gaps    int32         // see Audit.gaps
}

// moment is a write, and its transaction.
type moment struct {
	zxid int64
	write
}

// Leased, Granted, Shares, TTL and TokenSequence are those of [znode.Entry].

func (e *entry) Leased() bool       { return e.Ours() && !e.damaged && !e.ephemeral }
func (e *entry) Granted() bool      { return e.Leased() && e.acquired > 0 }
func (e *entry) Shares() bool       { return e.Granted() && e.Record.Shared }
func (e *entry) TTL() time.Duration { return time.Duration(e.Record.TTL) * time.Millisecond }

// record returns the whole record.
func (e *entry) record() znode.Record {
	r := *e.Record
	r.ExpiresAt, r.AcquiredAt = e.expires, e.acquired
	if e.attempt != 0 {
		r.Attempt = znode.FormatID(e.attempt)
	}
	return r
}

// take gives e the record that its last write left.
func (t *tree) take(e *entry, read znode.Entry) {
	r := &read.Record
	e.damaged, e.expires, e.acquired = read.Err != nil, r.ExpiresAt, r.AcquiredAt
	e.attempt, _ = znode.ParseID(r.Attempt) // one that is no number, or none, is 0
	e.Record = t.records.Share(*r)
}
