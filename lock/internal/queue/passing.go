// # Passing on
//
// What stands above knows entries, and not how many of one process have had each. An entry
// is alive for as long as it is renewed; who of its process has the lock by it is that
// process's own affair. So contenders of one client that ask for the same (a party) have one
// entry after the other, without a word to the server. To everybody else that is one long
// hold, and all that is proved of holds is true of it.
//
// A contender rides if one of its party is about to get an entry, or has one. Riders are
// served first come, first served. Whoever gives up leaves without a request; if the entry
// that all wait by was its own, the next rider waits on by it. There are as many entries of a
// party (seats) as are of use at once: one, or as many as a semaphore has room for.
//
//   - Only what ended by an Unlock with time left on its lease is passed on, and only with
//     the lease of its terms: nothing that was extended, downgraded, detached, lost, asked to
//     be given up or has a ticket out. Then those who ride queue anew.
//   - It must be quiet: whoever is next waits for the answer of a write that is on its way.
//     What is in doubt then, or has turned out gone, leaves.
//   - A transaction of a user's may come late. After one, the next one writes the entry before
//     it enters, so that what comes late finds another version.
//   - The next one enters by decide, as who has joined alone does: by a lease of which half is
//     left, written in the present session; else it renews first, and lists.
//   - Each pass is a hold of its own, an [Entry] that takes over the node: its context, its
//     max_hold, its token with the number of the pass. The one before has ended for good, so
//     nobody enters again by its context.
//
// Others wait. So there is a window, from the grant of an entry that was joined: in it the
// entry is passed on whoever waits behind. A read of the parent's Stat that shows no other
// child begins another window, from when it was sent. It is made before the end, so that
// nobody waits for it; after a hold that was longer than what was left, whoever is next makes
// it. Where others wait and the window is over the entry leaves, and the next rider joins
// anew, at the end of the queue. So each entry ahead costs others a window and a hold at most.
//
// Readers have one entry at once, not one after the other. They come to a hold of their
// process only inside its window, and it is not made longer; later ones share another entry,
// so that a writer that waits has its turn. It ends with the last of them.
//
// # Keeping
//
// If the policy says so an entry that nobody rides on is kept for a while. A watch on the
// children of the parent, set before nothing else is trusted about who is there, tells when
// anybody comes, of whatever library: then what is kept leaves at once, and what is held
// leaves at its Unlock. The watch stays over many uses. It is a promise to others that they
// need not wait, and no proof of anything: should it get lost the entry is kept for too long.
// A session that ends fires it.
package queue
