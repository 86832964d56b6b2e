// Package reaper cleans up after the dead: it sweeps the trees of locks, deletes
// the entries that expired and nobody came to purge, and the parents and
// ancestors that were left empty. The reaper binary is a shell around it.
//
// # What may be deleted
//
//   - An entry of ours whose lease ended more than the grace ago: the same rule
//     by which a waiter purges the entry ahead.
//   - A lock's parent that we made and that has no children, once its last change
//     is longer ago than the policy's orphan_after, unless the policy keeps it.
//   - An ancestor that we made, on the same terms.
//
// Everything else below the root is counted and left alone: nodes whose data is
// not ours, entries of other libraries, ephemeral nodes, data of a newer version
// or damaged data. [JudgeEntry] and [JudgeParent] are the whole rule.
//
// # Why that is safe
//
// A verdict rests on the data and Stat of one read, and on ensemble time by a
// sample that is younger than the record: by no client's clock. Each delete
// carries the version that was judged, so that an entry which was renewed since,
// or a parent which somebody joined and left since, stays; and ZooKeeper itself
// refuses to delete a node with children. A sweep can therefore be stopped,
// repeated, or run twice at once at any point, and a contender that finds its
// parent gone makes it again.
//
// # What it costs
//
// A lock takes two reads, of its parent and of its one entry; an empty parent takes
// one, and each further entry one. A lock that was seen alive is not read again
// until the first of its entries can be expired, or orphan_after has passed: what is
// remembered of it saves reads, and no more. Nothing is deleted that the same sweep
// has not read and judged. So where sweeps come more often than leases end, a live
// lock costs nothing but its name in a listing; where they come less often, it costs
// the two reads.
//
// What is to go is deleted in transactions of many nodes, a few of them at once. A
// sweep holds in memory the names in the directories that it is in, what the deletes
// in flight need, and about 30 bytes for each lock that it remembers, of which there
// are 1,048,576 at most.
//
// # One at a time
//
// Sweeps are made under a lock of our own, so of several reapers one is active
// and the others stand by. That saves work; safety does not depend on it.
package reaper
