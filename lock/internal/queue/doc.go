// Package queue takes an entry into the queue of a lock, waits there until it is its
// turn, and takes it out again. This page is the protocol that all locks, the reaper
// and the command line keep to. What users are promised stands in package lock, the
// nodes and their data in package znode. Where code and page disagree, one of the two
// is wrong: find out which, and mend it.
//
// # What ZooKeeper does
//
// All that follows rests on this. (Z1) and so on say which of it is meant.
//
//   - Z1: One leader orders all writes. Each gets a zxid, a number that rises; its upper
//     half is the epoch, of which each leader has its own. While the leader prepares a
//     write it stamps it with its clock. So a node's Mtime is what that clock showed
//     between the send and the reply of the request that wrote it, whichever server the
//     client talks to.
//   - Z2: A new leader begins its epoch with all that an old one got committed.
//   - Z3: A transaction (Multi) is applied as a whole or not at all. A SetData in it
//     answers with the Stat at its place: children made before it are counted.
//   - Z4: The parent numbers sequential children by how many were created in it, ever. A
//     node that is deleted and made again counts its children, and the versions of its
//     data, from 0 again. Its Czxid is another one.
//   - Z5: Reads are answered by the server that is asked, and may be old. But who sees a
//     write sees all earlier ones too, and a session never sees less than it has seen. A
//     new session may.
//   - Z6: A watch fires once. A change can be missed while the client is disconnected, a
//     deletion cannot.
//   - Z7: Sync lets a server catch up with its leader; it does not ask a quorum.
//   - Z8: Persistent nodes outlive the session that made them, and a write that was sent
//     can be applied after its connection has failed.
//   - Z9: The counter of children sticks at 2147483647, from ZooKeeper 3.6 on.
//
// # Ensemble time
//
// Time is what the leader stamps. Each acknowledged write whose reply has a Stat is a sample:
// its stamp was current between send and reply (Z1). From the last one, that with the highest
// zxid, follows what the leader's clock shows at least and at most now; the bounds drift apart
// by 500 ppm of its age. A suspend of this machine widens them too. Joins and renewals are
// samples; where none is young, a node is made, written and deleted at once (package clock).
//
// # When an entry has expired
//
// Stamps of two leaders cannot be compared: their clocks may differ by any amount. Nor can
// those before and after a step of one leader's clock. So each judge divides time into
// terms, within which stamps can be compared. One begins with each epoch, and one when
// the displacements that this judge has seen within an epoch come to more than half of
// the smallest grace. One of these proves that an entry has expired:
//
//   - It was written in the present term, and the leader's clock shows for certain more
//     than its Mtime, TTL and grace. The sample must be younger than the record.
//   - It was written in an earlier term, and the leader's clock shows for certain more
//     than the earliest known stamp of the present term, TTL and grace. For the lease
//     counts from the send of that write, which was before all stamps of this term (Z2),
//     and a renewal since would bear one of them.
//   - This process has known this very version of the node for longer than TTL and grace,
//     by its own clock. That takes no sample. It ends the wait also where leaders follow
//     each other faster than leases end.
//
// Whoever cannot prove it takes a younger sample, or waits. No verdict rests on expires_at in
// a record, nor on a client's clock. What has expired is deleted on the version judged.
//
// An early stamp of the epoch is kept in a node, [znode.EpochMark], for those who come
// later. A judge looks at it before the second of these proofs; if it is of an earlier
// epoch, or missing, the judge writes it. Only its Stat counts. Whoever forges, deletes or
// denies it makes leases seem to end later, never sooner: without it a judge counts from its
// own first sample. A term that began with a step has no mark.
//
// After an outage of our own everybody looks dead. So a contender renews its own entry
// before it judges another's, and gives those who have not written since a third of their
// TTL more. An outage is a time without a session, or a renewal that has no answer after
// a third of its TTL, a second at least. A caller that gave up is none.
//
// What remains assumed: from a record's write to the verdict on it, within one epoch, the leader's
// clock makes no step of more than the grace that the judge cannot see, for want of a sample from
// before, or from between that and a step back. The restart of a lone server begins no epoch: it
// must not come back with another clock. Monotonic clocks run true within 500 ppm. And max_ttl
// bounds what is asked for, but no verdict: who has a longer lease would be purged alive.
//
// # Joining the queue
//
// Where there is no parent, one transaction makes it and the entry:
//
//	Create(parent)  Create(parent/<id>-lock-, sequential)  SetData(parent, version 0)
//
// The last operation is there for its reply (Z3). NumChildren 1 says that we are alone:
// the lock is ours, without a list. Mzxid and the entry's sequence are our fencing token; Czxid
// tells the parent's incarnation; Mtime is a sample. Whoever makes it records its grant at once.
//
// Where there is one:
//
//	Check(witness)  Create(parent/<id>-lock-, sequential)  SetData(parent, tail: <id>-lock-)
//
// Where the witness proves which parent it is, the SetData goes through under any version,
// so that joins do not collide. Of ours nobody else changes anything but the tail: the kind
// is fixed while an entry is there, only a semaphore has permits (its parent is written
// under its version), and a parent that bears our mark, see below, never becomes adopted.
// What strangers write into it is lost. Whether it bears the mark is known to who made it;
// who has collided once looks at its ACL. Else the SetData carries the version that is known.
//
// The tail as it was is the predecessor if its sequence is ours less one (Z4); NumChildren 2
// says that nobody is ahead of that one. A name found that way is a guess until the node was
// seen, or if it was the witness: others join without writing the parent. If the tail is of another sequence
// somebody has joined in between, and a list tells who. The contenders of a process share
// lists not sent yet; if they all have just joined, those join first who want to.
//
// Three kinds of knowledge meet here, and are never mixed:
//
//   - Facts about the parent come from a reply: that it is there, its Czxid, its version
//     and its data. They belong to one incarnation of it (Z4). A version alone proves
//     nothing, so a write that rests on older facts first checks that a witness stands:
//     an entry below that very parent, one of this process, or the one that joined last.
//     Entries' paths are unique for ever. Without a witness facts are used for 100 ms after
//     the request by which our last entry has left, where others are about not those of a
//     low version; and the Czxid in the reply is compared.
//   - Duties say who has to delete what. They are accounts, and have to be right: how many
//     entries of this process stand below a parent, what an abandoned request may have
//     made, and which parents are to be looked after in a moment.
//   - Hints guess which request is the cheapest to try first, from what happened at this
//     lock before. They supply no byte that is written and let nobody in; a wrong one
//     costs a request. The simulation runs with learned, without, and with hostile ones.
//
// Among the hints is the version that the parent probably has by now, where a few take
// turns so steadily that none of them is there to be a witness. To foresee it is allowed
// because ZooKeeper compares it. Who joined last is not known then, so our place takes a list.
//
// Should the reply show another Czxid than the facts, then somebody has made the parent
// anew, and we have overwritten their data. Those that we make bear a mark that no write of
// data can erase: an entry in their ACL that permits nothing. By that a parent is known as
// ours, and only a tail was lost. One without it is marked as adopted at once, and is never
// deleted. An empty node that we find is adopted too. A node with data that is not ours, an
// ephemeral one, or that of another kind of lock is refused.
//
// A parent of a low version that was just read, and below which nobody is known, somebody
// else may delete and make again, for something else, before our write comes. Unless it is
// one that stays, a list looks for a witness. Where there is none the entry is created
// alone. It proves which parent it stands below, and that is then read again and written
// with this entry as the witness.
//
// The contenders of one process for one lock take turns to join, but for readers beside one
// of their own, who write nothing but their entries. Whose turn it is, and has a witness, makes
// the entries of up to 31 who wait for theirs in its transaction, behind its own. The replies
// tell each its predecessor; NumChildren less those made behind it, who is alone. The last one
// is the tail. If the reply is lost each looks for its own id.
//
// Processes that write under a version can collide: they read and try again. Where a list is
// cheaper than that, or the parent may not be written, the entry is created alone.
//
// A contender that barges joins only where nobody is: in the transaction that makes the
// parent, or after a read that showed it empty. Else it watches the last of those there, and
// tries again when that one has gone. Should others be quicker after all, it leaves. Of the
// dead it is rid as others are: it joins, purges, and leaves if somebody alive is there.
//
// A TryLock reads first. Only if nobody alive is in its way does it join; it purges who has
// expired, and leaves if somebody was quicker. Both ask for what may just be kept: see mayAsk.
//
// # Who is in
//
// The function decide says it, and nothing else does:
//
//	nobody is ahead, by a list or because we joined alone    enter
//	who is ahead is not known                                list
//	the predecessor is there                                 follow it
//	it is a writer that only reads now, and so do we         enter
//	it is not there, and we never saw it                     list
//	it has gone, and it held the lock alone                  enter
//	it has gone, and a release is known right ahead of it    enter
//	either of these two, and there were readers in between   see who is there still
//	it has gone, and it may have been waiting, or not alone  list
//
// Nobody is ahead of who holds the lock alone, and nobody joins ahead of another. So who
// stood right behind that one is next; readers, too, if only readers are in between. That
// the predecessor held the lock is known if it was first in a list, if we joined as the
// second of two, or if its record tells the grant. Of a mutex each holder is alone, of a
// read/write lock each writer of ours ([znode.Kind.Alone]).
//
// A release says that an entry has gone that held the lock alone. So none of a lower
// sequence is there, for as long as this very parent is. Whoever saw the predecessor go
// enters if a release of its own is known, or of the entry right ahead of it: for then
// nobody was ahead of the predecessor. Releases are known of the own process, and from the
// data of the parent, where who leaves tells its own if nobody has written there since, and
// who joins the last one that its process knows. Each names the incarnation that it is
// about: one that somebody carries into another parent says nothing there.
//
// The predecessor is the nearest earlier entry that conflicts: for a reader the last
// writer, for a writer the last entry. But a writer whose list shows at most 16 readers of
// ours right ahead waits for who writes before them, as they do: when that one held the lock
// and has gone nobody else is ahead, and it sees them go without a list. A reader that joins
// where others are does not write the parent: its place takes a list anyway, and readers had
// better not collide. A writer that is granted, and then only reads, tells so in its entry
// by a renewal; from before that was sent it must not write. So whoever read it may enter as
// a reader, at any time later ([znode], Who goes in).
//
// Of a semaphore, who is ahead of the first one who waits holds permits, and any of them
// can be the next to leave. So that one watches all of them, and whoever is behind only the
// entry right before it. That one tells its grant, soon, and with it the names of those who
// may still have been ahead then: nobody comes to stand ahead later, so those and it are
// all that can be ahead, and no list is needed. If they are more than 16, if it has gone
// untold, or is another library's, a list tells. One who joins and finds more children
// than there are permits knows that the entry before it waits; else it lists.
//
// How many permits there are stands in the parent. That number must not be older than what
// is known of those ahead. More there are by one write of the parent, which the first one
// who waits watches too. Fewer there are only by a transaction that also deletes an entry,
// which had waited in the queue for as many permits as are taken away. So who stood ahead
// of that entry was counted; and who is behind it reads the parent again after any of those
// ahead has gone, or after a list, unless that shows the version known. The parent of a
// semaphore is never written without a witness, nor on a version that is only foreseen.
//
// Nobody enters but with a lease of its own of which half is left, written in the present
// session; else it renews first, and then lists. A list that has our own entry in it has
// every earlier one that still is (Z5). One that has not is made again after a Sync. So a
// read proves that the predecessor was there, or is not, only in a session in which our own
// entry had been written.
//
// While it waits, a contender watches the predecessor and nobody else. One watch per path
// is shared by the process, since go-zookeeper cannot take one back. A timer wakes the
// contender when the predecessor can have expired; that is read once more before it is
// judged, since changes can be missed (Z6). Then the run of the dead ahead is deleted in
// one transaction, by one list. An entry that cannot be read or decoded, and one of
// another library, is waited for.
//
// If our own entry is gone, we queue again at the end; its id is remembered, and deleted if
// it appears after all (Z7). If the caller's context ends, ours is withdrawn in the background.
//
// # Elections
//
// An election is a mutex. A candidate whose turn has come looks for those behind it whose
// names tell a higher priority, by a list after a Sync, and reads them. If one lives, and its record can be understood, it
// withdraws and joins anew, behind that one. Else it is granted, and writes its grant before
// it is told to its user: whoever is first, lives and tells a grant is the leader. Before
// that nobody is taken for it. Who joins in the transaction that makes the parent tells its
// grant there; nobody else was there, so it gives way to nobody.
//
// To give way ends: nobody gives way to an equal, nobody joins ahead of another, and who has
// given way stands behind whom it gave way to (standBack). One who dies is purged as any other.
//
// Who observes reads the first entry and watches it: nobody comes to stand ahead of it, so
// a list is made only when it has gone, and the children are watched only while there are
// none. It judges as waiters do, and purges nobody.
//
// # Several locks at once
//
// Who wants several locks makes all entries in one transaction, each by the operations that
// it would have been made by alone. So of two who do, one is ahead of the other in every
// queue that they share (Z1, Z3). Whoever waits does so for entries that are older than its
// own, so no circle of waiting can close, in whatever order the locks are named. The
// transaction is refused as a whole; the lock whose operation it was learns from that what
// it would have learned alone, and all try again. In the transaction that makes the parents
// of all of them the entries tell the grant at once; otherwise with the next write after
// the grant, as who has one lock may have to wait for another.
//
// While one parent is looked at, what is known of the others grows older. So if any was
// looked at, none is written without a witness that may go: its entry is created alone.
//
// All places are waited for at the same time, and all entries are renewed. Who is first
// somewhere waits on, and is granted when all are: if each may enter, at one moment, by its
// own lease, else that is renewed first. If one entry is gone then or before, all are
// withdrawn and made anew: one made anew by itself would be younger than its companions,
// and those ahead of it might wait for them.
//
// If the reply is lost each id is looked for. Only if all are there have we joined; else all
// ids are remembered, and what is there is deleted. Who gives up withdraws all. A parent
// whose counter is near its end is waited for with no entry at the others.
//
// To unlock deletes all entries, and the parents of those who joined alone, in one
// transaction, which tells no release. Who is refused leaves by itself.
//
// # Holding
//
// Package lease keeps the entry alive, a waiter's as a holder's, and says until when it is
// surely respected: TTL after the send of the last acknowledged write, less a margin. As
// long as the outcome of a later write is unknown, the earlier of both ends counts. After
// an outage all entries are renewed at once, so that they bear a stamp of the present
// leader. When half of a lease has passed, its hold is told to be at risk.
//
// The grant is recorded in the entry by the next write. Who had to wait writes soon, so
// that whoever is behind knows it; a hold of less than a millisecond is over before. Of a
// reader it helps nobody; of a semaphore those behind wait for it, so it is always written
// soon. A lease that is not renewed is written before the lock is handed out.
//
// A user's transaction is a write of the entry around the user's operations:
//
//	SetData(entry, version v)  ...  SetData(entry, version v+1)
//
// It is applied only while the entry stands, and as long as that does nobody else is in. It
// takes its turn with the renewals: one write of an entry is on its way at a time.
//
// # Handing on
//
// An entry can go on in another process. Its record counts how often it has: the
// incarnation, a part of the fencing token. Who detaches an entry first ends it
// for itself, and then writes it once more: as detached, with a lease of its own. What was
// enqueued is created so. Nobody has such an entry and nobody renews it, and to all others
// it is one like any other: its place is kept, and when its lease is over it is purged.
//
//	SetData(entry, incarnation + 1)  SetData(entry, the same)
//
// Who attaches reads the entry after a Sync, and writes it on the version that it has
// read: of all who try one succeeds. The incarnation has to be that of the ticket. A record
// that says detached is taken over at once. One that does not may have an owner who counts
// on its lease, so whoever attaches waits until that has expired, by the verdict of those
// who wait behind, and competes with them. From its write on it is a contender that has
// joined: a list tells its place, and decide says whether it is in. Nobody was let in
// meanwhile, because the entry was there all the time.
//
// It is written twice, because the owner before may have a renewal of unknown outcome, and
// write or delete on the version that a single write would have left.
//
// Who attaches and gives up before its turn writes the entry back: detached, and as the
// incarnation of the ticket, which is good again; in the background, if the outcome of the
// attaching write is not known. The bytes of that write and of all later ones are like no
// other's, by a random id: two who attach may have the same name, host and process id.
//
// A detached entry leaves the account of its process without a duty for the parent, which
// is whoever's that unlocks it, or else the reaper's.
//
// # Asking for a lock
//
// Holders are asked to give up a lock by nodes beside the locks (package inbox). What is
// above does not depend on them: nobody enters or leaves by them, and who is asked decides.
//
//	Check(entry, -1)  Create(.revoke/<id of the entry>)
//
// Whoever asks lists the lock after a Sync, and asks all who are in ([znode.Holders]). A
// request stands for as long as its entry does. So nobody deletes one that another has not
// read; no late delete hits a newer one; who attaches to an entry is asked too. One that stands
// is replaced in one transaction, by a change of the node above, on which those who listen have
// their one watch. They list it again after a reconnect (Z6); two have two Czxids.
//
// Who has seen the request in a session has seen the entry's create (Z5). If it sees no
// entry in that session, the entry has gone, and its path never comes again (Z4): then the
// request is moot, and anybody may delete it. The client of the entry does, if it listened;
// else whoever asks for any lock next, and the reaper.
//
// If the reply to a request is lost it is made again. That it is there already, with a
// random word that nobody else has, says that it was applied. (Who breaks a hold, see
// admin.Tree.Break, writes into the entry itself: its owner's next renewal is refused, it
// reads why, its hold ends, and it deletes the entry. To all others that is a renewal.)
//
// # Leaving
//
//	joined alone     Delete(entry)  Delete(parent, version)
//	else             Delete(entry)
//	short hold       Delete(entry)  SetData(parent, version, released: entry)
//
// The first is tried if nobody is known to have come; if somebody has, ZooKeeper refuses
// it as a whole. The last one is for grants that were not recorded.
//
// Of the entries of one process the last one to leave has the duty to look after the
// parent: it reads it and deletes it, on the version read, if it is ours and empty. Who
// joins meanwhile has the duty then. Where this process takes a lock again and again the
// parent stays until it has not done so for 50 ms, or the client closes. An adopted parent
// and one of a policy with keep_parent stay; ancestors are the reaper's.
//
// A contender with a sequence near the end of the counter (Z9) that is not alone withdraws,
// and waits until the parent was deleted, even one that was to stay, and counts from 0 again.
//
// # Replies that are lost
//
// A write that failed was refused, was not sent, or may have been applied, now or later
// (zkconn.OutcomeOf). The last case is resolved for each kind of write:
//
//   - A create: by a list after a Sync, which looks for our id. If it is there we have
//     joined, and our place takes another list; if not, the id is remembered for an hour,
//     and the entry deleted when seen (Z8).
//   - A create whose caller gave up: who deletes the entry is settled before the request is
//     sent, and Close waits for it.
//   - A renewal, and what detaches or attaches: the same bytes are sent again on the same
//     version. If that is refused, and our bytes stand there, it was us.
//   - A transaction: its bytes are sent on the same version, without the operations. Either
//     that is acknowledged, and the transaction can not be applied any more and is made
//     anew; or our bytes stand there. One version on, it was that write; two, it was the
//     transaction.
//   - A delete: it is sent again. That the node is gone then is what was asked for, unless
//     the lease may have run out before the unlock.
//   - A purge: by the next list. Of requests see Asking for a lock.
//
// # Sweeping
//
// Package reaper deletes what nobody comes back to: expired entries, by the same verdict as
// a waiter's; parents and ancestors of ours that have been empty for orphan_after; requests
// whose entries are gone. Each was read and judged by that sweep, and goes on that version.
//
// # Traps that others fell into
//
//	trap                                                    here
//	expiry is checked once, then waited without a timer     a timer ends each wait
//	waiting in the queue eats the lease                     waiters renew; the grant is a write
//	judged on one read, deleted on the version of another   the version that was judged
//	clients' wall clocks are compared                       the leader's stamps
//	stamps of two leaders are compared                      terms
//	a renewal's lost reply drops the lock                   read back, and own bytes known
//	one failed renewal ends all renewals                    tried until the lease ends
//	a repeated unlock deletes a newer holder's node         a path of its own for each attempt
//	a waiter never learns that its own node is gone         renewals and lists tell
//	a failed try leaves its node at the head                read first; withdrawn all the same
//	a sibling that cannot be parsed breaks everybody        no contender: ignored
//	reader and writer wait for each other                   only for earlier ones
//	names are compared as strings when the counter ends     drained before; else by Czxid
//	an unlock that fails is forgotten                       a context of its own, tried on
package queue
