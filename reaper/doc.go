// Package reaper cleans up after crashed clients: it sweeps the trees of locks, deletes
// the expired entries that no waiter has purged, and the parents and
// ancestors that were left empty. The reaper binary is a shell around it.
//
// # What may be deleted
//
//   - An entry of ours whose lease ended more than the grace ago: the same rule
//     by which a waiter purges the entry ahead.
//   - A lock's parent that Holdfast made, below which nothing stands but its anchor, once
//     the parent's data was written longer ago than the policy's orphan_after, unless the
//     policy keeps it. The anchor goes with it.
//   - An ancestor that Holdfast made, on the same terms.
//   - A request to give up a lock, see lock.Client.Revoke, whose entry is gone. The entry's
//     path never comes again.
//
// Everything else below the root is counted and left alone: nodes whose data is
// not ours, entries of other libraries, ephemeral nodes, data of a newer version
// or damaged data. [JudgeEntry], [JudgeParent] and [JudgeRevocation] are the
// whole rule. The nodes [znode.EpochMark] and [znode.Inbox] below the root, and anchors,
// are not counted.
//
// Entries, parents and requests of format 1, which versions before the first release have
// written, are counted apart and left alone, too. With [Options.Format1] they are judged as
// those of the present format.
//
// # Why that is safe
//
// A verdict rests on the data and Stat of one read, and on one of these proofs that
// enough time has passed since what was read was written (see [znode.Now]):
//
//   - The stamp of that write, if the leader that made it leads still and its clock
//     was not seen to be set since, and a fresher sample of the same clock.
//   - For what is older than that: the earliest stamp known of the present leader.
//     It is that of the mark, which a sweep reads, and writes if it must, before its
//     first verdict on something older. So sweeps that each begin anew, as those of
//     reaper --once do, count from the same moment.
//   - This process's own monotonic clock. Whatever was written under an earlier
//     leader had been written when this reaper first knew of the next one. It takes
//     no server's clock, but a reaper that lasts; and it is all there is where leaders
//     follow each other faster than leases end.
//
// What cannot be proven counts as live, or as young, and is left to the next sweep.
//
// Each delete carries the version that the same sweep has read and judged, so that an entry
// which was renewed since, or a parent which was used since, stays; and ZooKeeper itself
// refuses to delete a node with children.
//
// A version alone does not tell a node from another that was made at its path since, with
// versions that count anew. So each delete also proves which node it is about. The path of an
// entry never comes again. A parent goes in one transaction with its anchor, the name of
// which never comes again; so does the node above an entry or an anchor that goes in the
// same transaction. Any other node, such as an empty ancestor, gets an anchor first, and is
// read again: if it is still the one that was judged, both go in one transaction. Where an
// ACL gives the reaper no right to create, it only reads such a node again right before the
// delete. The same goes for an entry or a request whose delete comes more than a second after
// its verdict, as with MaxDeletesPerSecond: another program may have made a node at its path.
//
// A sweep can therefore be stopped, repeated, or run twice at once at any point, and a
// contender that finds its parent gone makes it again.
//
// # What it costs
//
// A lock takes two reads, of its list and of its one entry, and one more of each further
// entry. A parent without a live entry is read itself, too. An ancestor that goes alone takes
// one more read, and a share in one more transaction; what waits to be deleted for more than a
// second takes one more read, too. A request to give up a lock takes two
// reads, and the list of requests one. A lock that was seen alive is not read again
// until the first of its entries can be expired, or orphan_after has passed: what is
// remembered of it saves reads, and no more. Nothing is deleted that the same sweep
// has not read and judged. So where sweeps come more often than leases end, a live
// lock costs nothing but its name in a listing; where they come less often, it costs
// the two reads. After a change of the leader, or a step of its clock, all locks are
// read again once.
//
// Nodes are deleted in transactions of many, a few of them at once. A
// sweep holds in memory the names in the directories that it is in, what the deletes
// in flight need, and about 50 bytes for each lock that it remembers, of which there
// are 1,048,576 at most.
//
// At most Concurrency reads are in flight, each sent when the one before is answered: so a
// sweep asks less of a server that is slow. MaxDeletesPerSecond bounds the deletes.
//
// # One at a time
//
// A reaper sweeps under a lock of its own, so of several reapers one is active and the others
// stand by. That saves work; safety does not depend on it. When the active one dies, another
// is active once the TTL and the grace of that lock's policy have passed. The lock is in no
// report.
//
// # Log and status
//
// A running [Reaper] logs its start, when it becomes active or stands by, when the session
// with ZooKeeper is lost and when it is back, and a summary each hour. A sweep has a line if
// it did something or failed, or if others were skipped meanwhile. A failure that repeats is
// logged the first time, the second, the fourth and so on, with how many there were in a row.
// Nodes that an ACL denies, that are damaged, or of another version of the format, are logged
// once when they are first met and once when they are no more. A missing root is logged at the
// start, and by each [Reaper.Sweep], which creates none.
//
// [Monitor] is for programs: [Monitor.Status] says whether the reaper is active, stands by or
// is disconnected, which schedules are overdue, and what the last sweeps saw and did, policy
// by policy; [Monitor.Observe] reports each sweep.
//
// # As a service
//
// A [Daemon] is the reaper of one root, from before there is a session until it is stopped.
// No outage of ZooKeeper ends it, or makes its end a failure. [Daemon.Reload] gives it other
// policies, schedules and bounds. A process has one for each root, each with its own client.
package reaper
