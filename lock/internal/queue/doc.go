// Package queue takes an entry into the queue of a lock, waits for its turn, and takes it out
// again. This page is the protocol of the locks, the reaper and the command line. Package lock
// documents the promises, package znode the nodes, package place the goroutines of one process.
//
// # The states of an entry
//
//	          join                 wait                        Unlock
//	Request ────────▶  queued  ─────────────▶  granted  ─────────────────────▶  gone
//	   │                 │ ▲                     │   ▲                            ▲
//	   │ refused:        │ │ its position is     │   │ handed off to the next     │
//	   ▼ the parent      │ │ unknown: list       │   │ goroutine                  │ lost:
//	 read it, adopt it,  │ │                     │   │ (package place)            │ Remove
//	 make its ancestors  ▼ │                     ▼   │                            │
//	                  follow the              unlocked ── exchange: leave and ────┘
//	                  predecessor                         join in one transaction
//
//	Queue                what package lock calls
//	lockState            what this client knows of one lock while it uses the lock; lockStates has all
//	view                 what one request reads of a lock, and its verdicts
//	contender            a view that joins. joiner and waiter are a contender before and after its join
//	draft, exit          the operations of a join; an entry that leaves
//	placed               the goroutines of this client that share entries at a lock
//	tidier, Remove       work in the background: empty parents, ended entries
//
// Three pieces of code decide, without a request: admit, [znode.Entry.Judge] and package place. The
// reply to a join, an exchange or an attach is awaited even if the caller gives up.
//
// # From one holder to the next
//
//   - To a waiter of another client: the holder deletes its entry, and the server tells the waiter right
//     behind, which watches that entry. That waiter enters at once if it knows that this was the only
//     holder; otherwise it lists the entries first (Admission). If the holder has crashed, the waiter deletes the
//     entry when the lease and the grace have passed (Waiting and purging).
//   - To a goroutine of the same client, within the local window, by default 10 ms from the grant of the
//     entry, which later handoffs do not extend: a local handoff. The entry stays, and no request is
//     sent. The goroutine that unlocks gives the entry to the first waiting one. Each of them has a hold
//     and a token of its own. Only local handoffs are called handoffs in package lock and below.
//   - To a goroutine of the same client, after the window: an exchange. One transaction deletes the entry
//     and creates another one at the end of the queue.
//   - Readers of one client share an entry instead: it is neither handed off nor exchanged.
//   - To another process, by a ticket: it attaches to the entry that the first one has detached.
//
// # Words
//
//	P, E, anchor, generation   the lock's node, an entry, and what tells one P from a later one: package znode
//	adopt                      make a P of a node that has no anchor
//	belief                     what this client takes P to be; the server refuses a join if it is wrong
//	guess                      a belief that is not sure (Shared transactions)
//	guard                      an ephemeral node with an anchor's name: P cannot be deleted meanwhile
//	settled                    said of a read that cannot be older than the own entry
//	place, window              what a client's goroutines share at a lock, and how long they hand off: package place
//	sample, term               a stamp of the leader's clock, and how long stamps can be compared: package clock
//
// # Assumptions about ZooKeeper
//
//   - Z1: One leader orders all writes by a rising zxid. The upper half of the zxid is the epoch:
//     each leader has its own. A node's Mtime is what the leader's clock showed at some moment
//     between the send and the reply of the write.
//   - Z2: A new leader begins with all earlier commits.
//   - Z3: A transaction (Multi) is applied as a whole or not at all. A SetData in it returns the
//     Stat at that point, which counts children that the transaction created before.
//   - Z4: A sequential child's number is the count of all children ever created in its parent. A
//     parent that is deleted and created again begins at 0.
//   - Z5: A read may be stale. But a read that shows a write shows all earlier writes, and a
//     session never goes back in time. (The exception is a restore of running servers by the admin
//     server of ZooKeeper 3.9: it takes back writes, and drops watches. FAILURES.md says so.)
//   - Z6: A watch fires once; package zkconn also fires it after a lost connection, and after about
//     a minute. A deletion event proves that the node was deleted. Any other event only says "read
//     again".
//   - Z7: Sync lets a server catch up with the leader. It does not ask a quorum.
//   - Z8: Persistent nodes outlive their session. A write can be applied after its connection has
//     failed.
//   - Z9: The counter of children ends at 2147483647. From ZooKeeper 3.6 on it repeats that number, and
//     concurrent creates may turn it negative; before, it goes on from -2147483648.
//
// # Joining
//
//	no parent    Create(P) Create(anchor) Create(P/<gen>-lock-) SetData(P, data, version 0)
//	a parent     Check(anchor)            Create(P/<gen>-lock-) SetData(P, data, version)
//	... adopted  Check(anchor) Create(P/<gen>-lock-) Create(P/<random>) Delete(P/<random>) SetData(P)
//	... permits  SetData(anchor) instead of Check(anchor), once: see Semaphores
//
// No path ever recurs, so a late write or delete of an earlier generation (package znode) finds
// nothing. The server refuses a join whose client is wrong about the parent. While the anchor is there,
// Holdfast writes the parent's data only with the same bytes.
//
// A client that knows of no other client at the lock joins on the parent's version as its own last
// join left it, or as it has read it. So data that another program writes there is not overwritten:
// the join is refused, and the read that follows finds the data. Other clients' joins raise the
// version too. So a client that has seen others joins on any version (versionToWrite), and joins
// do not collide.
//
// The SetData is there for its reply (Z3). Mzxid is the first part of the fencing token, and Mtime
// is a sample of the leader's clock. NumChildren 2, the anchor and the new entry, proves that there
// is no other contender.
//
// The line "adopted" is a client's first join below a parent that Holdfast has not created. The
// create and the delete of a node without meaning prove that the client may delete entries there.
//
// A parent of another kind or format, or with foreign data, is refused and not touched. A parent
// without a generation or its anchor is adopted before the join (adopt.go):
//
//	read P; if it can be used:
//	Create(guard, ephemeral) Delete(guard) Create(guard, ephemeral)
//	read P again
//	Delete(guard) Create(anchor) SetData(P, data, the version read)
//
// The guard has the anchor's name. While it is there, no client can delete P, because a node with
// children cannot be deleted. So the write hits the node that was read. The first create and
// the delete prove that the client may do both; the second create leaves the guard.
// A client needs CREATE, DELETE and WRITE on a lock's node; without them it gets ErrDenied and leaves
// nothing behind. An adopted parent that had no data is deleted only at the end of its counter.
//
// # Worked examples
//
// Folder lock/testdata/wire has a transcript of each mechanism: requests, replies, watch events, and
// the nodes afterwards. A test compares them with what clients send. Read free.txt, again.txt and
// contended.txt first, then localhandoff, shared (transactions), renewal, parent, purge, readers,
// semaphore, all, election, detach, revoke and txn.
//
//	a  multi, refused      a transaction of client a
//	x                      the lock's node; "x on 2": on that version of it
//	{mutex g1}             its data: the kind, and a name for the generation
//	x/g1-lock-+            a sequential create; the reply shows the name
//	{a, 10s, granted}      the record: owner, TTL, what else it says
//	b  <- deleted x/...    a watch of b's fires
//
// # Admission
//
//	no contender is ahead, by the join's reply or by a list      enter
//	the predecessor is unknown                                   list
//	it is a writer that only reads now; the contender reads      enter
//	it is there                                                  follow it
//	it is not there, and no settled read ever showed it          list
//	it has gone, and may have been waiting itself                list
//	it has gone, and held the lock alone                         enter
//
// Only admit lets a contender in. The last line is safe because no contender is ahead of a lone
// holder, and none joins ahead of another. The predecessor surely held the lock if it was first in
// a list, if the contender's entry was the second of two when it joined, or if the predecessor's
// record shows the grant.
//
// Mutexes without priorities predict the predecessor: its sequence is one lower. Semaphores do so behind
// a full queue: the contenders, of which there are three at least, and the own sequence are more than the
// permits. All other contenders list. A list that has the contender's own entry has every earlier
// entry that still exists (Z5). If the own entry is missing, the contender syncs and lists again. Any
// other read proves something only if it is settled: the session of the read had already written the
// own entry.
//
// A contender enters only if half of its lease is left and its entry was written in the present
// session. Otherwise it renews, then lists. Its record shows the grant
//
//	of an entry that has created its parent                from the beginning
//	of a leader                                            before it leads
//	of a reader, and of another entry that joined alone    with the next renewal
//	of any other entry                                     300 µs after the grant, if the hold still lasts
//
// A try, and a barging request, list before they join. They join only if no live contender is in the
// way, and withdraw if they then have to wait. A barging waiter has no entry.
//
// # Waiting and purging
//
// A waiter reads its predecessor and sets a watch, and does so again after each renewal of the
// predecessor. permits.go has the rule for semaphores. Behind a foreign entry, which has no lease, the
// waiter also watches the nearest Holdfast entry ahead of that, and lists again after each change.
//
// All entries, waiting or held, are renewed after a third of their TTL, and a hold ends by its owner's
// own clock, a TTL after the last acknowledged write was sent (package lease). An entry has expired
// when the TTL in its record, and then the grace of the client that judges it, have passed since it
// was last written. A waiter reads its predecessor again at that time, or after a minute. If the
// predecessor has expired, the waiter lists, and deletes (purges) the expired entries right ahead in
// one transaction, each on the version judged. The list without them gives its new position. The
// verdicts:
//
//   - An entry is judged by the leader's clock, or by how long this client has known the entry's
//     present version; never by expires_at in a record, nor by a client's wall clock.
//   - Stamps of two leaders are never compared. A lease written in an earlier term counts from the
//     first known stamp of the present one (package znode).
//   - Between two sessions the servers may lose their data, and number new writes past the lost
//     ones. So a write whose zxid is below the first of a term that an earlier session has seen may be
//     newer than that term, and counts from its own stamp if that is later.
//   - After an outage of this client all other entries look expired to it. So a contender first renews
//     its entry, and waits a third of their TTL longer for entries that were not written since.
//
// If a contender's own entry has gone, the contender joins again at the end, and the attempt that
// created the entry is an orphan for an hour: if the entry appears after all, this client deletes
// it.
//
// # Leaving
//
//	alone, the lock not in frequent use    Delete(E, v) Delete(anchor) Delete(P, version of the join)
//	else                                   Delete(E, v)
//	after the window, goroutines wait      Delete(E, v) Check(anchor) Create(E') SetData(P)
//	a Resize                               SetData(anchor, v) Delete(E)
//
// A parent stays if it has other contenders, if another entry of this client has left it within the last
// second, if it is adopted, or if its policy keeps it. A client that leaves, gives up or purges without
// deleting the parent owes a check: after a second, or at Close, it deletes an empty parent with its
// anchor. A contender that has joined meanwhile owes the check instead. After a crash the reaper deletes
// the parent.
//
// # Shared transactions
//
// Joins, exchanges and leaves of one client share transactions, also several of one lock (package
// zkconn, Member). There is no timer: while fewer than four transactions are in flight, one goes as
// soon as the goroutines that run at this moment have submitted their parts; a full one goes at once.
//
//   - A refusal names one operation. Only its part is not applied; the others are sent again. Of an
//     exchange the delete is sent again, too.
//   - A part that creates or deletes a parent, or writes its anchor, is the only one of its lock.
//   - A guess is one of these: a belief about a parent that was not read in this session; the belief of a
//     join that was refused before; a leaver's belief that it is alone. If a guess is refused, the parts
//     that rest on other guesses are not applied either: joins read those parents at once; leaves and
//     exchanges are sent again as Delete(E, v).
//   - A part that waits is not sent if its caller gives up, unless it is a delete. If the session is
//     lost, none is sent.
//
// Entries of one transaction have one czxid. Within a lock their sequences tell them apart; two locks
// may show the same token.
//
// # Lost replies
//
// A request in doubt may be applied, now or later. After a lost reply to
//
//   - a create: list after a Sync. If an entry's record has the attempt, the contender has joined,
//     and lists to find its position. Otherwise the attempt is an orphan, and the contender joins
//     with a new one.
//   - a write of the own entry's node: send it again, the same bytes or the delete on the same version.
//     If the server refuses the version, read the node. With these bytes, the first write was applied.
//     If another client has written it, the entry has ended. If it has gone, a delete has succeeded,
//     unless the lease may have expired before the unlock.
//   - a purge: list.
//
// After the create only write.go and last.go of package lease write an entry's node. One write is in
// flight or in doubt at a time. The last one deletes or detaches, on the version v that is known; behind
// a write whose reply is missing, on v+1. It names any other version only after a read. Operations that
// share a write's transaction have answers of their own:
//
//   - a transaction of a hold is applied if the version rose by two. If the node has gone, it is in
//     doubt.
//   - a detach has succeeded if another client has attached since. If the node has gone, that client
//     may have unlocked.
//   - after an exchange the old entry is deleted in a transaction of its own, and then the create is
//     looked for. The old entry can be deleted only once, so the exchange is not applied later.
//   - a Resize reads the number, and begins again unless it is the new one.
//
// # Semaphores, elections, several locks
//
//   - A semaphore's anchor has the number of permits, and says "single" until the first join that asks
//     for several, which writes it. A join checks the anchor's version, so number, "single" and the count
//     of contenders are of one moment: with "single", a contender enters without a list if there are at
//     most as many contenders as permits. Only an anchor that was read in the present session counts,
//     because servers that have lost data may count versions anew. A waiter lists, then reads
//     the number. The two reads prove nothing unless they are settled. A waiter enters if it and
//     all contenders ahead ask for at most that number in total.
//   - An election is a mutex. A candidate whose turn has come syncs and lists. It withdraws, and
//     joins again at the end, if a live candidate of a higher priority waits. The leader is the
//     first entry, if it has not expired and its record shows the grant.
//   - One transaction joins several locks, so no deadlock is possible. All are granted at one
//     moment. If one entry is missing, all are withdrawn. One outdated belief refuses the whole
//     transaction. So after two refusals the client first creates a guard below each parent: an
//     ephemeral node, no contender, with the name of an anchor. A parent that has a guard cannot be
//     deleted, so the beliefs stay right until the join, which deletes the guards.
//
// # The goroutines of a client
//
// Package place decides on local handoffs (Release). Only an entry with a fresh lease is handed off
// or exchanged; others leave. If a write of it is in flight, a goroutine awaits the answer first; if the window ends before that, the
// entry leaves. Behind a hold of a second the first waiting goroutine joins while the entry is still
// held.
//
//	one for the client     the keeper, which renews; watchSession; package revoke and the tidier while there
//	                       is work; those of observers and logs; the connection's own
//	a join of a place      placed.join, until an entry's turn has come. The callers of Lock only wait
//	a call without a place abandonable: it goes on if the caller has given up, until it is cleaned up
//	several locks          one for each lock, while they wait
//	a shared transaction   commitGroups, until its reply; four at most, besides full ones and those sent again
//	what has failed        one for each removal, search or detach that needs more than one attempt
//
// Close waits for all that send requests: package zkconn counts its members, Options.Tasks the others.
//
// # Mutexes
//
// A mutex is locked only with those to its left held:
//
//		lockState.mu ▶ lease.Entry.mu ▶ Keeper.mu
//		lockState.mu, tidier.mu ▶ lockStates.mu
//		any of them ▶ those of zkconn, clock and orphans, which are innermost
//
//	  - No request is sent, and nothing is awaited, with a mutex held. No two lock states or two entries
//	    are locked at once.
//	  - lockState.mu guards the place. With it held nothing is called that can end an entry: the end
//	    calls Entry.Changed, which locks it. Entry.Grant may be called, and Options.Waits and Observe.
//	  - With Entry.mu held only Owner.LossOf and the cancel functions of the hold's contexts are called.
//	    Owner.Changed is called after it is unlocked.
//
// # Detach and attach
//
// Detach writes the entry as detached, with a lease of its own. Attach reads the entry after a
// Sync. In one transaction it writes the entry twice, first on the version read, v. So only one
// client succeeds. A previous owner whose renewal is in doubt may still write or delete on v+1; at
// v+2 the server refuses that. If the entry was not detached, Attach first waits until its lease
// and the grace are over.
//
// # Sequence rollover
//
// An entry whose sequence is 2147483647 or negative is never granted (Z9). The entry leaves, and its
// client waits until the parent, even an adopted one, has been deleted: the next parent counts from 0
// again. Each retry purges expired entries, and deletes a parent without contenders. If there are
// other nodes below the parent, the call fails with ErrExhausted. From half of the counter on, a client
// that leaves alone deletes the parent also in frequent use.
//
// # Copied parents
//
// A tool may copy a parent with its entries. The new parent counts from 0, so its counter, which each
// list returns, may be at or below the number of a copied entry. Such an entry is older than all
// entries created there, so a list has it first (copiedFirst). A join that would get its number and
// its prefix is refused, and waits for the entry (collided). A join that gets its number with another
// prefix knows by the number that the entry is copied (isCopied).
package queue
