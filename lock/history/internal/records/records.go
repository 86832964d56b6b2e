// Package records keeps the records of a log's entries in little memory: a log may have hundreds of
// thousands of entries at a time, whose records differ only in their times and attempts.
package records

import "github.com/holdfast-io/holdfast/lock/znode"

// Shared has a record of each shape.
type Shared map[shape]*znode.Record

// shape is what most records that a client writes have in common.
type shape struct {
	owner, host      string
	pid              int
	ttl              int64
	shared, detached bool
}

// maxShapes bounds the shapes that are remembered.
const maxShapes = 1 << 12

// Share returns the record without its times and attempt, the same one for records of one shape. It
// must not be changed.
func (s Shared) Share(r znode.Record) *znode.Record {
	r.ExpiresAt, r.AcquiredAt, r.Attempt = 0, 0, ""
	if r.Version != znode.Version || len(r.Metadata) > 0 || r.Broken != nil || r.Incarnation != 0 || r.Attachment != "" {
		return &r
	}
	key := shape{r.Owner, r.Host, r.PID, r.TTL, r.Shared, r.Detached}
	if known := s[key]; known != nil {
		return known
	}
	if len(s) == maxShapes {
		clear(s)
	}
	s[key] = &r
	return &r
}
