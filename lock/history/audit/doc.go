// Package audit checks the writes to locks in ZooKeeper's transaction log against the protocol. It
// trusts no client: it knows the log, the format of package znode, and the rules below, and nothing
// of the code that makes the writes.
//
//	l, err := txnlog.Open("/var/lib/zookeeper/version-2")
//	if err != nil {
//		return err
//	}
//	found, err := audit.Logs(ctx, l, time.Time{}, audit.Options{})
//	if err != nil {
//		return err
//	}
//	for _, v := range found.Violations {
//		fmt.Println(v)
//	}
//	if found.Total() == 0 {
//		fmt.Println("nothing was judged")
//	}
//
// An [Audit] is a state machine: it begins with nodes, and takes each transaction in turn. A violation
// is only what no valid servers and clients can have written. A transaction that does not fit the log
// before it, because others are missing, or after a restore through the admin server, is none
// ([Report].Restored).
//
// # Rules
//
//	rule        what the protocol permits                                             source
//	exclusion   a record shows a grant only if no contender ahead excludes its entry  znode: Admission
//	permits     the same, of a semaphore: the entry and those ahead of it ask for at  znode: Admission
//	            most the semaphore's permits
//	leader      the same, of an election: one candidate leads                         queue: Semaphores, elections
//	overlap     if another client deletes a hold's entry, there is no grant before    lock: guarantees 1, 2
//	            the lease of the hold ends
//	token       tokens rise; a reader's is above those of earlier writers             lock: guarantee 6
//	delete      an entry is deleted by its owner; at the counter's end, where names   queue: Leaving
//	            repeat and nothing is granted, a late delete may meet another's
//	purge       or by another client, if its lease and the grace may have ended       znode: When an entry has expired
//	owner       only an entry's owner writes it; owner, host, pid and attempt stay    queue: Lost replies
//	attach      another client attaches to a detached or expired entry, writes twice, queue: Detach and attach
//	            and raises the incarnation by one
//	break       a force-release writes its mark twice, and nothing else; the mark     admin: Tree.Break
//	            stays; then any client may delete the entry
//	record      a grant, a downgrade and a detach are not taken back                  znode: Data of an entry
//	holder      only a client whose turn has come sends a holder's transaction        lock: Hold.Txn
//	generation  a parent is created with its anchor, and keeps its data; a join of    znode: Generation and anchor
//	            that generation checks the anchor, and is of the parent's kind; an    queue: Joining
//	            adoption replaces a guard, and marks an empty node as adopted
//	empty       an anchor is deleted with its parent, and an adopted parent only at   queue: Leaving
//	            the counter's end
//	resize      permits are removed together with an entry that holds them; no join   queue: Semaphores, elections
//	            asks for several below an anchor that says that each has one
//	foreign     no client overwrites other programs' data, or deletes entries of      znode: Names of entries
//	            other libraries, of sessions, or without a record of this format
//	tick        a tick's run is recorded once, and its end by its own hold, in a      schedule: What is recorded
//	            transaction of the job's holder; recorded ticks do not go back
//
// A client may hold a lock without a record of the grant for up to a third of its TTL. Such a hold
// does not show in the log, only its entry. So the rules on deletions matter most: if no entry is
// deleted too early, no contender enters too early.
//
// # When a purge could be right
//
// A judge is a client that decides whether an entry has expired. It counts from the entry's last
// write, by one leader's stamps or by its own clock. The audit adds up the most that any judge can
// have counted:
//
//   - While one server leads, and its clock does not go back, the difference of the stamps counts, and
//     what a judge's own clock may be faster ([znode.RateError]). A leader's clock that stood still, as
//     in a suspended virtual machine, cannot be noticed: a purge by another clock then looks early.
//   - Over a change of the leader, or a step back of its clock, the log does not show the time. A
//     deletion that may depend on this time is not judged, unless [Options].Skew says how far the
//     leaders' clocks may differ.
//   - The grace is not in the log. [Options].Grace is the shortest grace of any client.
//
// # Whose session it was
//
// A log has sessions, not clients. An entry deleted in the session that wrote it last was deleted
// by its owner. Another session may be its owner's next one. But a client that begins a new session
// lets the old one expire. So if the owner's session is open for longer than an expiry takes,
// another client has deleted the entry. If the owner's session has ended, or its timeout is not known,
// because neither the log nor the snapshot shows it, the deletion is not judged.
//
// # What is not judged
//
// [Report].Unjudged counts the writes that are not judged, by reason. A log that begins in the
// middle, before its first snapshot, does not show the contenders ahead, the permits, nor earlier
// sessions. The same holds after a gap in the log, after a restore, and for locks that a transaction
// changes on which the folders differ. Nodes of other programs
// are ignored. So are entries of other libraries, of sessions and of newer releases, unless a
// Holdfast client deletes them.
//
// The API of this package is not part of the compatibility promise in README.md: it may change in any
// release.
package audit
