// Package reaper cleans up after crashed clients. It sweeps the trees of locks, and deletes
// expired entries that no waiter has purged, and empty parents and ancestors. The reaper binary
// is a thin layer around it.
//
// # What the reaper deletes
//
//   - A Holdfast entry whose lease ended more than the grace ago. Waiters purge the entry ahead
//     by the same rule.
//   - A lock's parent that Holdfast created, if it has no child but its anchor and its data was
//     written longer ago than the policy's orphan_after, unless the policy has keep_parent. The
//     anchor goes with it.
//   - An ancestor that Holdfast created, by the same rule.
//   - A release request, see lock.Client.Revoke, whose entry has gone. The entry's path never
//     recurs.
//
// Everything else below the root is counted and left alone: nodes with other data, entries
// of other libraries, ephemeral nodes, data of a newer version or damaged data. [JudgeEntry],
// [JudgeParent] and [JudgeRevocation] implement these rules. The nodes [znode.EpochMark] and
// [znode.Inbox] below the root, and anchors, are not counted.
//
// Entries, parents and requests of format 1, from before the first release, are counted
// separately and left alone, too. With [Options.Format1] they are judged like those of the
// present format.
//
// # Safety
//
// A verdict depends on the data and Stat of one read, and on one of these proofs that enough time
// has passed since the write (see [znode.Now]):
//
//   - The stamp of the write and a younger sample of the same clock. This requires that the same
//     leader still leads, and that no step of its clock was detected since.
//   - For an older write: the earliest known stamp of the present leader, from the epoch's mark.
//     A sweep reads the mark before its first verdict on an older write, and writes the mark if
//     there is none. So separate processes, such as those of reaper --once, count from the same
//     moment.
//   - This process's own monotonic clock. A write under an earlier leader is older than the
//     moment when this reaper first learned of the next leader. This proof needs no server's
//     clock, but a reaper that keeps running. It is the only proof if leaders change faster than
//     leases end.
//
// Without a proof a node counts as live, or as young, and is left to the next sweep.
//
// Each delete has the version that the same sweep has read and judged. So an entry that was
// renewed since, or a parent that was used since, stays. ZooKeeper itself refuses to delete a
// node with children.
//
// A version alone does not identify a node: a node created later at the same path counts its
// versions from 0 again. So each delete also proves the identity of its node. The path of an
// entry never recurs. A parent goes in one transaction with its anchor, whose name never recurs;
// or with an entry below it. Any other node, such as an empty ancestor, first gets an anchor as a
// guard, and is read again: if it is still the judged node, both go in one transaction. If an ACL
// forbids the reaper to create the guard, it only reads such a node again right before the
// delete. It also does so for an entry or a request whose delete comes more than a second after
// its verdict, for example because of MaxDeletesPerSecond: another program may have created a
// node at its path.
//
// So a sweep can be stopped, repeated, or run twice concurrently at any point. A contender that
// finds its parent gone creates it again.
//
// # Cost
//
// A lock takes two reads, of its list and of its one entry, and one read for each further entry.
// A parent without a live entry is also read itself. An ancestor without its own anchor or
// entries takes one more read, and a share of one more transaction. A delete that waits for more
// than a second takes one more read. A release request takes two reads, and their list one. A
// live lock is not read again until its first entry may have expired, or orphan_after has passed.
// This memory only saves reads: the reaper deletes only what the same sweep has read and judged.
// So if sweeps come more often than leases end, a live lock only costs its name in a listing;
// otherwise it costs the two reads. After a change of the leader, or a step of its clock, all
// locks are read again once.
//
// Deletes are batched in transactions, a few of them in flight at once. A sweep keeps in memory
// the names in its current directories, the data of deletes in flight, and about 50 bytes for
// each remembered lock, of at most 1,048,576.
//
// At most Concurrency reads are in flight, and each next one is sent when one is answered. So a
// slow server gets fewer requests. MaxDeletesPerSecond limits the deletes.
//
// # Several reapers
//
// A reaper sweeps under its own lock, so of several reapers one is active and the others stand
// by. That saves work; safety does not depend on it. When the active one dies, another becomes
// active after the TTL and the grace of that lock's policy. Reports do not include this lock.
//
// # Log and status
//
// A running [Reaper] logs its start, when it becomes active or stands by, when the session with
// ZooKeeper is lost and when it is back, and a summary each hour. A sweep has a line if it
// deleted something or failed, or if others were skipped meanwhile. A repeated failure is logged
// the first, second, fourth time and so on, with the number of failures in a row. Nodes that an
// ACL denies, damaged nodes, and nodes of another version of the format are logged once when they
// first appear and once when they are gone. A missing root is logged at the start, and by each
// [Reaper.Sweep], which does not create it.
//
// [Monitor] is for programs. [Monitor.Status] returns whether the reaper is active, standing by
// or disconnected, which schedules are overdue, and the results of the last sweeps by policy.
// [Monitor.Observe] reports each sweep.
//
// # As a service
//
// A [Daemon] is the reaper of one root, from before the first session until it is stopped. An
// outage of ZooKeeper neither ends it nor makes its end a failure. [Daemon.Reload] changes its
// policies, schedules and limits. A process has one for each root, each with its own client.
package reaper
