package queue

import (
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// observation is another's entry as it was read last, and for how long that is known: that
// nobody has written it since is one of the proofs that it has expired.
type observation struct {
	entry    znode.Entry
	since    time.Duration   // monotonic time since when this very version is known
	changed  <-chan zk.Event // of a watch; nil: it has to be read again
	reported <-chan zk.Event // the change that somebody waits to report
}

// shows reports whether it is of that very version of the entry. Of nothing it is not.
func (o *observation) shows(e *znode.Entry) bool {
	return o != nil && o.entry.Node == e.Node && o.entry.Stat.Mzxid == e.Stat.Mzxid
}

// observed is what is known of an entry that was just read, and before of the one that was
// read the last time; nil if none was.
func (c *contender) observed(before *observation, e znode.Entry) *observation {
	o := &observation{entry: e, since: c.Clock.Mono()}
	if before.shows(&e) {
		o.since = before.since
	}
	return o
}

// judge says whether an entry has expired, and if it has not when to look again, see
// [znode.Entry.Judge]. After an outage of ours everybody may have had one, so who has not
// written since gets a third of its TTL more.
func (c *contender) judge(o *observation, knew znode.Now) (znode.Verdict, time.Duration) {
	grace := c.Terms.Grace
	if c.resumed.before(o.entry.Stat.Mzxid, c.Conn.LastOutage(), c.Queue) {
		grace += o.entry.TTL() / 3
	}
	return o.entry.Judge(knew, grace, c.Clock.Mono()-o.since)
}
