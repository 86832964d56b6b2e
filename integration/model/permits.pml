/*
 * The permits of a semaphore: their number stands in the anchor's data. Joins, the first
 * waiter and those behind it, and changes of the number. Leases and time are in
 * holdfast.pml, the parent is in queue.pml. README.md maps the steps to the code;
 * checks.go lists what is checked, and main.go runs it.
 */

#ifndef N
#define N 4             /* contenders, one turn each */
#endif
#ifndef PERMITS
#define PERMITS 2       /* at first */
#endif
#ifndef MOST
#define MOST PERMITS    /* a contender asks for one, or for so many */
#endif
#ifndef QUITS
#define QUITS 1         /* of all waiters */
#endif
#ifndef RAISES
#define RAISES 0        /* by one each */
#endif
#ifndef LOWERS
#define LOWERS 0        /* contenders, the first ones, that lower by what they ask for */
#endif

#ifndef STAYS
#define STAYS 0         /* contenders, the last ones, that never leave what they hold */
#endif

#define NONE    N
#define BIT(i)  (1 << (i))

mtype:mode = { idle, waiting, held };
mtype:step = { list, count, first, follow };

/* What the ensemble has: the entries, in the order of their sequences, and the anchor. */
byte there;
byte seq[N];
byte asks[N];
bit  granted[N];        /* its record tells the grant */
byte next;
byte permits = PERMITS;
byte version;           /* of the anchor's data */
byte meant = PERMITS;   /* the permits that there are by all raises and lowers */

/* What each contender knows. */
mtype:mode mode[N];
mtype:step step[N];
bit  over[N];           /* it has had its turn */
byte ahead[N];          /* the entries that may stand ahead */
byte others[N];         /* so many stood ahead when it joined */
byte known[N];          /* the permits, */
byte at[N];             /* ... by this version, plus 1; 0: by none */
bit  current[N];        /* it has read them since any entry ahead has gone */

byte quits = QUITS, raises = RAISES;

bit never_exceeded = 1, served = 1;

byte e, k, s;           /* scratch, for one step only */
#define CLEAN           e = 0; k = 0; s = 0

#define THERE(i)        ((there & BIT(i)) != 0)
#define WEIGHT(i, set)  (((set) & BIT(i)) != 0 -> asks[i] : 0)
#define ONE(i, set)     (((set) & BIT(i)) != 0)
#if N == 3
#define SUM(set)        (WEIGHT(0, set) + WEIGHT(1, set) + WEIGHT(2, set))
#define SIZE(set)       (ONE(0, set) + ONE(1, set) + ONE(2, set))
#define GRANTED(set)    (ONE(0, set) && granted[0] || ONE(1, set) && granted[1] || ONE(2, set) && granted[2])
#else
#define SUM(set)        (WEIGHT(0, set) + WEIGHT(1, set) + WEIGHT(2, set) + WEIGHT(3, set))
#define SIZE(set)       (ONE(0, set) + ONE(1, set) + ONE(2, set) + ONE(3, set))
#define GRANTED(set)    (ONE(0, set) && granted[0] || ONE(1, set) && granted[1] || ONE(2, set) && granted[2] || ONE(3, set) && granted[3])
#endif
#define LOWERS_BY(i)    ((i) < LOWERS)
#define LEAVES(i)       ((i) < N - STAYS)
#define ROOM(i)         (SUM(ahead[i]) + asks[i] <= known[i])

/* A join checks the anchor on the version that is known. */
#ifdef JOIN_ANY_VERSION
#define CHECKED(i)      true
#else
#define CHECKED(i)      (at[i] == version + 1)
#endif

/* The entries before that of contender i. */
inline before(i, set) {
	set = 0;
	k = 0;
	do
	:: k < N -> set = (THERE(k) && seq[k] < seq[i] -> set | BIT(k) : set); k++
	:: else -> break
	od
}

inline forget(i) {
	ahead[i] = 0; others[i] = 0; current[i] = 0; step[i] = list
}

/* Contender i enters: the holders together have no more permits than there are. */
inline enter(i) {
	printf("%d: enters with %d\n", i, asks[i]);
	s = asks[i];
	k = 0;
	do
	:: k < N -> s = s + (k != i && mode[k] == held -> asks[k] : 0); k++
	:: else -> break
	od;
	never_exceeded = s <= meant;
	assert(never_exceeded);
	mode[i] = held;
	forget(i)
}

inline leave(i) {
	there = there & ~BIT(i);
	granted[i] = 0;
	mode[i] = idle;
	forget(i);
	known[i] = 0; at[i] = 0
}

proctype Contender(byte i) {
end:	do
	/* Join. */
	:: d_step { mode[i] == idle && !over[i] && at[i] == 0 ->
		printf("%d: reads the anchor: %d permits\n", i, permits);
		known[i] = permits; at[i] = version + 1 }
	:: atomic { mode[i] == idle && !over[i] && at[i] != 0 && CHECKED(i) ->
		if
		:: asks[i] = 1
		:: MOST > 1 -> asks[i] = MOST
		fi;
		printf("%d: joins, and asks for %d\n", i, asks[i]);
		there = there | BIT(i); seq[i] = next; next++;
		mode[i] = waiting; over[i] = 1;
		before(i, s);
		others[i] = SIZE(s);
		current[i] = 1;
		k = 0;
		e = NONE;
		do
		:: k < N -> e = (THERE(k) && seq[k] + 1 == seq[i] && asks[k] == asks[i] -> k : e); k++
		:: else -> break
		od;
		if
		:: others[i] == 0 && asks[i] <= known[i] -> printf("%d: is alone\n", i); enter(i)
#ifdef COUNT_ENTERS
		:: others[i] != 0 && others[i] < known[i] -> enter(i)
#endif
		:: others[i] != 0 && others[i] >= known[i] && e != NONE ->
			printf("%d: waits for %d, which has the predicted name\n", i, e);
			step[i] = follow; ahead[i] = BIT(e)
		:: others[i] != 0 && (others[i] <= known[i] || e == NONE) || asks[i] > known[i] -> step[i] = list
		fi;
		CLEAN }
	:: d_step { mode[i] == idle && !over[i] && at[i] != 0 && at[i] != version + 1 ->
		printf("%d: does not join, the anchor has another version\n", i);
		at[i] = 0; known[i] = 0 }

	/* A list, and the permits, read again if any entry ahead has gone since they were known. */
	:: d_step { mode[i] == waiting && step[i] == list ->
		before(i, s);
		ahead[i] = s;
		printf("%d: lists\n", i);
#ifdef OLD_CAPACITY
		current[i] = 1;
#else
		current[i] = current[i] && SIZE(s) == others[i];
#endif
		step[i] = count;
		CLEAN }
	:: d_step { mode[i] == waiting && step[i] == count ->
		if
		:: current[i]
		:: else -> printf("%d: reads the anchor: %d permits\n", i, permits); known[i] = permits; at[i] = version + 1
		fi;
		k = 0;
		e = NONE;
		do
		:: k < N -> e = ((ahead[i] & BIT(k)) != 0 && (e == NONE || seq[k] > seq[e]) -> k : e); k++
		:: else -> break
		od;
		if
		:: ROOM(i) -> enter(i)
		:: !ROOM(i) && SUM(ahead[i]) <= known[i] ->
			printf("%d: is the first to wait\n", i);
			step[i] = first; current[i] = 0
		:: else ->
			printf("%d: waits for %d\n", i, e);
			step[i] = follow; ahead[i] = BIT(e)
		fi;
		CLEAN }

	/* Behind another waiter: that one tells its grant, or goes. */
	:: d_step { mode[i] == waiting && step[i] == follow && (ahead[i] & there) == 0 ->
		printf("%d: the entry ahead has gone\n", i);
#ifdef GONE_ENTERS
		enter(i);
#else
		step[i] = list;
		current[i] = 0;
#endif
		CLEAN }
	:: d_step { mode[i] == waiting && step[i] == follow && GRANTED(ahead[i] & there) ->
		printf("%d: the entry ahead tells its grant\n", i);
		before(i, s);
		ahead[i] = s;
		step[i] = first;
		current[i] = 0;
		CLEAN }

	/* The first waiter watches all entries ahead, and the anchor. */
	:: d_step { mode[i] == waiting && step[i] == first && (ahead[i] & ~there) != 0 ->
		e = 0;
		do
		:: (ahead[i] & ~there & BIT(e)) != 0 -> break
		:: else -> e++
		od;
		printf("%d: sees that %d has gone\n", i, e);
		ahead[i] = ahead[i] & ~BIT(e);
#ifdef OLD_CAPACITY
		if
		:: at[i] != 0 && ROOM(i) -> enter(i)
		:: else
		fi;
#else
		current[i] = 0;
#endif
		CLEAN }
#ifdef ANCHOR_UNWATCHED
	:: d_step { mode[i] == waiting && step[i] == first && !current[i] ->
#else
	:: d_step { mode[i] == waiting && step[i] == first && (!current[i] || at[i] != version + 1) ->
#endif
		printf("%d: reads the anchor: %d permits, ahead of it may be %d\n", i, permits, SUM(ahead[i]));
		known[i] = permits; at[i] = version + 1; current[i] = 1;
		if
		:: ROOM(i) -> enter(i)
		:: else
		fi;
		CLEAN }

	/* Hold, and leave. */
	:: d_step { mode[i] == held && !granted[i] ->
		printf("%d: tells its grant\n", i);
		granted[i] = 1 }
	:: d_step { mode[i] == held && LOWERS_BY(i) && at[i] != version + 1 ->
		printf("%d: reads the anchor: %d permits\n", i, permits);
		known[i] = permits; at[i] = version + 1 }
#ifdef LOWERED_UNVERSIONED
	:: d_step { mode[i] == held && LOWERS_BY(i) && at[i] != 0 && known[i] > asks[i] ->
#else
	:: d_step { mode[i] == held && LOWERS_BY(i) && at[i] == version + 1 && known[i] > asks[i] ->
#endif
		printf("%d: lowers to %d, and leaves\n", i, known[i] - asks[i]);
		permits = known[i] - asks[i]; meant = meant - asks[i]; version++;
		leave(i) }
#ifdef LOWERED_AT_ONCE
	:: d_step { mode[i] == waiting && LOWERS_BY(i) && permits > asks[i] ->
		printf("%d: lowers to %d without having waited, and leaves\n", i, permits - asks[i]);
		permits = permits - asks[i]; meant = meant - asks[i]; version++;
		leave(i) }
#endif
#ifdef LOWERED_UNDELETED
	:: d_step { mode[i] == held && LOWERS_BY(i) && permits > asks[i] && meant == PERMITS ->
		printf("%d: lowers to %d, and its entry stays for now\n", i, permits - asks[i]);
		permits = permits - asks[i]; meant = meant - asks[i]; version++ }
	:: d_step { LOWERS && mode[i] == idle && !over[i] && LOWERS_BY(i) && permits > 1 && meant == PERMITS ->
		printf("%d: lowers to %d without an entry\n", i, permits - 1);
		permits = permits - 1; meant = meant - 1; version++ }
#endif
	:: d_step { mode[i] == held && LEAVES(i) || mode[i] == waiting && (quits > 0 || asks[i] > permits) ->
		printf("%d: leaves\n", i);
		quits = quits - (mode[i] == waiting && quits > 0);
		leave(i) }
	od
}

/* A client that raises the number of permits. */
proctype Raiser() {
end:	do
	:: d_step { raises > 0 && there != 0 ->
		permits++; meant++; version++; raises--;
		printf("there are %d permits from now on\n", permits) }
	od
}

/* When nothing can happen any more, no contender waits for which there is room. */
proctype Watch() {
	timeout;
	d_step {
	k = 0;
	do
	:: k < N ->
		e = 0; s = 0;
		do
		:: e < N -> s = s + (THERE(e) && seq[e] < seq[k] -> asks[e] : 0); e++
		:: else -> break
		od;
		served = served && (mode[k] != waiting || s + asks[k] > permits);
		k++
	:: else -> break
	od;
	assert(served) }
}

init {
	atomic {
		do
		:: k < N -> mode[k] = idle; step[k] = list; run Contender(k); k++
		:: else -> break
		od;
		CLEAN;
		run Raiser();
		run Watch()
	}
}
