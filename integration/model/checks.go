package main

// The models, each of a part of the protocol.
const (
	leases = "holdfast.pml" // leases, sessions, lost replies
	parent = "parent.pml"   // the parent, and what is known of it
	judge  = "judge.pml"    // expiry across leaders
	rw     = "readers.pml"  // readers and writers
	sem    = "permits.pml"  // permits of a semaphore
)

// Properties, by the names that the models have for them.
const (
	exclusion = "mutual_exclusion"
	rising    = "rising_token"
	nothing   = "nothing_left"
	strangers = "strangers_alone"
	known     = "ours_known"
	served    = "served"
	exceeded  = "never_exceeded"
)

// check is a variant of a model, and what spin must say of it.
type check struct {
	name  string
	model string
	size  string // and what may go wrong, for people
	defs  string // macros of the model
	// refutes is the property that spin must refute; "" if it must verify all.
	refutes string
	// deep says that the shortest way to what is refuted is too long to be looked for.
	deep bool
	// progress checks that who waits is served, and not the assertions alone.
	progress bool
	// whole says that the variant has all steps of the right protocol. Each step must
	// be reached by one such check of the model. Those of one model have the same N and
	// as many turns, because steps are told apart by line and by what macros expand to.
	whole bool
}

// right are the checks of the right protocol, the longest first.
var right = []check{
	{name: "parent-strangers", model: parent, size: "3 contenders in 2 processes, one turn each; two deeds of strangers, a new session", defs: "-DN=3 -DDEEDS=2 -DFLAPS=1", whole: true},
	{name: "exclusive-three", model: leases, size: "3 contenders, one turn each; clocks do not drift", defs: "-DN=3 -DONCE -DDRIFT=0"},
	{name: "exclusive-late", model: leases, size: "2 contenders, and lost creates are applied late; clocks do not drift", defs: "-DN=2 -DLATE=1 -DDRIFT=0", whole: true},
	{name: "served", model: leases, size: "2 contenders, all faults but late creates, then none", defs: "-DN=2 -DPROGRESS -DCRASHES=1 -DFLAPS=1 -DDRIFT=0", progress: true},
	{name: "parent-strangers-turns", model: parent, size: "2 contenders, one turn and two; two deeds of strangers; no version is foreseen", defs: "-DN=2 -DLAST_TURNS=2 -DDEEDS=2 -DFORESEE=0"},
	{name: "parent-no-linger", model: parent, size: "2 contenders, two turns each; no parent lingers", defs: "-DN=2 -DTURNS=2 -DLAST_TURNS=2 -DLINGER=0"},
	{name: "parent-no-linger-three", model: parent, size: "3 contenders in 2 processes, the one alone has two turns; the same", defs: "-DN=3 -DLAST_TURNS=2 -DLINGER=0"},
	{name: "parent", model: parent, size: "3 contenders in 2 processes, the one alone has two turns", defs: "-DN=3 -DLAST_TURNS=2"},
	{name: "parent-turns", model: parent, size: "2 contenders, two turns each; a new session", defs: "-DN=2 -DTURNS=2 -DLAST_TURNS=2 -DFLAPS=1"},
	{name: "served-three", model: leases, size: "3 contenders, one turn each; two may die, none is paused", defs: "-DN=3 -DONCE -DPROGRESS -DPROMPT -DCRASHES=1 -DDRIFT=0", progress: true},
	{name: "exclusive-sessions", model: leases, size: "2 contenders, and new sessions begin", defs: "-DN=2 -DFLAPS=1", whole: true},
	{name: "exclusive-crashes", model: leases, size: "2 contenders, and processes die", defs: "-DN=2 -DCRASHES=1", whole: true},
	{name: "exclusive", model: leases, size: "2 contenders, clocks drift, replies are lost, waiters quit", defs: "-DN=2", whole: true},
	{name: "judged", model: judge, size: "a holder, a judge; any elections, a clock that is set", whole: true},
	{name: "judged-served", model: judge, size: "the same, and an election in each tick for ever", defs: "-DPROGRESS", progress: true},
	{name: "readers", model: rw, size: "3 contenders, two turns each, to read or to write; one gives up", defs: "-DN=3 -DTURNS=2"},
	{name: "readers-between", model: rw, size: "4 contenders; two give up", defs: "-DN=4 -DQUITS=2", whole: true},
	{name: "readers-curator", model: rw, size: "3 contenders, one turn each; a client of Curator's goes on as a reader", defs: "-DN=3 -DCURATOR", whole: true},
	{name: "permits", model: sem, size: "4 contenders for 2 permits; one may lower them, one gives up", defs: "-DN=4 -DLOWERS=1"},
	{name: "permits-resized", model: sem, size: "3 contenders; two may lower, two permits more, one gives up", defs: "-DN=3 -DLOWERS=2 -DRAISES=2", whole: true},
}

// wrong are the variants that are wrong on purpose.
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
	{name: "no-listing", model: leases, size: "whose foretold predecessor has gone enters without listing", defs: "-DN=3 -DONCE -DNO_LIST", refutes: exclusion},
	{name: "no-timer", model: leases, size: "expiry is never judged", defs: "-DN=2 -DPROGRESS -DCRASHES=1 -DDRIFT=0 -DNO_TIMER", refutes: served, progress: true},

	{name: "prediction-proves-absence", model: parent, size: "a foretold entry that is not there counts as gone", defs: "-DN=3 -DPREDICTED", refutes: exclusion},
	{name: "unseen-predecessor-counts", model: parent, size: "the second of two enters when a predecessor that it never saw is not there", defs: "-DN=3 -DUNSEEN", refutes: exclusion},
	{name: "unsettled-sight", model: parent, size: "a predecessor counts as seen in a session that had not seen our own write", defs: "-DN=2 -DTURNS=2 -DFLAPS=1 -DUNSETTLED", refutes: exclusion},
	{name: "told-by-a-waiter", model: parent, size: "one that never held tells a release", defs: "-DN=3 -DWAITERS_TELL", refutes: exclusion},
	{name: "released-unseen", model: parent, size: "a release is believed by one that never saw the entry", defs: "-DN=3 -DTOLD_UNSEEN", refutes: exclusion},
	{name: "release-of-any-parent", model: parent, size: "a release is believed whichever incarnation it was in", defs: "-DN=3 -DLAST_TURNS=2 -DLINGER=0 -DFORESEE=0 -DRELEASE_OF_ANY", refutes: exclusion},
	{name: "any-version-unproven", model: parent, size: "it is written so without a check of which one it is", defs: "-DN=2 -DLAST_TURNS=2 -DDEEDS=3 -DANY_UNPROVEN", refutes: nothing},
	{name: "facts-across-incarnations", model: parent, size: "the version alone is trusted, the Czxid of the reply not looked at", defs: "-DN=2 -DLAST_TURNS=2 -DDEEDS=2 -DBY_VERSION", refutes: strangers},
	{name: "facts-kept", model: parent, size: "facts are used at any age, without a witness", defs: "-DN=2 -DLAST_TURNS=2 -DDEEDS=3 -DKEEP_FACTS", refutes: strangers},
	{name: "no-witness-check", model: parent, size: "an entry of ours is trusted to be there, not checked", defs: "-DN=3 -DDEEDS=3 -DNO_CHECK", refutes: strangers},
	{name: "any-witness", model: parent, size: "an entry of another incarnation is the witness", defs: "-DN=3 -DDEEDS=3 -DANY_WITNESS", refutes: strangers},
	{name: "adopted-at-once", model: parent, size: "another parent than the facts were of is adopted, whoever made it", defs: "-DN=2 -DTURNS=2 -DLAST_TURNS=2 -DADOPT_AT_ONCE", refutes: known},
	{name: "no-mark", model: parent, size: "who has mistaken the parent does not mark it", defs: "-DN=2 -DLAST_TURNS=2 -DDEEDS=2 -DNO_MARK -DLOST_MARKS", refutes: strangers},
	{name: "adopted-ignored", model: parent, size: "the last one out deletes a parent that it had found", defs: "-DN=2 -DDEEDS=1 -DIGNORE_ADOPTED", refutes: strangers},
	{name: "stranger-deleted", model: parent, size: "the last one out does not look at the parent's data", defs: "-DN=2 -DDEEDS=2 -DDELETE_ANY", refutes: strangers},
	{name: "deleted-unread", model: parent, size: "a parent that lingered is deleted without being read again", defs: "-DN=2 -DTURNS=2 -DDEEDS=3 -DUNREAD", refutes: strangers},
	{name: "lingering-forgotten", model: parent, size: "a lingering parent is left to one that only means to join", defs: "-DN=3 -DLEFT_TO_JOINERS", refutes: nothing},
	{name: "kept-unwritten", model: parent, size: "who joins without the tail keeps the parent if one before was adopted", defs: "-DN=2 -DDEEDS=2 -DKEEP_UNWRITTEN", refutes: nothing},
	{name: "kept-unseen", model: parent, size: "whose entry was removed keeps the parent that it was not in", defs: "-DN=3 -DDEEDS=2 -DKEEP_GONE", refutes: nothing},
	{name: "duty-ends-with-entry", model: parent, size: "whose entry was removed does not see to the parent that was left to it", defs: "-DN=3 -DDEEDS=1 -DGONE_OWES_NOTHING", refutes: nothing},

	{name: "stamps-across-leaders", model: judge, size: "stamps of different leaders are compared", defs: "-DACROSS", refutes: exclusion},
	{name: "sample-of-before", model: judge, size: "a sample that is older than the record is good enough", defs: "-DSTALE_SAMPLE", refutes: exclusion},
	{name: "later-is-earlier", model: judge, size: "a record of a later epoch than the sample's counts as of an earlier", defs: "-DANY_OTHER", refutes: exclusion},
	{name: "first-stamp-kept", model: judge, size: "the earliest stamp of one epoch is used in the next", defs: "-DKEEP_FIRST", refutes: exclusion},
	{name: "any-version-observed", model: judge, size: "an observation goes on although the record was rewritten", defs: "-DANY_VERSION", refutes: exclusion},
	{name: "no-terms", model: judge, size: "a judge that sees the leader's clock set goes on as before", defs: "-DNO_TERMS", refutes: exclusion},
	{name: "mark-of-before", model: judge, size: "the mark's stamp is used although the clock was set since", defs: "-DANY_MARK", refutes: exclusion},
	{name: "no-observation", model: judge, size: "there is no proof by own observation, and elections go on", defs: "-DPROGRESS -DNO_OBSERVATION", refutes: served, progress: true},

	{name: "gone-enters", model: rw, size: "who was ahead has gone, whoever was before it", defs: "-DN=3 -DGONE_ENTERS", refutes: exclusion},
	{name: "reader-alone", model: rw, size: "a reader that tells its grant is taken to be alone", defs: "-DN=3 -DCURATOR -DTOLD_READER", refutes: exclusion},
	{name: "curator-alone", model: rw, size: "a writer of Curator's is taken to be alone", defs: "-DN=3 -DCURATOR -DANY_ALONE", refutes: exclusion},
	{name: "between-unproven", model: rw, size: "who is to write before the readers is taken to be in", defs: "-DN=4 -DQUITS=2 -DBETWEEN_UNPROVEN", refutes: exclusion},
	{name: "between-forgotten", model: rw, size: "the readers in between are not looked for", defs: "-DN=3 -DBETWEEN_FORGOTTEN", refutes: exclusion},
	{name: "between-curators", model: rw, size: "a writer of Curator's before the readers is taken to be alone", defs: "-DN=3 -DCURATOR -DBETWEEN_STRANGERS", refutes: exclusion},
	{name: "shared-before", model: rw, size: "a writer goes on writing until it has told that it only reads", defs: "-DN=3 -DSHARED_BEFORE", refutes: exclusion},
	{name: "permits-of-before", model: sem, size: "a list is believed with a number of permits from before it", defs: "-DN=3 -DLOWERS=1 -DANY_VERSION", refutes: exceeded},
	{name: "permits-not-read-again", model: sem, size: "when somebody ahead has gone the number of permits is not read again", defs: "-DN=3 -DLOWERS=1 -DOLD_CAPACITY", refutes: exceeded},
	{name: "lowered-at-once", model: sem, size: "permits are taken away by one who has not waited for them", defs: "-DN=3 -DLOWERS=1 -DLOWERED_AT_ONCE", refutes: exceeded},
	{name: "told-by-one-who-waits", model: sem, size: "who waits is taken to have been granted", defs: "-DN=3 -DTOLD_WAITING", refutes: exceeded},
}

// beyond are the variants in which more goes wrong than the protocol assumes. That
// spin refutes them shows that nothing less is to be assumed.
var beyond = []check{
	{name: "clock-off-by-more", model: leases, size: "the leader's clock is displaced by more than the grace", defs: "-DN=2 -DDISP=2", refutes: exclusion},
	{name: "set-unseen", model: judge, size: "the leader's clock is set, and the judge has no sample from before", defs: "-DSTEP_UNSEEN", refutes: exclusion},
	{name: "strangers-at-once", model: parent, size: "strangers act between a read and the request right after it", defs: "-DN=2 -DDEEDS=3 -DAT_ONCE", refutes: strangers},
	{name: "foreseen-over-mark", model: parent, size: "a mistaken parent of a stranger's is marked, and the mark's version foreseen; no parent lingers", defs: "-DN=2 -DTURNS=2 -DLAST_TURNS=2 -DDEEDS=2 -DLOST_MARKS -DLINGER=0", refutes: strangers, deep: true},
}
