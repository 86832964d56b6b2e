package reaper

import (
	"fmt"
	"time"
)

// Report is what one sweep saw and did.
type Report struct {
	Name     string        `json:"name,omitempty"` // of the root, where a process has several
	Root     string        `json:"root"`
	Schedule string        `json:"schedule,omitempty"` // by which it was made; "" if it was asked for
	Started  time.Time     `json:"started"`
	Duration time.Duration `json:"-"`
	Seconds  float64       `json:"seconds"`
	DryRun   bool          `json:"dry_run,omitempty"`
	// Complete says that all there was to see was seen and all that was to be
	// deleted was tried. What an ACL forbids does not make a sweep incomplete.
	Complete bool `json:"complete"`
	// Skipped says why nothing was swept: another reaper is the active one.
	Skipped string `json:"skipped,omitempty"`
	// Error says why it is not complete.
	Error string `json:"error,omitempty"`

	Total    Counts             `json:"total"`
	Policies map[string]*Counts `json:"policies"`
	// Denied are the first of the nodes that an ACL kept from being deleted or read:
	// the deletes first, and each in the order of their paths. Total.Denied counts
	// them all.
	Denied []Denial `json:"denied,omitempty"`
	// Undecodable are the paths of the first of the nodes of ours that are damaged or
	// of a newer version, and block their locks; Total.Undecodable counts them all.
	Undecodable []string `json:"undecodable,omitempty"`
	// Format1 are the paths of the first of the nodes of format 1, which block their
	// locks; Total.Format1 counts them all.
	Format1 []string `json:"format_1,omitempty"`
	// Planned is, of a dry run, all that would have been deleted.
	Planned []Planned `json:"planned,omitempty"`
}

// maxNamed is how many denied nodes a report names, and how many undecodable and of format 1.
const maxNamed = 100

// Counts are what a sweep saw and did of the locks of one policy, or of all. They are
// numbers of nodes, if nothing else is said.
type Counts struct {
	Locks       int `json:"locks"`       // with an entry of ours, or a parent of ours
	Live        int `json:"live"`        // entries whose lease runs, as they were last read
	Waiting     int `json:"waiting"`     // of live, those without a recorded grant
	Expired     int `json:"expired"`     // entries past it
	Orphans     int `json:"orphans"`     // empty parents past orphan_after
	Ancestors   int `json:"ancestors"`   // empty ancestors past orphan_after
	Moot        int `json:"moot"`        // requests to give up a lock, to entries that are gone
	Young       int `json:"young"`       // empty parents and ancestors not past it
	Kept        int `json:"kept"`        // empty parents that stay
	Foreign     int `json:"foreign"`     // nodes that are not ours
	Undecodable int `json:"undecodable"` // nodes of ours that are damaged or of a newer version
	Format1     int `json:"format_1"`    // nodes of format 1 that stay
	Denied      int `json:"denied"`      // nodes that an ACL kept from being read or deleted
	Deleted     int `json:"deleted"`     // of expired, orphans, ancestors and moot; an anchor that goes with its parent is not counted
	Missed      int `json:"missed"`      // of those, changed or gone before they could be deleted; what is denied is not missed
	Purged      int `json:"purged"`      // of expired, those that were deleted
	Pruned      int `json:"pruned"`      // of orphans and ancestors, those that were deleted

	Scanned int   `json:"scanned"` // that were read; what is remembered as live is not
	Bytes   int64 `json:"bytes"`   // of the data that was read
	// Seconds is from the first node that was looked at to the last that was read or
	// deleted; of the total, it is the whole sweep.
	Seconds float64 `json:"seconds"`
	// OldestOverdue is for how many seconds the oldest of expired, orphans and ancestors
	// could have been deleted, by the clock of ZooKeeper's leader.
	OldestOverdue float64 `json:"oldest_overdue_seconds"`
	// LongestWait is for how many seconds the longest of waiting has waited, and OldestHold for
	// how many the oldest of the other live entries has the lock, by the same clock.
	LongestWait float64 `json:"longest_wait_seconds"`
	OldestHold  float64 `json:"oldest_hold_seconds"`
}

// count counts a node, unless it lives: of those only entries count.
func (c *Counts) count(v Verdict) {
	switch v {
	case Expired:
		c.Expired++
	case Orphan:
		c.Orphans++
	case Ancestor:
		c.Ancestors++
	case Moot:
		c.Moot++
	case Young:
		c.Young++
	case Kept:
		c.Kept++
	case Foreign:
		c.Foreign++
	case Undecodable:
		c.Undecodable++
	case Format1:
		c.Format1++
	}
}

// deleted counts a node that was deleted for that verdict.
func (c *Counts) deleted(v Verdict) {
	c.Deleted++
	switch v {
	case Expired:
		c.Purged++
	case Orphan, Ancestor:
		c.Pruned++
	}
}

func (c *Counts) add(d Counts) {
	c.Locks += d.Locks
	c.Live += d.Live
	c.Waiting += d.Waiting
	c.Expired += d.Expired
	c.Orphans += d.Orphans
	c.Ancestors += d.Ancestors
	c.Moot += d.Moot
	c.Young += d.Young
	c.Kept += d.Kept
	c.Foreign += d.Foreign
	c.Undecodable += d.Undecodable
	c.Format1 += d.Format1
	c.Denied += d.Denied
	c.Deleted += d.Deleted
	c.Missed += d.Missed
	c.Purged += d.Purged
	c.Pruned += d.Pruned
	c.Scanned += d.Scanned
	c.Bytes += d.Bytes
	c.Seconds = max(c.Seconds, d.Seconds)
	c.OldestOverdue = max(c.OldestOverdue, d.OldestOverdue)
	c.LongestWait = max(c.LongestWait, d.LongestWait)
	c.OldestHold = max(c.OldestHold, d.OldestHold)
}

// Denial is a node that an ACL kept from being read or deleted.
type Denial struct {
	Path  string `json:"path"`
	What  string `json:"what"` // "list", "read" or "delete"
	Error string `json:"error"`
}

// Planned is a node that a dry run would have deleted.
type Planned struct {
	Path    string `json:"path"`
	Verdict string `json:"verdict"`
}

// String is the report in one line.
func (r *Report) String() string {
	if r.Skipped != "" {
		return "skipped: " + r.Skipped
	}
	t := r.Total
	older := ""
	if t.Format1 > 0 {
		older = fmt.Sprintf(", %d of format 1", t.Format1)
	}
	return fmt.Sprintf("%d locks, %d live entries, %d deleted (%d expired, %d orphans, %d ancestors, %d moot requests found), %d foreign%s, %d denied in %v",
		t.Locks, t.Live, t.Deleted, t.Expired, t.Orphans, t.Ancestors, t.Moot, t.Foreign, older, t.Denied, r.Duration.Round(time.Millisecond))
}
