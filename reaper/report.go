package reaper

import "time"

// Report is the result of one sweep.
type Report struct {
	Name     string        `json:"name,omitempty"` // name of the root, if a process has several
	Root     string        `json:"root"`
	Schedule string        `json:"schedule,omitempty"` // schedule of the sweep; "" for Reaper.Sweep
	Started  time.Time     `json:"started"`
	Duration time.Duration `json:"-"`
	Seconds  float64       `json:"seconds"`
	DryRun   bool          `json:"dry_run,omitempty"`
	// Complete is true if the sweep has read all nodes and tried all deletes. A node that an ACL
	// forbids does not make a sweep incomplete.
	Complete bool `json:"complete"`
	// Skipped is the reason why the sweep did nothing: another reaper is active. It is "" if the sweep
	// was not skipped.
	Skipped string `json:"skipped,omitempty"`
	// Error says why the sweep is not complete; "" if it is.
	Error string `json:"error,omitempty"`

	Total    Counts             `json:"total"`
	Policies map[string]*Counts `json:"policies"`
	// Denied are the first 100 nodes that an ACL forbids to delete or read: first the deletes, then
	// the reads, each sorted by path. Total.Denied counts all of them.
	Denied []Denial `json:"denied,omitempty"`
	// Undecodable are the paths of Holdfast's nodes that are damaged or of a newer version, and
	// block their locks: the first 100, sorted. Total.Undecodable counts all of them.
	Undecodable []string `json:"undecodable,omitempty"`
	// Groups are the names of nodes with a child plan: perhaps groups of package shard.
	Groups []string `json:"-"`
	// Worn are the paths of locks with Total.Worn, and Copied those of the entries with
	// Total.Copied: the first 100 of each, sorted. See [znode.Stat.Worn] and [znode.Name.Copied].
	Worn   []string `json:"worn,omitempty"`
	Copied []string `json:"copied,omitempty"`
	// Planned are the nodes that a dry run would have deleted; nil unless it is a dry run.
	Planned []Planned `json:"planned,omitempty"`
}

// maxNamed is the largest number of denied nodes in a report; likewise of undecodable nodes.
const maxNamed = 100

// Counts are a sweep's counters for one policy, or for all. They count nodes unless stated
// otherwise.
type Counts struct {
	Locks       int `json:"locks"`       // locks with an entry or a parent from Holdfast
	Live        int `json:"live"`        // entries not past their lease and the grace at the last read
	Waiting     int `json:"waiting"`     // live entries without a recorded grant
	Expired     int `json:"expired"`     // entries past their lease and the grace
	Orphans     int `json:"orphans"`     // empty parents past orphan_after
	Ancestors   int `json:"ancestors"`   // empty ancestors past orphan_after
	Stale       int `json:"stale"`       // release requests whose entry no longer exists
	Young       int `json:"young"`       // empty parents and ancestors not past orphan_after
	Kept        int `json:"kept"`        // empty parents kept by policy or not created by Holdfast
	Foreign     int `json:"foreign"`     // nodes that are not Holdfast's
	Undecodable int `json:"undecodable"` // Holdfast's nodes that are damaged or of a newer version
	Worn        int `json:"worn"`        // locks that have used up more than half of the counter of their entries
	Copied      int `json:"copied"`      // entries that were copied with their lock's node
	Denied      int `json:"denied"`      // nodes that an ACL forbids to read or delete
	Deleted     int `json:"deleted"`     // deleted expired, orphan, ancestor and stale nodes; without anchors
	Missed      int `json:"missed"`      // nodes changed or deleted by another client before their delete
	Purged      int `json:"purged"`      // deleted expired entries
	Pruned      int `json:"pruned"`      // deleted orphans and ancestors

	Scanned int   `json:"scanned"` // nodes read, without remembered live ones
	Bytes   int64 `json:"bytes"`   // bytes of data read
	// Seconds is the time from the first node visited to the last one read or deleted; in the
	// total, that of the whole sweep.
	Seconds float64 `json:"seconds"`
	// OldestOverdue is the longest time, in seconds by the leader's clock, for which an expired,
	// orphan or ancestor node could have been deleted.
	OldestOverdue float64 `json:"oldest_overdue_seconds"`
	// LongestWait is the longest time that a waiting entry has waited. OldestHold is the longest
	// time for which one of the other live entries has held the lock. Both are in seconds by the
	// leader's clock.
	LongestWait float64 `json:"longest_wait_seconds"`
	OldestHold  float64 `json:"oldest_hold_seconds"`
}

// count counts a node by its verdict, unless it is Live: see sweep.used.
func (c *Counts) count(v Verdict) {
	switch v {
	case Expired:
		c.Expired++
	case Orphan:
		c.Orphans++
	case Ancestor:
		c.Ancestors++
	case Stale:
		c.Stale++
	case Young:
		c.Young++
	case Kept:
		c.Kept++
	case Foreign:
		c.Foreign++
	case Undecodable:
		c.Undecodable++
	}
}

// deleted counts a deleted node by its verdict.
func (c *Counts) deleted(v Verdict) {
	c.Deleted++
	switch v {
	case Expired:
		c.Purged++
	case Orphan, Ancestor:
		c.Pruned++
	}
}

// Denial is a node that an ACL forbids to read, judge or delete.
type Denial struct {
	Path  string `json:"path"`
	What  string `json:"what"` // "list", "read", "prove" (its age), or "delete"
	Error string `json:"error"`
}

// Planned is a node that a dry run would have deleted.
type Planned struct {
	Path    string `json:"path"`
	Verdict string `json:"verdict"`
}
