// Package reaper cleans up after crashed clients. It sweeps the trees of locks, and deletes
// expired entries that no waiter has purged, and empty parents and ancestors. The command reaper
// uses this package.
//
// The API of this package is not part of the compatibility promise in README.md: it may change in any
// release.
//
// # What the reaper deletes
//
//   - A Holdfast entry whose lease ended more than the grace ago. Waiters purge the entry ahead
//     by the same rule.
//   - A lock's parent that Holdfast created, if it has no child but its anchor and its data was
//     written longer ago than the policy's orphan_after, unless the policy has keep_parent. The
//     reaper deletes the anchor together with the parent.
//   - An ancestor that Holdfast created, by the same rule.
//   - A release request, see lock.Client.Revoke, whose entry no longer exists. The entry's path
//     never recurs.
//
// The reaper counts everything else below the root, and never deletes it: nodes with other data,
// entries of other libraries, ephemeral nodes, data of a newer version or damaged data. [JudgeEntry],
// [JudgeParent] and [JudgeRevocation] implement these rules. The nodes [znode.EpochMark] and
// [znode.Inbox] below the root, and anchors, are not counted.
//
// # Safety
//
// A verdict depends on the data and Stat of one read, and on one of these proofs that enough time
// has passed since the write (see [znode.Now]):
//
//   - The stamp of the write and a younger sample of the same clock. This requires that the same
//     leader still leads, and that no step of its clock was detected since.
//   - For a write under an earlier leader, or before a step of the clock: the earliest known stamp
//     since then. The epoch's mark keeps an early stamp of the present leader. A sweep reads the
//     mark before its first verdict on an earlier write, and writes the mark if there is none. So
//     separate processes, such as those of reaper --once, count from the same moment.
//   - This process's own monotonic clock. A write under an earlier leader is older than the
//     moment when this reaper first learned of the next leader. This proof needs no server's
//     clock, but requires a reaper that keeps running. It is the only proof if leaders change
//     faster than leases end.
//
// Without a proof a node counts as live, or as young, and the next sweep judges it again.
//
// Each delete has the version that the same sweep has read and judged. So it fails if the entry
// was renewed since, or the parent was used since. ZooKeeper itself refuses to delete a node with
// children.
//
// A version alone does not identify a node: a node created later at the same path counts its
// versions from 0 again. So each delete also proves the identity of its node:
//
//   - The path of an entry never recurs. If more than a second has passed since its verdict, for
//     example because of MaxDeletesPerSecond, the entry is read again: another program may have
//     created a node at its path. The same holds for a release request.
//   - A parent is deleted in one transaction with its anchor, whose name never recurs, or with an
//     entry below it.
//   - Any other node, such as an empty ancestor, first gets an anchor as a guard, and is read
//     again. If it is still the judged node, one transaction deletes both. If an ACL forbids the
//     reaper to create the guard, it only reads the node again right before the delete.
//
// So a sweep can be stopped at any point, repeated, or run beside another one. A contender whose
// parent is missing creates it again.
//
// # Cost
//
// A lock takes two reads, of its list and of its one entry, and one read for each further entry.
// A parent without a live entry is also read itself. An ancestor without its own anchor or
// entries takes one more read, and a share of one more transaction. A delete that waits for more
// than a second takes one more read. A release request takes two reads, and the list of all
// requests one. A live lock is not read again until its first entry may have expired, or
// orphan_after has passed. This memory only saves reads: the reaper deletes only what the same
// sweep has read and judged. So if several sweeps run within the time of a lease, a live lock only
// costs its name in a listing; otherwise it costs the two reads. After a change of the leader, or a
// step of its clock, the next sweep reads all locks.
//
// Deletes are batched in transactions, up to four of them in flight. A sweep keeps in memory
// the names in its current directories, the data of deletes in flight, and about 50 bytes for
// each remembered lock, of at most 1,048,576.
//
// The walk of a sweep has at most Concurrency reads in flight, and sends the next one after a reply.
// So a slow server gets fewer requests. MaxDeletesPerSecond limits the deletes.
//
// # Several reapers
//
// A reaper sweeps while it holds a lock, so of several reapers one is active and the others stand
// by. The lock saves work; safety does not depend on it. If the active reaper crashes, another one
// becomes active after the TTL and the grace of the lock's policy. Reports do not include this lock.
//
// # Log and status
//
// A running [Reaper] logs its start, when it becomes active or stands by, when the session with
// ZooKeeper is lost and when it is back, and a summary each hour. A sweep has a line if it
// deleted something or failed, or if later sweeps were skipped while it ran. A repeated failure is
// logged the first, second, fourth time and so on, with the number of failures in a row. Nodes that
// an ACL denies, damaged nodes, and nodes of another version of the format are logged once when a
// sweep first finds them, and once when the problem has ended. A missing root is logged at the
// start, and by each [Reaper.Sweep], which does not create it.
//
// [Monitor] is for programs. [Monitor.Status] returns whether the reaper is active, standing by
// or disconnected, which schedules are overdue, and the results of the last sweeps by policy.
// [Monitor.Observe] reports each sweep.
//
// # As a service
//
// A [Daemon] is the reaper of one root, from before the first session until it is stopped. An
// outage of ZooKeeper does not end it. A stop of the daemon during an outage is no
// failure. [Daemon.Reload] changes its policies, schedules and limits. To sweep several roots, a
// process runs a daemon for each, with its own client.
package reaper
