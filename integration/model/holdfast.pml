/*
 * The core of the lock protocol: contenders that queue up, leases that are judged
 * by a clock which errs within a bound, purges, pauses, crashes, and requests whose
 * replies are late or lost. README.md maps the steps to the code; checks.go lists
 * what is checked, and main.go runs it.
 *
 * Pauses need no step of their own: between any two steps of a process any number
 * of ticks can pass, and as many steps of the others.
 */

#ifndef N
#define N 2             /* contenders */
#endif

/* What else may go wrong, any number of times; 1 or 0. */
#ifndef LOSSES
#define LOSSES 1        /* replies to creates are lost */
#endif
#ifndef LATE
#define LATE 0          /* creates of contender 0 are applied after it gave them up */
#endif
#ifndef FLAPS
#define FLAPS 0         /* sessions end, and new ones begin */
#endif
#ifndef QUITS
#define QUITS 1         /* waiters give up */
#endif
#ifndef CRASHES
#define CRASHES 0       /* processes die; to the others that is a pause without end */
#endif
#ifndef DRIFT
#define DRIFT 1         /* clocks run slow or fast */
#endif

/* Times, in ticks. */
#ifndef TTL
#define TTL     2
#endif
#define GRACE   1
#ifndef DISP
#define DISP    1       /* by how much the leader's clock is displaced at most */
#endif
#define RENEW   1       /* a lease that has this left is due for renewal */

/* The age at which an entry may be judged expired, and at which it must be. In
   between it depends on the displacement of the leader's clock. A tick rounds the
   code's "later than" either way, so "not earlier" stands for it. */
#ifdef NO_GRACE
#define MAY_EXPIRE(i)   (TTL - DISP)
#elif defined(OWN_CLOCK)        /* contender 1's wall clock is ahead of the leader's */
#define MAY_EXPIRE(i)   (i == 1 -> 0 : TTL + GRACE - DISP)
#else
#define MAY_EXPIRE(i)   (TTL + GRACE - DISP)
#endif
#define MUST_EXPIRE     (TTL + GRACE)

/* Each contender has room for two entries: its own, and one that it gave up and
   that comes to be, or stays, all the same. */
#define ENTRIES         (2 * N)
#define BIT(e)          (1 << (e))
#define OWNER(e)        ((e) / 2)
#define OTHER(e)        ((e) ^ 1)

/* Where a contender thinks it stands: behind an entry, or one of these. */
#define IN      ENTRIES         /* no entry is in the way */
#define GONE    (ENTRIES + 1)   /* the entry ahead has gone */
#define UNKNOWN (ENTRIES + 2)   /* a listing will tell */
#define NONE    (ENTRIES + 3)

mtype:mode = { idle, joining, finding, waiting, held, leaving, out, dead };
mtype:wire = { quiet, create, created, renew, renewed, refused };

/* What the ensemble has: for each entry the set of those created before it, its
   age by the leader's clock, and whether its record tells of a grant. */
byte there;             /* the set of entries */
bit  parent;
byte before[ENTRIES];
byte age[ENTRIES];
bit  granted[ENTRIES];
byte newer;             /* the entries with a higher token than the one granted last */
#ifdef BY_SEQUENCE
bit  ever;              /* there was one */
#endif

/* What each contender knows. */
mtype:mode mode[N];
mtype:wire wire[N];     /* its request, or the reply, on its way */
byte own[N];            /* its entry */
byte left[N];           /* what is left of its lease, in true time */
byte fresh[N];          /* ... once the request on its way is acknowledged */
byte ahead[N];          /* where it stands */
bit  proven[N];         /* the entry ahead was seen, not only foretold, in a session that had seen our own write */
bit  first[N];          /* nothing stands before the entry ahead */
byte judged[N];         /* the entry that it is about to purge */
bit  rewritten[N];      /* ... which was written since it was judged */
bit  behind[N];         /* new session: its server may lag behind what it wrote last */
byte late[N];           /* an entry that it gave up, whose create is on its way */

/* Progress is asked for once the faults have stopped: nothing crashes, gets lost or
   is paused any more, which means that time goes on only when no contender
   has anything to do. It is asked for the last contender, which does not die. */
#ifdef PROGRESS
bit calm;
bit rested[N];          /* may join again: once in a tick */
#define CALM            calm
#ifdef PROMPT           /* no pauses from the start */
#define MAY_PAUSE       false
#else
#define MAY_PAUSE       !calm
#endif
#define MORTAL(i)       (CRASHES && i != N - 1)
#define RESTED(i)       (!calm || rested[i])
#define TIRE(i)         rested[i] = 0
#else
#define CALM            false
#define MORTAL(i)       CRASHES
#define RESTED(i)       true
#define TIRE(i)         skip
#endif

/* The properties, as assertions name them: true for as long as they hold. */
bit mutual_exclusion = 1, rising_token = 1, nothing_left = 1;

/* Whether a contender considers itself a valid holder. */
#ifdef FLAG
#define VALID(i)        (mode[i] == held)
#else
#define VALID(i)        (mode[i] == held && left[i] > 0)
#endif

/* How long a new lease lasts. The margin is taken off for the error of the clock;
   how much is left of the margin in true time depends on the clock. */
inline lease(l) {
	if
#ifdef NO_MARGIN
	:: l = TTL + 1
#endif
	:: l = TTL
	:: DRIFT -> l = TTL - 1
	fi
}

/* The nearest entry before e, in p; NONE if there is none. */
inline nearest(e, p) {
	p = 0;
	do
	:: p < ENTRIES && !((before[e] & BIT(p)) && (before[p] | BIT(p)) == before[e]) -> p++
	:: else -> break
	od;
	if
	:: p == ENTRIES -> p = NONE
	:: else
	fi
}

/* The ensemble creates the entry e, at the end of the queue. */
inline appear(e) {
	before[e] = there;
	there = there | BIT(e);
#ifdef BY_SEQUENCE      /* which starts again with the parent */
	newer = (!parent && ever -> newer & ~BIT(e) : newer | BIT(e));
#else
	newer = newer | BIT(e);
#endif
	parent = 1;
	age[e] = 0;
	granted[e] = 0
}

/* The ensemble deletes the entry e. Paths are never used twice. */
inline vanish(e, j) {
	there = there & ~BIT(e);
	before[e] = 0;
	age[e] = 0;
	granted[e] = 0;
	j = 0;
	do
	:: j < ENTRIES -> before[j] = before[j] & ~BIT(e); j++
	:: else -> break
	od;
	j = 0;
	do
	:: j < N ->
		if
		:: ahead[j] == e -> ahead[j] = GONE
		:: else
		fi;
		if
		:: judged[j] == e -> judged[j] = NONE; rewritten[j] = 0; ahead[j] = UNKNOWN
		:: else
		fi;
		j++
	:: else -> break
	od
}

/* Contender i forgets all that it knew of its lease and of the queue. */
inline forget(i) {
	left[i] = 0;
	fresh[i] = 0;
	ahead[i] = UNKNOWN;
	proven[i] = 0;
	first[i] = 0;
	judged[i] = NONE;
	rewritten[i] = 0;
	behind[i] = 0
}

/* Contender i is about to delete its entry. A renewal may be on its way still. */
inline leave(i) {
	forget(i);
	if
	:: wire[i] == create || wire[i] == renew
	:: else -> wire[i] = quiet
	fi;
	mode[i] = leaving
}

/* Contender i asks for an entry, of a new name; or has had its only one. */
inline join(i) {
#ifdef ONCE
	leave(i)
#else
	forget(i);
	if
	:: !(there & BIT(2*i)) && late[i] != 2*i -> own[i] = 2*i
	:: else -> own[i] = 2*i + 1
	fi;
	lease(fresh[i]);
	wire[i] = create;
	mode[i] = joining;
	TIRE(i)
#endif
}

/* Whether contender i may ask for an entry. */
#define ROOM(i) (!(there & BIT(2*i)) && late[i] != 2*i || !(there & BIT(2*i+1)) && late[i] != 2*i+1)

proctype Contender(byte i) {
	byte e, j;
	do
	/* Join. */
#ifndef ONCE
	:: atomic { mode[i] == idle && RESTED(i) && ROOM(i) ->
		printf("%d: joins\n", i);
		join(i) }
#endif
	:: atomic { mode[i] == joining && wire[i] == created ->
		printf("%d: is in the queue\n", i);
		left[i] = fresh[i]; fresh[i] = 0;
		wire[i] = quiet;
		behind[i] = 0;
		mode[i] = waiting }
	:: atomic { mode[i] == joining && LOSSES && !CALM ->
		printf("%d: the connection is lost, the create may have been applied\n", i);
		if
		:: true
		:: wire[i] == create && LATE && i == 0 && late[i] == NONE -> late[i] = own[i]
		fi;
		wire[i] = quiet;
		mode[i] = finding }
#ifdef NO_FIND
	:: atomic { mode[i] == finding && ROOM(i) ->
		printf("%d: tries again without looking\n", i);
		join(i) }
#else
	:: atomic { mode[i] == finding && (there & BIT(own[i])) ->
		printf("%d: finds its entry\n", i);
		left[i] = fresh[i]; fresh[i] = 0;
		ahead[i] = UNKNOWN; proven[i] = 0; first[i] = 0;
		mode[i] = waiting }
	:: atomic { mode[i] == finding && !(there & BIT(own[i])) && ROOM(i) ->
		printf("%d: finds no entry, tries again\n", i);
		join(i) }
#endif

	/* Wait: by listing, */
	:: atomic { mode[i] == waiting && ahead[i] == UNKNOWN && (there & BIT(own[i])) ->
		d_step {
		e = own[i];
#ifdef NO_FIND
		if
		:: (there & BIT(OTHER(e))) && (before[e] & BIT(OTHER(e))) -> e = OTHER(e)
		:: else
		fi;
#endif
		nearest(e, j);
		proven[i] = 0; first[i] = 0;
		if
		:: j == NONE -> ahead[i] = IN; printf("%d: lists, and is first\n", i)
		:: else -> ahead[i] = j; proven[i] = 1; first[i] = (before[j] == 0); printf("%d: lists, and is behind %d's\n", i, OWNER(j))
		fi;
		e = 0; j = 0 } }
#ifndef NO_FIND
	:: atomic { mode[i] == waiting && (there & BIT(OTHER(own[i]))) ->
		printf("%d: lists, and deletes the entry that it had given up\n", i);
		d_step { e = OTHER(own[i]); vanish(e, j); e = 0; j = 0 } }
#endif
	:: atomic { mode[i] == waiting && ahead[i] == UNKNOWN && !(there & BIT(own[i])) ->
		if
		:: ROOM(i) -> printf("%d: its entry has gone, queues again\n", i); join(i)
		:: !CALM -> printf("%d: lists, and is first in an old list\n", i); ahead[i] = IN; proven[i] = 0; first[i] = 0
		fi }

	/* by following the entry ahead, */
#ifdef UNSETTLED
	:: atomic { mode[i] == waiting && ahead[i] < ENTRIES && judged[i] == NONE &&
#else
	:: atomic { mode[i] == waiting && ahead[i] < ENTRIES && judged[i] == NONE && !behind[i] &&
#endif
		    (!proven[i] || granted[ahead[i]] && !first[i]) ->
		printf("%d: reads %d's entry\n", i, OWNER(ahead[i]));
		proven[i] = 1;
		first[i] = first[i] || granted[ahead[i]] }
	:: atomic { mode[i] == waiting && (ahead[i] == GONE || ahead[i] < ENTRIES && judged[i] == NONE && behind[i] && !CALM) ->
		printf("%d: reads that the entry ahead has gone\n", i);
		if
#ifdef NO_LIST
		:: !behind[i] -> ahead[i] = IN
#elif defined(UNSETTLED)
		:: proven[i] && first[i] -> ahead[i] = IN
#else
		:: proven[i] && first[i] && !behind[i] -> ahead[i] = IN
#endif
		:: else -> ahead[i] = UNKNOWN
		fi;
		proven[i] = 0; first[i] = 0 }

	/* by purging it, */
#ifndef NO_TIMER
	:: atomic { mode[i] == waiting && ahead[i] < ENTRIES && judged[i] == NONE && age[ahead[i]] >= MAY_EXPIRE(i) ->
		printf("%d: judges %d's entry expired\n", i, OWNER(ahead[i]));
		judged[i] = ahead[i] }
#endif
	:: atomic { mode[i] == waiting && judged[i] != NONE ->
		d_step {
		e = judged[i];
		if
#ifdef NO_VERSION
		:: true -> vanish(e, j); printf("%d: purges %d's entry\n", i, OWNER(e))
#else
		:: !rewritten[i] -> vanish(e, j); printf("%d: purges %d's entry\n", i, OWNER(e))
		:: else -> printf("%d: does not purge %d's entry, whose version has changed\n", i, OWNER(e))
#endif
		fi;
		judged[i] = NONE; rewritten[i] = 0;
		ahead[i] = UNKNOWN; proven[i] = 0; first[i] = 0;
		e = 0; j = 0 } }

	/* and enter. */
#ifdef FROM_GRANT
	:: atomic { mode[i] == waiting && ahead[i] == IN ->
		left[i] = TTL;
#elif defined(UNSETTLED)
	:: atomic { mode[i] == waiting && ahead[i] == IN && left[i] > 0 ->
#else
	:: atomic { mode[i] == waiting && ahead[i] == IN && left[i] > 0 && !behind[i] ->
#endif
		d_step {
		printf("%d: is granted the lock\n", i);
		mutual_exclusion = 1;
		j = 0;
		do
		:: j < N -> mutual_exclusion = mutual_exclusion && (j == i || !VALID(j)); j++
		:: else -> break
		od;
		assert(mutual_exclusion);
		rising_token = (newer & BIT(own[i])) != 0;
		assert(rising_token);
#ifdef BY_SEQUENCE
		ever = 1;
#endif
		newer = 0;
		j = 0;
		do
		:: j < ENTRIES -> newer = newer | ((before[j] & BIT(own[i])) -> BIT(j) : 0); j++
		:: else -> break
		od;
		j = 0;
		mode[i] = held;
		ahead[i] = UNKNOWN } }

	/* Renew. */
	:: atomic { wire[i] == quiet &&
		    (mode[i] == waiting && (left[i] <= RENEW || behind[i]) ||
		     mode[i] == held && left[i] > 0 && (left[i] <= RENEW || behind[i])) ->
		printf("%d: renews\n", i);
		wire[i] = renew;
		lease(fresh[i]) }
	:: atomic { wire[i] == renewed && (mode[i] == waiting || mode[i] == held) ->
		printf("%d: has renewed\n", i);
#ifdef FROM_REPLY
		left[i] = TTL;
#else
		left[i] = fresh[i];
#endif
		fresh[i] = 0;
		wire[i] = quiet;
		behind[i] = 0;
		if
		:: ahead[i] == IN -> ahead[i] = UNKNOWN
		:: else
		fi }
	:: atomic { wire[i] == refused && mode[i] == waiting && ROOM(i) ->
		printf("%d: its entry has gone, queues again\n", i);
		join(i) }
	:: atomic { wire[i] == refused && mode[i] == held ->
		printf("%d: its entry has gone, loses the lock\n", i);
		leave(i) }

	/* Leave. */
	:: atomic { mode[i] == held ->
		printf("%d: unlocks, or has lost the lock\n", i);
		leave(i) }
	:: atomic { mode[i] == waiting && QUITS && !CALM ->
		printf("%d: waits no longer\n", i);
		leave(i) }
	:: atomic { mode[i] == leaving ->
		printf("%d: deletes its entry\n", i);
		d_step {
		e = own[i];
		wire[i] = quiet;
		if
		:: there & BIT(e) -> vanish(e, j)
		:: else
		fi;
		mode[i] = (there == 0 -> out : idle);
		e = 0; j = 0 } }
	:: atomic { mode[i] == out ->
		if
		:: there == 0 -> parent = 0; printf("%d: deletes the parent\n", i)
		:: else
		fi;
		mode[i] = idle }

	/* Faults. */
	:: atomic { mode[i] != idle && mode[i] != dead && MORTAL(i) && !CALM ->
		printf("%d: dies\n", i);
		leave(i);
		mode[i] = dead }
	:: atomic { (mode[i] == waiting || mode[i] == held) && FLAPS && !behind[i] && !CALM ->
		printf("%d: has a new session\n", i);
		behind[i] = 1 }
	od
}

/* What the ensemble does with the requests of contender i. */
proctype Ensemble(byte i) {
	byte e, j;
	do
	:: d_step { wire[i] == create ->
		e = own[i];
		appear(e);
		nearest(e, j);
		if
		:: mode[i] == joining ->
			ahead[i] = (j == NONE -> IN : j);
			first[i] = (j != NONE -> before[j] == 0 : 0)
		:: else
		fi;
		wire[i] = (mode[i] == joining -> created : quiet);
		printf("%d's entry is created\n", i);
		e = 0; j = 0 }
	:: d_step { late[i] != NONE ->
		e = late[i];
		appear(e);
		late[i] = NONE;
		printf("%d's old entry is created after all\n", i);
		e = 0 }
	:: d_step { wire[i] == renew && (there & BIT(own[i])) ->
		e = own[i];
		age[e] = 0;
		granted[e] = granted[e] || mode[i] == held;
		j = 0;
		do
		:: j < N ->
			if
			:: judged[j] == e -> rewritten[j] = 1
			:: else
			fi;
			j++
		:: else -> break
		od;
		wire[i] = (mode[i] == waiting || mode[i] == held -> renewed : quiet);
		printf("%d's entry is renewed\n", i);
		e = 0; j = 0 }
	:: d_step { wire[i] == renew && !(there & BIT(own[i])) ->
		wire[i] = (mode[i] == waiting || mode[i] == held -> refused : quiet) }
	od
}

#ifdef PROGRESS
/* Whether contender i has something to do before time goes on. */
#define BUSY(i) (wire[i] != quiet || late[i] != NONE || \
	mode[i] == joining || mode[i] == finding || mode[i] == held || mode[i] == leaving || mode[i] == out || \
	mode[i] == waiting && ( \
		ahead[i] == IN || ahead[i] == GONE || ahead[i] == UNKNOWN || judged[i] != NONE || \
		!proven[i] || left[i] <= RENEW || behind[i] || AGED(i)))
#ifdef NO_TIMER
#define AGED(i) false
#else
#define AGED(i) (ahead[i] < ENTRIES && age[ahead[i]] >= MUST_EXPIRE)
#endif
#endif

proctype Clock() {
	byte j;
	do
	:: d_step {
#ifdef PROGRESS
		MAY_PAUSE || !(BUSY(0) || BUSY(1)
#if N > 2
			|| BUSY(2)
#endif
			) ->
#else
		true ->
#endif
		/* When all have left and none has died, nothing is there any more. */
		nothing_left = (there == 0 && !parent) || CRASHES || LATE;
		j = 0;
		do
		:: j < N -> nothing_left = nothing_left || mode[j] != idle; j++
		:: else -> break
		od;
		assert(nothing_left);
		j = 0;
		do
		:: j < ENTRIES ->
			age[j] = ((there & BIT(j)) && age[j] < MUST_EXPIRE -> age[j] + 1 : age[j]);
			j++
		:: else -> break
		od;
		j = 0;
		do
		:: j < N ->
			left[j] = (left[j] > 0 -> left[j] - 1 : 0);
			fresh[j] = (fresh[j] > 0 -> fresh[j] - 1 : 0);
#ifdef PROGRESS
			rested[j] = 1;
#endif
			j++
		:: else -> break
		od;
		j = 0;
		printf("tick\n") }
	od
}

#ifdef PROGRESS
active proctype Peace() {
	calm = 1
}

#define WAITS(i)        (mode[i] == joining || mode[i] == finding || mode[i] == waiting)
#ifdef ONCE             /* whose entry was purged while faults went on has had its turn */
#define SERVED(i)       (mode[i] == held || mode[i] == leaving)
#else
#define SERVED(i)       (mode[i] == held)
#endif
ltl served { [] (calm && WAITS(N - 1) -> <> SERVED(N - 1)) }
#endif

init {
	byte e, j;
	atomic {
		do
		:: j < N ->
			mode[j] = idle;
			forget(j); wire[j] = quiet;
			late[j] = NONE;
			own[j] = 2*j;
#ifdef ONCE
			e = 2*j;
			appear(e);
			left[j] = TTL;
			ahead[j] = (j == 0 -> IN : 2*j - 2);
			first[j] = (j == 1);
			mode[j] = waiting;
#endif
			run Contender(j);
			run Ensemble(j);
			j++
		:: else -> break
		od;
		e = 0; j = 0;
		run Clock()
	}
}
