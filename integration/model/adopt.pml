/*
 * A parent that Holdfast did not make: other libraries and people make, write and delete
 * it, and clients of ours adopt it. Leases are in holdfast.pml, lost requests and the other
 * ways to leave and join in queue.pml. README.md maps the steps to the code; checks.go
 * lists what is checked, and main.go runs it.
 */

#ifndef N
#define N 2             /* clients of ours */
#endif
#ifndef TURNS
#define TURNS 2         /* of each */
#endif
#ifndef DEEDS
#define DEEDS 2         /* of people */
#endif
#ifndef THEIRS
#define THEIRS 1        /* turns of a client of zk.Lock's */
#endif

#define OTHER           N               /* the client of zk.Lock's */
#define ALL             (N + 1)
#define UNKNOWN         0               /* what is believed of the parent: */
#define ABSENT          255             /* ... or its generation */
#define DRAWN(i)        ((i) * 8 + sent[i] + 1)

mtype:mode = { idle, guarding, reading, marking, waiting, held, leaving };
mtype:data = { blank, foreign, ours };

/* What the ensemble has: the parent, */
bit  exists;
bit  alien;             /* another library or a person has made it */
mtype:data data;
byte gen;
bit  adopted;
byte ver;
byte next;
byte anchor;            /* the generation of the anchor; 0: there is none */
bit  guard[N];          /* the guards of clients that adopt it */
/* and the entries. */
bit  there[ALL];
byte seq[ALL];

/* What each client knows. */
mtype:mode mode[ALL];
byte turn[ALL];
byte sent[N];           /* the generations that it has drawn */
byte believed[N];
bit  theirs[N];         /* ... the parent is an adopted one */
byte missed[N];         /* the generation whose anchor was not there */
byte rver[N];           /* the parent's version, as it was read */
byte pver[N];           /* ... as the join's reply told it; 0: it did not */
bit  first[N];
byte duty[N];
byte deeds = DEEDS;
bit  meddled;           /* people have deleted nodes of ours */

bit mutual_exclusion = 1, strangers_alone = 1, nothing_left = 1, served = 1;

byte k, count;          /* scratch, for one step only */
#define CLEAN           k = 0; count = 0

#if N == 2
#define ENTRIES         (there[0] + there[1] + there[2])
#define AHEAD(i)        (there[0] && seq[0] < seq[i] || there[1] && seq[1] < seq[i] || there[2] && seq[2] < seq[i])
#endif
#define CHILDREN        (ENTRIES + (anchor != 0) + guard[0] + guard[1])

/* The write of an adoption deletes our guard, and has the version that was read since. */
#ifdef ADOPTED_UNPROVEN
#define PROVEN(i)       true
#else
#define PROVEN(i)       (guard[i])
#endif
#ifdef ADOPTED_UNVERSIONED
#define UNCHANGED(i)    true
#else
#define UNCHANGED(i)    (ver == rver[i])
#endif
#ifdef ADOPTED_IGNORED
#define MAY_DELETE(i)   true
#else
#define MAY_DELETE(i)   (!theirs[i])
#endif
#ifdef ANY_PARENT_VERSION
#define AS_JOINED(i)    true
#else
#define AS_JOINED(i)    (ver == pver[i])
#endif
/* A person does not write a parent that has our anchor. */
#ifdef WRITTEN_OVER
#define MAY_WRITE       true
#else
#define MAY_WRITE       (anchor == 0)
#endif

inline write_ours(g, a) {
	strangers_alone = data != foreign;
	assert(strangers_alone);
	data = ours; gen = g; adopted = a; ver++
}

inline no_parent() {
	exists = 0; alien = 0; data = blank; gen = 0; adopted = 0; ver = 0; next = 0; anchor = 0;
	guard[0] = 0; guard[1] = 0
}

inline delete_parent() {
	strangers_alone = !alien && data != foreign;
	assert(strangers_alone);
	no_parent()
}

inline enter(i) {
	printf("%d: enters\n", i);
	k = 0;
	do
	:: k < ALL -> mutual_exclusion = mutual_exclusion && !(k != i && mode[k] == held && there[k]); k++
	:: else -> break
	od;
	assert(mutual_exclusion);
	mode[i] = held
}

inline rest(i) {
	mode[i] = idle; pver[i] = 0; rver[i] = 0; first[i] = 0; missed[i] = 0
}

inline joined(i, a) {
	there[i] = 1; seq[i] = next; next++;
	theirs[i] = a; pver[i] = ver;
	turn[i]++;
	duty[i] = 0; missed[i] = 0;
	first[i] = CHILDREN == 2;
	mode[i] = waiting
}

proctype Client(byte i) {
end:	do
	:: d_step { mode[i] == idle && turn[i] < TURNS && believed[i] == UNKNOWN ->
		printf("%d: reads the parent: %d, %e, %d\n", i, exists, data, gen);
		if
		:: !exists -> believed[i] = ABSENT; missed[i] = 0
		:: exists && data == ours && gen != missed[i] -> believed[i] = gen; theirs[i] = adopted
		:: exists && data == foreign -> printf("%d: is refused\n", i); turn[i]++; rest(i)
#ifdef ADOPTED_UNPROVEN
		:: exists && data == blank -> rver[i] = ver; mode[i] = marking
		:: exists && data == ours && gen == missed[i] -> rver[i] = ver; mode[i] = marking
#else
		:: exists && (data == blank || data == ours && gen == missed[i]) -> mode[i] = guarding
#endif
		fi }
	:: d_step { mode[i] == idle && turn[i] < TURNS && believed[i] == ABSENT ->
		if
		:: exists -> printf("%d: does not make the parent, which is there\n", i); believed[i] = UNKNOWN
		:: else ->
			exists = 1;
			anchor = DRAWN(i); believed[i] = anchor;
			printf("%d: makes the parent, of generation %d\n", i, anchor);
			write_ours(anchor, 0);
			joined(i, 0);
			sent[i]++
		fi }
	:: d_step { mode[i] == idle && turn[i] < TURNS && believed[i] != UNKNOWN && believed[i] != ABSENT ->
		if
		:: exists && anchor == believed[i] ->
			printf("%d: joins\n", i);
			write_ours(believed[i], theirs[i]);
			joined(i, theirs[i])
		:: else -> printf("%d: finds no anchor\n", i); missed[i] = believed[i]; believed[i] = UNKNOWN
		fi }

	/* Adopt. */
	:: d_step { mode[i] == guarding ->
		if
		:: !exists -> printf("%d: does not create a guard, the parent has gone\n", i); rest(i)
		:: else ->
			printf("%d: creates a guard\n", i);
			guard[i] = 1;
			mode[i] = reading
		fi }
	:: d_step { mode[i] == reading ->
		printf("%d: reads the parent again: %d, %e, %d\n", i, exists, data, gen);
		if
		:: exists && (data == blank || data == ours && gen == missed[i]) -> rver[i] = ver; mode[i] = marking
		:: exists && data == foreign -> guard[i] = 0; turn[i]++; rest(i)
		:: else -> guard[i] = 0; rest(i)
		fi }
	:: d_step { mode[i] == marking ->
		if
		:: exists && PROVEN(i) && UNCHANGED(i) ->
			anchor = DRAWN(i); believed[i] = anchor; sent[i]++;
			printf("%d: adopts the parent, as generation %d\n", i, anchor);
			write_ours(anchor, 1);
			theirs[i] = 1
		:: else -> printf("%d: does not adopt the parent\n", i)
		fi;
		guard[i] = 0;
		rest(i) }

	/* Wait, hold. */
	:: d_step { mode[i] == waiting && there[i] && (first[i] || !AHEAD(i)) ->
		enter(i);
		CLEAN }
	:: d_step { mode[i] == waiting && !there[i] ->
		printf("%d: its entry has gone\n", i);
		believed[i] = UNKNOWN;
		rest(i) }
	:: d_step { mode[i] == held ->
		printf("%d: unlocks\n", i);
		mode[i] = leaving }

	/* Leave. */
	:: d_step { mode[i] == leaving ->
		printf("%d: deletes its entry\n", i);
		duty[i] = (there[i] && !theirs[i] -> believed[i] : 0);
		there[i] = 0; seq[i] = 0;
		rest(i) }
	:: d_step { mode[i] == leaving && there[i] && MAY_DELETE(i) && exists && anchor != 0 && anchor == believed[i] && CHILDREN == 2 && AS_JOINED(i) ->
		printf("%d: deletes its entry and the parent\n", i);
		there[i] = 0; seq[i] = 0;
		delete_parent();
		believed[i] = ABSENT;
		rest(i) }
	:: d_step { mode[i] == idle && duty[i] != 0 ->
		if
		:: exists && anchor == duty[i] && CHILDREN == 1 ->
			printf("%d: tidies the parent up\n", i);
			delete_parent()
		:: else
		fi;
		believed[i] = UNKNOWN;
		duty[i] = 0 }
	od
}

/* A client of zk.Lock's: it makes the parent, if there is none, and its entry. */
proctype Other() {
end:	do
	:: d_step { mode[OTHER] == idle && turn[OTHER] < THEIRS && !exists ->
		printf("zk.Lock's makes the parent\n");
		exists = 1; alien = 1; data = blank }
	:: d_step { mode[OTHER] == idle && turn[OTHER] < THEIRS && exists ->
		printf("zk.Lock's joins\n");
		turn[OTHER]++;
		there[OTHER] = 1; seq[OTHER] = next; next++;
		mode[OTHER] = waiting }
	:: d_step { mode[OTHER] == waiting && there[OTHER] && !AHEAD(OTHER) ->
		enter(OTHER);
		CLEAN }
	:: d_step { mode[OTHER] == held || mode[OTHER] == waiting && !there[OTHER] ->
		printf("zk.Lock's leaves\n");
		there[OTHER] = 0; seq[OTHER] = 0;
		mode[OTHER] = idle }
	od
}

/* What people do. */
proctype People() {
end:	do
	:: d_step { deeds > 0 && !exists ->
		printf("a person makes the parent, empty\n");
		deeds--;
		exists = 1; alien = 1; data = blank }
	:: d_step { deeds > 0 && !exists ->
		printf("a person makes the parent, with data\n");
		deeds--;
		exists = 1; alien = 1; data = foreign }
	:: d_step { deeds > 0 && exists && MAY_WRITE ->
		printf("a person writes the parent\n");
		deeds--;
		data = foreign; gen = 0; adopted = 0; ver++ }
	:: d_step { deeds > 0 && exists ->
		printf("a person deletes all\n");
		deeds--;
		k = 0;
		do
		:: k < ALL -> there[k] = 0; seq[k] = 0; k++
		:: else -> break
		od;
		no_parent();
		meddled = 1;
		CLEAN }
	:: d_step { deeds > 0 && anchor != 0 ->
		printf("a person deletes the anchor\n");
		deeds--;
		anchor = 0;
		meddled = 1 }
	od
}

/* When nothing can happen any more, no client waits, and what is ours has gone. */
proctype Watch() {
	timeout;
	d_step {
	served = mode[0] == idle && mode[1] == idle && mode[OTHER] == idle;
	assert(served);
	nothing_left = !exists || ENTRIES == 0 && (alien || meddled || adopted || data == foreign);
	assert(nothing_left);
	strangers_alone = !(exists && alien && data == ours && !adopted);
	assert(strangers_alone) }
}

init {
	atomic {
		do
		:: k < ALL ->
			mode[k] = idle;
			if
			:: k < N -> run Client(k)
			:: else
			fi;
			k++
		:: else -> break
		od;
		CLEAN;
		data = blank;
		run Other();
		run People();
		run Watch()
	}
}
