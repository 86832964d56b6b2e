/*
 * Permits: who is first to wait and watches all ahead, who watches the one before it
 * alone, what a grant tells, and how the number of permits changes. Leases and time are in
 * holdfast.pml, the parent is in parent.pml. README.md maps the steps to the code; main.go
 * lists what is checked, and runs it.
 */

#ifndef N
#define N 4             /* contenders, one turn each */
#endif
#ifndef PERMITS
#define PERMITS 2       /* at first; who asks for more than one asks for so many */
#endif
#ifndef QUITS
#define QUITS 1         /* of all who wait, together */
#endif
#ifndef RAISES
#define RAISES 0        /* by one each */
#endif
#ifndef LOWERS
#define LOWERS 0        /* contenders, the first ones, that lower by what they ask for */
#endif

#define NONE    N
#define BIT(i)  (1 << (i))

mtype:mode = { idle, waiting, held };
mtype:step = { list, capacity, crowd, follow };

/* What the ensemble has: the entries, in the order of their sequences, and the parent. */
byte there;
byte seq[N];
byte asks[N];
bit  told[N];           /* its record tells the grant, */
byte among[N];          /* ... and who may have been ahead then */
byte next;
byte permits = PERMITS;
byte version;           /* of the parent's data */

/* What each contender knows. */
mtype:mode mode[N];
mtype:step step[N];
bit  done[N];           /* it has had its turn */
byte ahead[N];          /* who may be ahead still */
byte known[N];          /* how many permits there are */
byte at[N];             /* ... by this version, plus 1; 0: by none */
byte listed[N];         /* the version that its list has shown */
bit  looked[N];         /* it has read the parent since anybody ahead has gone */

byte quits = QUITS, raises = RAISES;

bit never_exceeded = 1, served = 1;

#define THERE(i)        ((there & BIT(i)) != 0)
#define WEIGHT(i, set)  (((set) & BIT(i)) != 0 -> asks[i] : 0)
#if N == 3
#define SUM(set)        (WEIGHT(0, set) + WEIGHT(1, set) + WEIGHT(2, set))
#else
#define SUM(set)        (WEIGHT(0, set) + WEIGHT(1, set) + WEIGHT(2, set) + WEIGHT(3, set))
#endif
#define LOWERS_BY(i)    ((i) < LOWERS)

/* Who stands before contender i. */
inline before(i, set, k) {
	set = 0;
	k = 0;
	do
	:: k < N -> set = (THERE(k) && seq[k] < seq[i] -> set | BIT(k) : set); k++
	:: else -> break
	od;
	k = 0
}

/* Contender i enters: together they have no more permits than there are. */
inline enter(i, k, sum) {
	sum = asks[i];
	k = 0;
	do
	:: k < N -> sum = sum + (k != i && mode[k] == held -> asks[k] : 0); k++
	:: else -> break
	od;
	never_exceeded = sum <= permits;
	assert(never_exceeded);
	mode[i] = held;
	among[i] = ahead[i];
	sum = 0; k = 0
}

inline forget(i) {
	ahead[i] = 0; at[i] = 0; known[i] = 0; listed[i] = 0; looked[i] = 0; step[i] = list
}

inline leave(i) {
	there = there & ~BIT(i);
	told[i] = 0; among[i] = 0;
	mode[i] = idle;
	forget(i)
}

proctype Contender(byte i) {
	byte e, k;
end:	do
	:: atomic { mode[i] == idle && !done[i] ->
		if
		:: asks[i] = 1
		:: asks[i] = PERMITS
		fi;
		printf("%d: joins, and asks for %d\n", i, asks[i]);
		d_step {
		there = there | BIT(i); seq[i] = next; next++;
		mode[i] = waiting; step[i] = list; done[i] = 1 } }

	/* A list, and how many permits there were then or later. */
	:: atomic { mode[i] == waiting && step[i] == list ->
		d_step {
		before(i, e, k);
		ahead[i] = e; listed[i] = version + 1;
		printf("%d: lists\n", i);
		e = 0; k = 0;
		step[i] = capacity } }
	:: atomic { mode[i] == waiting && step[i] == capacity ->
		d_step {
		if
#ifdef ANY_VERSION
		:: at[i] != 0
#else
		:: at[i] != 0 && at[i] == listed[i]
#endif
		:: else -> known[i] = permits; at[i] = version + 1; printf("%d: reads that there are %d\n", i, permits)
		fi;
		e = NONE;
		k = 0;
		do
		:: k < N -> e = ((ahead[i] & BIT(k)) != 0 && (e == NONE || seq[k] > seq[e]) -> k : e); k++
		:: else -> break
		od;
		k = 0;
		if
		:: SUM(ahead[i]) + asks[i] <= known[i] -> printf("%d: there is room\n", i); enter(i, k, e)
		:: SUM(ahead[i]) + asks[i] > known[i] && SUM(ahead[i]) <= known[i] ->
			printf("%d: is the first to wait\n", i);
			step[i] = crowd; looked[i] = 0
		:: else -> printf("%d: waits for %d\n", i, e); step[i] = follow; ahead[i] = BIT(e)
		fi;
		e = 0 } }

	/* Behind one who waits too: it tells its grant, or goes. */
	:: atomic { mode[i] == waiting && step[i] == follow && (ahead[i] & there) == 0 ->
		printf("%d: who was ahead has gone\n", i);
		d_step { step[i] = list } }
#ifdef TOLD_WAITING
	:: atomic { mode[i] == waiting && step[i] == follow && (ahead[i] & there) != 0 ->
#else
	:: atomic { mode[i] == waiting && step[i] == follow && (ahead[i] & there) != 0 &&
		    (told[0] && ahead[i] == BIT(0) || told[1] && ahead[i] == BIT(1) || told[2] && ahead[i] == BIT(2) || told[N - 1] && ahead[i] == BIT(N - 1)) ->
#endif
		d_step {
		e = 0;
		do
		:: ahead[i] == BIT(e) -> break
		:: else -> e++
		od;
		printf("%d: reads that %d was granted\n", i, e);
		ahead[i] = ahead[i] | among[e];
		step[i] = crowd; looked[i] = 0;
		e = 0 } }

	/* The first one who waits watches all ahead, and the parent. */
	:: atomic { mode[i] == waiting && step[i] == crowd && (ahead[i] & ~there) != 0 ->
		d_step {
		e = 0;
		do
		:: (ahead[i] & ~there & BIT(e)) != 0 -> break
		:: else -> e++
		od;
		printf("%d: sees that %d has gone\n", i, e);
		ahead[i] = ahead[i] & ~BIT(e);
#ifdef OLD_CAPACITY
		looked[i] = looked[i] && at[i] == version + 1;
		if
		:: at[i] != 0 && SUM(ahead[i]) + asks[i] <= known[i] -> enter(i, k, e)
		:: else
		fi;
#else
		looked[i] = 0;
#endif
		e = 0 } }
	:: atomic { mode[i] == waiting && step[i] == crowd && (!looked[i] || at[i] != version + 1) ->
		d_step {
		printf("%d: reads that there are %d, ahead of it may be %d\n", i, permits, SUM(ahead[i]));
		known[i] = permits; at[i] = version + 1; looked[i] = 1;
		if
		:: SUM(ahead[i]) + asks[i] <= known[i] -> enter(i, k, e)
		:: else
		fi } }

	/* Hold, and leave. */
	:: atomic { mode[i] == held && !told[i] ->
		printf("%d: tells its grant\n", i);
		told[i] = 1 }
	:: atomic { mode[i] == held && LOWERS_BY(i) && permits > asks[i] ->
		printf("%d: lowers to %d, and leaves\n", i, permits - asks[i]);
		d_step { permits = permits - asks[i]; version++; leave(i) } }
#ifdef LOWERED_AT_ONCE
	:: atomic { LOWERS && mode[i] == waiting && LOWERS_BY(i) && permits > asks[i] ->
		printf("%d: lowers to %d without having waited, and leaves\n", i, permits - asks[i]);
		d_step { permits = permits - asks[i]; version++; leave(i) } }
#endif
	:: atomic { mode[i] == held || mode[i] == waiting && (quits > 0 || asks[i] > permits) ->
		printf("%d: leaves\n", i);
		d_step {
		quits = quits - (mode[i] == waiting && quits > 0);
		leave(i) } }
	od
}

/* Somebody who makes more of them. */
proctype Raiser() {
end:	do
	:: atomic { raises > 0 && there != 0 ->
		d_step {
		permits++; version++; raises--;
		printf("there are %d permits from now on\n", permits) } }
	od
}

/* When nobody has anything to do, nobody waits. */
proctype Watch() {
	byte k;
	timeout;
	do
	:: k < N -> served = served && mode[k] == idle; k++
	:: else -> break
	od;
	assert(served)
}

init {
	byte j;
	atomic {
		do
		:: j < N -> mode[j] = idle; step[j] = list; run Contender(j); j++
		:: else -> break
		od;
		run Raiser();
		run Watch()
	}
}
