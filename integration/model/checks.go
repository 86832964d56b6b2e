package main

// Models, each of one part of the protocol.
const (
	queue  = "queue.pml"  // the parent, its anchor, joins, deletes, requests that are applied late
	writer = "writer.pml" // the one writer of an entry: renewals, transactions, last writes, attaching
	shared = "shared.pml" // transactions of several members: refusals, lost replies, answers
)

// Names of properties in the models.
const (
	exclusion = "mutual_exclusion"
	told      = "txn_told"
	lastTold  = "last_told"
	nothing   = "nothing_left"
	foreign   = "nothing_foreign"
	served    = "served"
	toldTrue  = "told_true"
	ownAnswer = "own_answer"
	once      = "applied_once"
)

// check is a variant of a model, with the result that spin must have.
type check struct {
	name  string
	model string
	size  string // size of the model and its faults, for the table
	defs  string // macros for the model
	// refutes is the property that spin must refute; "": spin must verify all.
	refutes string
	// progress makes spin also check that each waiter is served.
	progress bool
	// whole means that the variant has all steps of the correct protocol. Each step of a model must
	// be reached by at least one whole check. The whole checks of a model must have the same N and
	// number of turns, because a step is identified by its line and its expanded macros.
	whole bool
}

// right has the checks of the correct protocol, the longest first.
var right = []check{
	{name: "queue-lost-twice", model: queue, size: "2 processes, 2 calls each; two replies are lost", defs: "-DN=2 -DLOSSES=2 -DLAPSES=0"},
	{name: "queue", model: queue, size: "3 processes, one with 2 calls; a lost reply, a lease ends, a caller gives up", defs: "-DN=3 -DOTHERS=1", whole: true},
	{name: "queue-sessions", model: queue, size: "the same, a new session in place of the lease's end", defs: "-DN=3 -DOTHERS=1 -DFLAPS=1 -DLAPSES=0", whole: true},
	{name: "queue-crashes", model: queue, size: "the same, a process dies and a reaper is at work", defs: "-DN=3 -DOTHERS=1 -DCRASHES=1 -DREAPER=1 -DLAPSES=0", whole: true},
	{name: "queue-sends", model: queue, size: "2 processes, 2 calls and 3 sends each; a lost reply, a lease ends", defs: "-DN=2 -DSENDS=3"},
	{name: "writer", model: writer, size: "3 processes, a write each; two replies are lost, a lease ends", defs: "-DN=3 -DWRITES=1", whole: true},
	{name: "writer-twice", model: writer, size: "2 processes, two writes each; two replies are lost, a lease ends", defs: "-DN=2 -DWRITES=2"},
	{name: "shared", model: shared, size: "3 callers; a lost reply, a change by another client", defs: "-DN=3 -DDROPS=0"},
	{name: "shared-lost-twice", model: shared, size: "2 callers; two lost replies, a change by another client", defs: "-DN=2 -DLOSSES=2 -DDROPS=0"},
	{name: "shared-changes", model: shared, size: "2 callers; a lost reply, two changes, two members that are not sent", defs: "-DN=2 -DCHANGES=2 -DDROPS=2", whole: true},
	{name: "shared-served", model: shared, size: "2 callers; a lost reply, a change, a member that is not sent: each caller is answered", defs: "-DN=2 -DPROGRESS", progress: true},
}

// wrong has the variants that are wrong on purpose.
var wrong = []check{
	{name: "no-anchor", model: queue, size: "names by the parent's Czxid, and no anchor: a write meets another entry", defs: "-DN=3 -DCALLS=2 -DLOSSES=0 -DREAPER=1 -DQUITS=0 -DNO_ANCHOR", refutes: foreign},
	{name: "no-anchor-enters", model: queue, size: "the same; and two hold the lock", defs: "-DN=3 -DLOSSES=0 -DREAPER=1 -DQUITS=0 -DNO_ANCHOR -DTWO_IN", refutes: exclusion},
	{name: "no-check", model: queue, size: "a join does not check the anchor: a write meets another entry", defs: "-DN=3 -DLOSSES=0 -DREAPER=1 -DQUITS=0 -DNO_CHECK", refutes: foreign},
	{name: "no-check-enters", model: queue, size: "the same; and two hold the lock", defs: "-DN=3 -DLOSSES=0 -DREAPER=1 -DQUITS=0 -DNO_CHECK -DTWO_IN", refutes: exclusion},
	{name: "generation-again", model: queue, size: "a generation is sent twice: a delete meets another entry", defs: "-DN=3 -DCALLS=1 -DREAPER=1 -DSAME_GENERATION", refutes: foreign},
	{name: "generation-again-enters", model: queue, size: "the same; and two hold the lock", defs: "-DN=3 -DCALLS=1 -DREAPER=1 -DSAME_GENERATION -DTWO_IN", refutes: exclusion},
	{name: "anchor-uncounted", model: queue, size: "two contenders are taken for one", defs: "-DN=2 -DLOSSES=0 -DLAPSES=0 -DTWO_ARE_ALONE", refutes: exclusion},
	{name: "third-is-second", model: queue, size: "the third contender takes itself for the second", defs: "-DN=3 -DLOSSES=0 -DLAPSES=0 -DTHREE_ARE_TWO", refutes: exclusion},
	{name: "unseen", model: queue, size: "the second of two enters when the predicted entry is not there, though it never saw it", defs: "-DN=2 -DLOSSES=0 -DLAPSES=0 -DUNSEEN", refutes: exclusion},
	{name: "seen-unsettled", model: queue, size: "an entry counts as seen in a session that had not our own", defs: "-DN=2 -DLOSSES=0 -DLAPSES=0 -DFLAPS=1 -DSEEN_UNSETTLED", refutes: exclusion},
	{name: "gone-unsettled", model: queue, size: "an entry counts as gone in a session that had not our own", defs: "-DN=2 -DLOSSES=0 -DLAPSES=0 -DFLAPS=1 -DGONE_UNSETTLED", refutes: exclusion},
	{name: "gone-enters", model: queue, size: "a waiter enters when the entry ahead has gone, though that one did not hold", defs: "-DN=3 -DLOSSES=0 -DLAPSES=0 -DGONE_ENTERS", refutes: exclusion},
	{name: "tidy-all", model: queue, size: "a tidy deletes the parent with all that is below", defs: "-DN=2 -DLOSSES=0 -DLAPSES=0 -DTIDY_ALL", refutes: exclusion},
	{name: "tidy-any", model: queue, size: "a tidy does not name the generation", defs: "-DN=2 -DLAPSES=0 -DTIDY_ANY", refutes: foreign},
	{name: "left-untidy", model: queue, size: "a client that leaves the parent owes no tidy", defs: "-DN=2 -DCALLS=1 -DLOSSES=0 -DLAPSES=0 -DLEFT_UNTIDY", refutes: nothing},
	{name: "gone-owes-nothing", model: queue, size: "a client that finds its entry gone owes no tidy, and the purge came late", defs: "-DN=3 -DSENDS=1 -DCALLS=1 -DGONE_OWES_NOTHING", refutes: nothing},
	{name: "rejoin-undeleted", model: queue, size: "the transaction that joins again does not delete the entry", defs: "-DN=2 -DLAPSES=0 -DREJOIN_UNDELETED", refutes: nothing},
	{name: "rejoin-not-applied", model: queue, size: "NoNode for the second send means that the first was not applied", defs: "-DN=2 -DSENDS=3 -DLAPSES=0 -DNOT_APPLIED", refutes: nothing},
	{name: "rejoin-version-is-gone", model: queue, size: "BadVersion, from a renewal of our own, means that the entry has gone", defs: "-DN=2 -DLAPSES=0 -DVERSION_IS_GONE", refutes: nothing},
	{name: "join-forgotten", model: queue, size: "a place forgets the join in flight when its caller gives up", defs: "-DN=2 -DCALLS=1 -DLAPSES=0 -DFORGOTTEN", refutes: nothing},
	{name: "find-unsynced", model: queue, size: "a lost create is looked for on a server that lags", defs: "-DN=2 -DCALLS=1 -DLAPSES=0 -DUNSYNCED", refutes: nothing},

	{name: "attached-once", model: writer, size: "an attachment raises the version by one, as a renewal does", defs: "-DATTACHED_ONCE", refutes: foreign},
	{name: "attached-any-version", model: writer, size: "an attachment writes whatever version is there", defs: "-DATTACHED_ANY_VERSION", refutes: foreign},
	{name: "last-guesses", model: writer, size: "the last write goes on the version behind a transaction in doubt, without a read", defs: "-DN=2 -DLAST_GUESSES", refutes: foreign},
	{name: "last-any-version", model: writer, size: "the last write goes on whatever version is there", defs: "-DN=2 -DLAST_ANY_VERSION", refutes: foreign},
	{name: "taken-for-ours", model: writer, size: "a last write that was refused goes on the version read, whose bytes ever are there", defs: "-DN=2 -DTAKEN_FOR_OURS", refutes: foreign},
	{name: "gone-is-not-ours", model: writer, size: "an entry that is missing after a lost reply to the delete counts as removed by another client", defs: "-DN=2 -DGONE_IS_NOT_OURS", refutes: lastTold},
	{name: "txn-read", model: writer, size: "a read of the same version means that a transaction in doubt is not applied", defs: "-DN=2 -DWRITES=1 -DTXN_READ", refutes: told},
	{name: "txn-writes-once", model: writer, size: "a transaction raises the version by one, as a renewal does", defs: "-DN=2 -DWRITES=1 -DTXN_WRITES_ONCE", refutes: told},

	{name: "refuses-all", model: shared, size: "the refusal of one member is the answer of its neighbors, too", defs: "-DN=2 -DREFUSES_ALL", refutes: ownAnswer},
	{name: "index-of-group", model: shared, size: "a member gets the index of the refused operation in the transaction, not in its own operations", defs: "-DN=2 -DINDEX_OF_GROUP", refutes: ownAnswer},
	{name: "before-is-applied", model: shared, size: "members before the refused operation, which have no error, count as applied", defs: "-DN=2 -DBEFORE_IS_APPLIED", refutes: toldTrue},
	{name: "reduced-is-whole", model: shared, size: "a member of which only the sure operation was sent is told that all was applied", defs: "-DN=2 -DREDUCED_IS_WHOLE", refutes: toldTrue},
	{name: "lost-is-unsent", model: shared, size: "members whose reply was lost are told that they were not sent", defs: "-DN=2 -DLOST_IS_UNSENT", refutes: toldTrue},
	{name: "unsent-stays", model: shared, size: "a member that was told that it is not sent stays in the queue", defs: "-DN=2 -DUNSENT_STAYS", refutes: toldTrue},
	{name: "sent-again", model: shared, size: "after a lost reply the members are sent again, though they may be applied", defs: "-DN=2 -DDROPS=0 -DCHANGES=0 -DSENT_AGAIN", refutes: once},
	{name: "forgotten", model: shared, size: "the neighbors of a refused member are neither sent again nor answered", defs: "-DN=2 -DFORGOTTEN", refutes: served},
	{name: "refused-stays", model: shared, size: "a refused member is sent again as it was, with its neighbors", defs: "-DN=2 -DPROGRESS -DREFUSED_STAYS", refutes: served, progress: true},
}
