package txnlog

import (
	"errors"
	"iter"
	"time"
)

// Snapshot is a snapshot file: all nodes and sessions as of Zxid, and maybe some later changes.
type Snapshot struct {
	Path string
	Zxid int64
	Size int64

	dir         int
	compression string // "", "gz", "snappy"
}

// Session is a client's session that a snapshot shows as open.
type Session struct {
	ID      int64
	Timeout time.Duration
}

// Snapshots returns all snapshots, in the order of their zxids.
func (l *Log) Snapshots() []*Snapshot { return append([]*Snapshot(nil), l.snaps...) }

// SnapshotsFor returns the snapshots that the range can follow, the newest first: the state before
// the range is that snapshot, and all transactions from Snapshot.Zxid + 1 on. An empty ensemble
// needs none.
func (l *Log) SnapshotsFor(r Range) []*Snapshot { return nil }

// Sessions returns the sessions that were open.
func (s *Snapshot) Sessions() iter.Seq2[Session, error] {
	return func(yield func(Session, error) bool) { yield(Session{}, errors.New("not yet")) }
}

// Nodes returns all nodes, parents before their children. An error ends the iteration: the snapshot
// is incomplete or damaged, and another one should be used.
func (s *Snapshot) Nodes() iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) { yield(Node{}, errors.New("not yet")) }
}
