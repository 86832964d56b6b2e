package main

// Models, each of one part of the protocol.
const (
	leases = "holdfast.pml" // leases, sessions, lost replies
	queue  = "queue.pml"    // the parent, its anchor, joins, deletes, requests that are applied late
	adopt  = "adopt.pml"    // parents that Holdfast did not create
	hand   = "handover.pml" // writes of one entry: transactions, detaching, attaching
	judge  = "judge.pml"    // expiry across leaders
	rw     = "readers.pml"  // readers and writers
	sem    = "permits.pml"  // permits of a semaphore
)

// Names of properties in the models.
const (
	exclusion = "mutual_exclusion"
	rising    = "rising_token"
	told      = "txn_told"
	nothing   = "nothing_left"
	strangers = "strangers_alone"
	foreign   = "nothing_foreign"
	served    = "served"
	exceeded  = "never_exceeded"
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
	{name: "exclusive-three", model: leases, size: "3 contenders, one turn each; clocks do not drift", defs: "-DN=3 -DONCE -DDRIFT=0"},
	{name: "exclusive-late", model: leases, size: "2 contenders, and lost creates are applied late; clocks do not drift", defs: "-DN=2 -DLATE=1 -DDRIFT=0", whole: true},
	{name: "served", model: leases, size: "2 contenders, all faults but late creates, then none", defs: "-DN=2 -DPROGRESS -DCRASHES=1 -DFLAPS=1 -DDRIFT=0", progress: true},
	{name: "served-three", model: leases, size: "3 contenders, one turn each; two may die, none is paused", defs: "-DN=3 -DONCE -DPROGRESS -DPROMPT -DCRASHES=1 -DDRIFT=0", progress: true},
	{name: "exclusive-sessions", model: leases, size: "2 contenders, and new sessions begin", defs: "-DN=2 -DFLAPS=1", whole: true},
	{name: "exclusive-crashes", model: leases, size: "2 contenders, and processes die", defs: "-DN=2 -DCRASHES=1", whole: true},
	{name: "exclusive", model: leases, size: "2 contenders, clocks drift, replies are lost, waiters quit", defs: "-DN=2", whole: true},
	{name: "judged", model: judge, size: "a holder, a judge; any elections, a clock that is set", whole: true},
	{name: "judged-served", model: judge, size: "the same, and an election in each tick for ever", defs: "-DPROGRESS", progress: true},
	{name: "readers", model: rw, size: "3 contenders, two turns each, to read or to write; one gives up", defs: "-DN=3 -DTURNS=2"},
	{name: "readers-between", model: rw, size: "4 contenders; two give up", defs: "-DN=4 -DQUITS=2", whole: true},
	{name: "queue-sends", model: queue, size: "2 processes, 2 calls and 3 sends each; a lost reply, a lease ends", defs: "-DN=2 -DSENDS=3"},
	{name: "handover", model: hand, size: "3 processes, two writes each; two replies are lost, a lease ends", whole: true},
	{name: "adopt", model: adopt, size: "2 clients, 2 turns each, and one of zk.Lock's; two deeds of people", defs: "-DDEEDS=2", whole: true},
	{name: "permits", model: sem, size: "4 contenders for 2 permits; one may lower them, one gives up", defs: "-DN=4 -DLOWERS=1"},
	{name: "permits-raised", model: sem, size: "4 contenders, two of which never leave; two permits more, two give up", defs: "-DN=4 -DRAISES=2 -DSTAYS=2 -DQUITS=2"},
	{name: "permits-three", model: sem, size: "4 contenders for 3 permits; two may lower them, one permit more, one gives up", defs: "-DN=4 -DPERMITS=3 -DLOWERS=2 -DRAISES=1"},
	{name: "permits-resized", model: sem, size: "3 contenders; two may lower, two permits more, one gives up", defs: "-DN=3 -DLOWERS=2 -DRAISES=2", whole: true},
	{name: "readers-curator", model: rw, size: "3 contenders, one turn each; a client of Curator's goes on as a reader", defs: "-DN=3 -DCURATOR", whole: true},
}

// wrong has the variants that are wrong on purpose.
var wrong = []check{
	{name: "purge-any-version", model: leases, size: "a purge deletes whatever version is there", defs: "-DN=3 -DONCE -DDRIFT=0 -DQUITS=0 -DNO_VERSION", refutes: exclusion},
	{name: "purge-without-grace", model: leases, size: "expiry is judged without the grace", defs: "-DN=2 -DNO_GRACE", refutes: exclusion},
	{name: "judge-by-own-clock", model: leases, size: "expiry is judged by the client's wall clock", defs: "-DN=2 -DOWN_CLOCK", refutes: exclusion},
	{name: "no-margin", model: leases, size: "the holder does not allow for the error of its clock", defs: "-DN=2 -DNO_MARGIN", refutes: exclusion},
	{name: "lease-from-reply", model: leases, size: "a lease counts from the reply, not from the request", defs: "-DN=2 -DFROM_REPLY", refutes: exclusion},
	{name: "lease-from-grant", model: leases, size: "a waiter enters without looking at its own lease", defs: "-DN=2 -DFROM_GRANT", refutes: exclusion},
	{name: "validity-remembered", model: leases, size: "after a pause the holder does not look at the clock again", defs: "-DN=2 -DFLAG", refutes: exclusion},
	{name: "unsettled-read", model: leases, size: "a new session's reads are believed before a write", defs: "-DN=2 -DUNSETTLED -DFLAPS=1", refutes: exclusion},
	{name: "token-from-sequence", model: leases, size: "the fencing token is the entry's sequence number", defs: "-DN=2 -DBY_SEQUENCE", refutes: rising},
	{name: "create-again-leaves", model: leases, size: "a lost create is tried again without looking for the entry", defs: "-DN=2 -DNO_FIND", refutes: nothing},
	{name: "create-again-enters", model: leases, size: "the same; and two hold the lock", defs: "-DN=2 -DNO_FIND -DCRASHES=1 -DQUITS=0 -DDRIFT=0", refutes: exclusion},
	{name: "no-listing", model: leases, size: "a waiter enters when the predicted entry has gone, without a list", defs: "-DN=3 -DONCE -DNO_LIST", refutes: exclusion},
	{name: "no-timer", model: leases, size: "expiry is never judged", defs: "-DN=2 -DPROGRESS -DCRASHES=1 -DDRIFT=0 -DNO_TIMER", refutes: served, progress: true},

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

	{name: "adopted-unproven", model: adopt, size: "the parent is adopted on the version read, without a guard", defs: "-DADOPTED_UNPROVEN -DDEEDS=3", refutes: strangers},
	{name: "adopted-unversioned", model: adopt, size: "the parent is adopted on any version", defs: "-DADOPTED_UNVERSIONED", refutes: strangers},
	{name: "adopted-ignored", model: adopt, size: "an adopted parent is deleted with the last entry", defs: "-DADOPTED_IGNORED", refutes: strangers},

	{name: "attached-once", model: hand, size: "an attachment raises the version by one, as a renewal does", defs: "-DATTACHED_ONCE", refutes: foreign},
	{name: "attached-any-version", model: hand, size: "an attachment writes whatever version is there", defs: "-DATTACHED_ANY_VERSION", refutes: foreign},
	{name: "txn-read", model: hand, size: "a read of the same version means that a transaction in doubt is not applied", defs: "-DN=2 -DWRITES=1 -DTXN_READ", refutes: told},
	{name: "txn-writes-once", model: hand, size: "a transaction raises the version by one, as a renewal does", defs: "-DN=2 -DWRITES=1 -DTXN_WRITES_ONCE", refutes: told},

	{name: "stamps-across-leaders", model: judge, size: "stamps of different leaders are compared", defs: "-DACROSS", refutes: exclusion},
	{name: "sample-of-before", model: judge, size: "a sample that is older than the record is good enough", defs: "-DSTALE_SAMPLE", refutes: exclusion},
	{name: "later-is-earlier", model: judge, size: "a record of a later epoch than the sample's counts as of an earlier", defs: "-DANY_OTHER", refutes: exclusion},
	{name: "first-stamp-kept", model: judge, size: "the earliest stamp of one epoch is used in the next", defs: "-DKEEP_FIRST", refutes: exclusion},
	{name: "any-version-observed", model: judge, size: "an observation goes on although the record was rewritten", defs: "-DANY_VERSION", refutes: exclusion},
	{name: "no-terms", model: judge, size: "a judge that sees the leader's clock set goes on as before", defs: "-DNO_TERMS", refutes: exclusion},
	{name: "mark-of-before", model: judge, size: "the mark's stamp is used although the clock was set since", defs: "-DANY_MARK", refutes: exclusion},
	{name: "no-observation", model: judge, size: "there is no proof by own observation, and elections go on", defs: "-DPROGRESS -DNO_OBSERVATION", refutes: served, progress: true},

	{name: "readers-gone-enters", model: rw, size: "a waiter enters when the entry ahead has gone, whatever is before that", defs: "-DN=3 -DGONE_ENTERS", refutes: exclusion},
	{name: "reader-alone", model: rw, size: "a reader that tells its grant is taken to be alone", defs: "-DN=3 -DCURATOR -DTOLD_READER", refutes: exclusion},
	{name: "curator-alone", model: rw, size: "a writer of Curator's is taken to be alone", defs: "-DN=3 -DCURATOR -DANY_ALONE", refutes: exclusion},
	{name: "between-unproven", model: rw, size: "the writer before the readers is taken to be in", defs: "-DN=4 -DQUITS=2 -DBETWEEN_UNPROVEN", refutes: exclusion},
	{name: "between-forgotten", model: rw, size: "the readers in between are not looked for", defs: "-DN=3 -DBETWEEN_FORGOTTEN", refutes: exclusion},
	{name: "between-curators", model: rw, size: "a writer of Curator's before the readers is taken to be alone", defs: "-DN=3 -DCURATOR -DBETWEEN_STRANGERS", refutes: exclusion},
	{name: "shared-before", model: rw, size: "a writer goes on writing until it has told that it only reads", defs: "-DN=3 -DSHARED_BEFORE", refutes: exclusion},
	{name: "permits-unchecked", model: sem, size: "a join does not check the anchor's version", defs: "-DN=3 -DLOWERS=1 -DJOIN_ANY_VERSION", refutes: exceeded},
	{name: "permits-not-read-again", model: sem, size: "the anchor is not read again after an entry ahead has gone", defs: "-DN=3 -DLOWERS=1 -DOLD_CAPACITY", refutes: exceeded},
	{name: "lowered-at-once", model: sem, size: "permits go with an entry that has not waited for them", defs: "-DN=3 -DLOWERS=1 -DLOWERED_AT_ONCE", refutes: exceeded},
	{name: "lowered-undeleted", model: sem, size: "permits go, and no entry", defs: "-DN=3 -DLOWERS=1 -DLOWERED_UNDELETED", refutes: exceeded},
	{name: "lowered-unversioned", model: sem, size: "permits go on any version of the anchor", defs: "-DN=4 -DPERMITS=3 -DMOST=1 -DLOWERS=2 -DLOWERED_UNVERSIONED", refutes: exceeded},
	{name: "permits-gone-enters", model: sem, size: "a waiter enters when the waiter ahead has gone", defs: "-DN=3 -DGONE_ENTERS", refutes: exceeded},
	{name: "permits-by-count", model: sem, size: "a contender enters if there are fewer entries than permits, whatever they ask for", defs: "-DN=3 -DCOUNT_ENTERS", refutes: exceeded},
	{name: "anchor-unwatched", model: sem, size: "the first waiter does not watch the anchor", defs: "-DN=3 -DRAISES=1 -DSTAYS=2 -DANCHOR_UNWATCHED", refutes: served},
}

// beyond has the variants with more faults than the protocol assumes. Spin refutes them, so the
// assumptions are necessary.
var beyond = []check{
	{name: "clock-off-by-more", model: leases, size: "the leader's clock is displaced by more than the grace", defs: "-DN=2 -DDISP=2", refutes: exclusion},
	{name: "set-unseen", model: judge, size: "the leader's clock is set, and the judge has no sample from before", defs: "-DSTEP_UNSEEN", refutes: exclusion},
	{name: "written-over", model: adopt, size: "a person writes a parent that has our anchor", defs: "-DWRITTEN_OVER", refutes: strangers},
}
