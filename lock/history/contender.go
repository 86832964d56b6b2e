package history

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// contender is an entry. A log may have hundreds of thousands at a time, so it has only what the
// events need, and no data.
type contender struct {
	znode.Name
	// Record is that of the last write that was one of this format, without its times and attempt.
	// Entries share it: it is never changed.
	Record   *znode.Record
	czxid    int64  // the transaction that created it
	owner    int64  // the session that it ends with; 0: none
	acquired int64  // time of the grant in its record, in Unix ms; 0: none
	written  point  // the last write by its owner, from which the lease counts
	stamp    stamp  // of that write
	session  int64  // session of that write
	granted  int64  // if in: the transaction with which its turn came
	since    stamp  // of granted; 0: before the log began
	breaker  int64  // the session that force-released it; 0: none
	plain    digest // of the last write by its owner, without expires_at; 0: decode the next write
	damaged  bool   // its data is not a record of this format
	in       bool   // its turn has come
	recorded bool   // its record has the grant
	lapsed   bool   // Expired was emitted, for this lease
	doubted  bool   // not seen since a gap in the log
	vague    bool   // its turn may have come before its lease ended, when the lock was not known
	fresh    bool   // created since the lock became partial
	unseen   bool   // its data is not known: the snapshot lacks it, or has that of a later write
}

// stat returns what tells whether the entry is leased.
func (c *contender) stat() znode.Stat { return znode.Stat{Czxid: c.czxid, EphemeralOwner: c.owner} }

// Leased, Granted, Shares and TTL are those of [znode.Entry].

func (c *contender) Leased() bool       { return c.Ours() && !c.damaged && c.owner == 0 }
func (c *contender) Granted() bool      { return c.Leased() && c.acquired > 0 }
func (c *contender) Shares() bool       { return c.Granted() && c.Record.Shared }
func (c *contender) TTL() time.Duration { return time.Duration(c.Record.TTL) * time.Millisecond }

func (c *contender) client() Client { return clientOf(c.Record) }

func clientOf(r *znode.Record) Client { return Client{r.Owner, r.Host, r.PID} }

// candidate reports whether the entry is of a candidate in an election. A candidate leads only once
// its grant is recorded.
func (c *contender) candidate() bool {
	_, ok := c.Record.Metadata[znode.ValueKey]
	return ok && !c.damaged
}

// role returns Event.Role of the entry.
func (c *contender) role(k znode.Kind) string {
	switch {
	case c.Role == znode.Shared:
		return "reads"
	case c.Role == znode.Writer:
		return "writes"
	case c.candidate():
		return fmt.Sprintf("priority %d", c.Priority())
	case k == znode.Semaphore && c.Permits > 1:
		return fmt.Sprintf("%d permits", c.Permits)
	case k == znode.Semaphore:
		return "1 permit"
	}
	return ""
}

// ends returns the end of the entry's lease, by the clock of the leader that stamped its last write;
// zero if the entry has no lease.
func (c *contender) ends() time.Time {
	if !c.Leased() {
		return time.Time{}
	}
	return c.stamp.time().Add(c.TTL())
}

// none is the Record of an entry that has not shown one.
var none znode.Record

// take gives the contender the record of e, the entry as the present write left it.
func (m *Machine) take(c *contender, e znode.Entry) {
	c.damaged, c.acquired, c.Record = e.Err != nil, e.Record.AcquiredAt, &none
	if e.Leased() {
		e.Record.Attachment = "" // no event needs it
		c.Record = m.records.Share(e.Record)
	}
}

// digest stands for data that is not kept: equal digests are those of equal data.
type digest uint64

var seed = maphash.MakeSeed()

// digestOf returns the digest of two parts; never 0.
func digestOf(a, b []byte) digest {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.Write(a) // never fails
	_ = h.WriteByte(0)
	_, _ = h.Write(b)
	return digest(max(1, h.Sum64()))
}

// expiresKey stands before the only number in a record that changes with each renewal.
var expiresKey = []byte(`"expires_at":`)

// plain returns the digest of a record's data without the number of expires_at, and that number;
// 0 if it has none.
func plain(data []byte) (digest, int64) {
	begin := bytes.Index(data, expiresKey) + len(expiresKey)
	end, expires := begin, int64(0)
	for end < len(data) && data[end] >= '0' && data[end] <= '9' && end < begin+15 {
		expires = expires*10 + int64(data[end]-'0')
		end++
	}
	if begin < len(expiresKey) || end == begin {
		return 0, 0
	}
	return digestOf(data[:begin], data[end:]), expires
}

// stamp is the stamp of a transaction, in Unix ms; 0: none.
type stamp int64

func stampOf(t time.Time) stamp {
	if t.IsZero() {
		return 0
	}
	return stamp(t.UnixMilli())
}

func (s stamp) time() time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(s)).UTC()
}
