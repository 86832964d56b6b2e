/*
 * Readers and writers: which entry each waits for, what is known of the entry ahead, a writer that
 * goes on as a reader, and Curator's, which does that with a second entry of the same
 * sequence. Leases and time are in holdfast.pml, the parent is in queue.pml. README.md
 * maps the steps to the code; checks.go lists what is checked,
 * and main.go runs it.
 */

#ifndef N
#define N 3             /* contenders of ours */
#endif
#ifndef TURNS
#define TURNS 1         /* of each */
#endif
#ifndef QUITS
#define QUITS 1         /* of all waiters, together */
#endif
#ifdef CURATOR
#define ALL (N + 2)     /* the last two are entries of one client of Curator's */
#define THEIRS N        /* ... its writer's, and then its reader's */
#define BLOCKS(k)       (there[k] && BEFORE(k, THEIRS))
#else
#define ALL N
#endif

#define NONE    ALL             /* no entry: in the way, or seen */
#define UNKNOWN (ALL + 1)       /* a listing will tell */

mtype:mode = { idle, waiting, held };

/* What the ensemble has: of each contender its entry. */
bit  there[ALL];
byte seq[ALL];
bit  writes[ALL];       /* its role, by its name */
bit  shares[ALL];       /* its record tells that it only reads by now */
bit  told[ALL];         /* ... and that it was granted */
byte next;

/* What each contender knows. */
mtype:mode mode[ALL];
byte turn[N];
byte ahead[N];          /* the entry that it waits for */
bit  alone[N];          /* that one holds the lock, and no other entry is before it or beside it */
byte aseq[N];           /* ... its sequence: a later entry of the same contender is another */
byte between[N];        /* of a writer: readers that may be ahead when that one has gone, a bit each */
bit  reads[ALL];        /* a writer: it must not write any more */

byte quits = QUITS;
bit  curators;          /* Curator's client has had its turn */
bit mutual_exclusion = 1, served = 1;

#define LIVES(i)        (there[ahead[i]] && seq[ahead[i]] == aseq[i])
#define CONFLICT(a, b)  (writes[a] || writes[b])
#define BEFORE(a, b)    (seq[a] < seq[b] || seq[a] == seq[b] && a < b)
#ifdef ANY_ALONE
#define OURS(j)         true
#else
#define OURS(j)         ((j) < N)
#endif
#ifdef TOLD_READER
#define ALONE(j)        OURS(j)
#else
#define ALONE(j)        (OURS(j) && writes[j])
#endif

/* The nearest entry before that of contender i that it conflicts with, and how many there
   are before that one. */
inline nearest(i, found, before, k) {
	found = NONE; before = 0;
	k = 0;
	do
	:: k < ALL ->
		if
		:: k != i && there[k] && BEFORE(k, i) && CONFLICT(k, i) && (found == NONE || BEFORE(found, k)) -> found = k
		:: else
		fi;
		k++
	:: else -> break
	od;
	k = 0;
	do
	:: k < ALL ->
		before = before + (found != NONE && k != found && there[k] && BEFORE(k, found));
		k++
	:: else -> break
	od;
	k = 0
}

/* A writer i whose nearest is a reader waits first for the writer before the readers, and
   knows these; or they are all that can be ahead. Found and before are as nearest left them. */
inline past_readers(i, found, before, k) {
	found = NONE;
	k = 0;
	do
	:: k < ALL ->
		if
		:: k != i && there[k] && BEFORE(k, i) && (writes[k] || !OURS(k)) && (found == NONE || BEFORE(found, k)) -> found = k
		:: else
		fi;
		k++
	:: else -> break
	od;
	before = 0;
	k = 0;
	do
	:: k < ALL ->
		before = before + (found != NONE && k != found && there[k] && BEFORE(k, found));
		if
		:: k != i && there[k] && BEFORE(k, i) && (found == NONE || BEFORE(found, k)) -> between[i] = between[i] | (1 << k)
		:: else
		fi;
		k++
	:: else -> break
	od;
	k = 0;
	if
	:: found == NONE -> last_of(i, found, k); alone[i] = 1
#ifdef BETWEEN_UNPROVEN
	:: found != NONE && OURS(found) -> ahead[i] = found; aseq[i] = seq[found]; alone[i] = 1
	:: found != NONE && !OURS(found) -> between[i] = 0
#elif defined(BETWEEN_STRANGERS)
	:: found != NONE -> ahead[i] = found; aseq[i] = seq[found]; alone[i] = before == 0
#else
	:: found != NONE && OURS(found) -> ahead[i] = found; aseq[i] = seq[found]; alone[i] = before == 0
	:: found != NONE && !OURS(found) -> between[i] = 0
#endif
	fi
}

/* Contender i looks which of those between are there still: it waits for the last one. A later
   entry of one of them is another. */
inline last_of(i, found, k) {
	found = NONE;
	k = 0;
	do
	:: k < ALL ->
		if
		:: between[i] & (1 << k) && there[k] && BEFORE(k, i) && (found == NONE || BEFORE(found, k)) -> found = k
		:: else
		fi;
		k++
	:: else -> break
	od;
	k = 0;
	ahead[i] = found;
	if
	:: found != NONE -> aseq[i] = seq[found]; between[i] = between[i] & ~(1 << found)
	:: else -> between[i] = 0
	fi
}

/* Contender i enters: no contender that it conflicts with may be in. */
inline enter(i, k) {
	k = 0;
	do
	:: k < ALL ->
		mutual_exclusion = mutual_exclusion && !(k != i && mode[k] == held && (writes[i] || writes[k] && !reads[k]));
		k++
	:: else -> break
	od;
	k = 0;
	assert(mutual_exclusion);
	mode[i] = held
}

inline join(i, writer) {
	there[i] = 1; seq[i] = next; next++;
	writes[i] = writer;
	mode[i] = waiting
}

inline leave(i) {
	there[i] = 0; shares[i] = 0; told[i] = 0; writes[i] = 0;
	reads[i] = 0;
	mode[i] = idle
}

proctype Contender(byte i) {
	byte e, b, k;
end:	do
	:: atomic { mode[i] == idle && turn[i] < TURNS ->
		printf("%d: joins to write\n", i);
		d_step { join(i, 1); ahead[i] = UNKNOWN; turn[i]++ } }
	:: atomic { mode[i] == idle && turn[i] < TURNS ->
		printf("%d: joins to read\n", i);
		d_step { join(i, 0); ahead[i] = UNKNOWN; turn[i]++ } }
	:: atomic { mode[i] == waiting && ahead[i] == UNKNOWN ->
		d_step {
		nearest(i, e, b, k);
		ahead[i] = e;
		if
		:: e == NONE -> printf("%d: lists, no entry is in the way: enters\n", i); enter(i, k)
		:: else ->
			printf("%d: lists, and waits for %d\n", i, e);
			aseq[i] = seq[e];
			alone[i] = b == 0 && ALONE(e);
			if
			:: writes[i] && !writes[e] && OURS(e) -> past_readers(i, e, b, k)
			:: else
			fi
		fi;
		e = 0; b = 0 } }
	:: atomic { mode[i] == waiting && ahead[i] < ALL && LIVES(i) && told[ahead[i]] && ALONE(ahead[i]) && !alone[i] ->
		printf("%d: reads that %d was granted\n", i, ahead[i]);
		alone[i] = 1 }
	:: atomic { mode[i] == waiting && ahead[i] < ALL && LIVES(i) && shares[ahead[i]] && !writes[i] ->
		printf("%d: reads that %d only reads by now: enters\n", i, ahead[i]);
		d_step { enter(i, k) } }
	:: atomic { mode[i] == waiting && ahead[i] < ALL && !LIVES(i) ->
		d_step {
		if
#ifdef GONE_ENTERS
		:: true ->
#else
		:: alone[i] ->
#endif
#ifndef BETWEEN_FORGOTTEN
			last_of(i, e, k);
#else
			e = NONE;
#endif
			if
			:: e == NONE -> printf("%d: the entry that was alone has gone: enters\n", i); enter(i, k); alone[i] = 0; between[i] = 0
			:: else -> printf("%d: looks, and waits for %d\n", i, e)
			fi
		:: else -> printf("%d: the entry ahead has gone\n", i); ahead[i] = UNKNOWN; alone[i] = 0; between[i] = 0
		fi;
		e = 0 } }
	:: atomic { mode[i] == held && !told[i] ->
		printf("%d: tells its grant\n", i);
		told[i] = 1 }
#ifdef SHARED_BEFORE
	:: atomic { mode[i] == held && writes[i] && !shares[i] -> printf("%d: tells that it only reads\n", i); shares[i] = 1 }
	:: atomic { mode[i] == held && shares[i] && !reads[i] -> reads[i] = 1 }
#else
	:: atomic { mode[i] == held && writes[i] && !reads[i] -> printf("%d: only reads from now on\n", i); reads[i] = 1 }
	:: atomic { mode[i] == held && reads[i] && !shares[i] -> printf("%d: tells that it only reads\n", i); shares[i] = 1 }
#endif
	:: atomic { mode[i] == held || mode[i] == waiting && quits > 0 ->
		printf("%d: leaves\n", i);
		d_step {
		quits = quits - (mode[i] == waiting);
		leave(i);
		alone[i] = 0; ahead[i] = UNKNOWN; aseq[i] = 0; between[i] = 0 } }
	od
}

#ifdef CURATOR
/* A client of Curator's: waits for all before it, writes, goes on as a reader by a second
   entry of the same sequence, and leaves. */
proctype Curator() {
	byte k;
end:	do
	:: atomic { mode[THEIRS] == idle && !there[THEIRS] && mode[THEIRS + 1] == idle && !curators ->
		printf("Curator's joins to write\n");
		d_step { join(THEIRS, 1); curators = 1 } }
	:: atomic { mode[THEIRS] == waiting && !BLOCKS(0) && !BLOCKS(N / 2) && !BLOCKS(N - 1) ->
		printf("Curator's lists, no entry is in the way: enters\n");
		d_step { enter(THEIRS, k) } }
	:: atomic { mode[THEIRS] == held && !there[THEIRS + 1] ->
		printf("Curator's makes an entry to read\n");
		there[THEIRS + 1] = 1; seq[THEIRS + 1] = seq[THEIRS]; writes[THEIRS + 1] = 0;
		mode[THEIRS + 1] = held }
	:: atomic { mode[THEIRS] == held ->
		printf("Curator's deletes its entry to write\n");
		d_step { leave(THEIRS) } }
	:: atomic { mode[THEIRS + 1] == held && mode[THEIRS] == idle ->
		printf("Curator's deletes its entry to read\n");
		d_step { leave(THEIRS + 1) } }
	od
}
#endif

/* When nothing can happen any more, no contender waits. */
proctype Watch() {
	byte k;
	timeout;
	do
	:: k < ALL -> served = served && mode[k] == idle; k++
	:: else -> break
	od;
	assert(served)
}

init {
	byte j;
	atomic {
		do
		:: j < ALL -> mode[j] = idle; j++
		:: else -> break
		od;
		j = 0;
		do
		:: j < N -> ahead[j] = UNKNOWN; run Contender(j); j++
		:: else -> break
		od;
#ifdef CURATOR
		run Curator();
#endif
		run Watch()
	}
}
