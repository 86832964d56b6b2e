/*
 * The parent of a lock: its version and its incarnations, what processes know of
 * it, the tail that foretells who is ahead, releases that are told in it, and who
 * deletes it. Leases and time are in holdfast.pml. README.md maps the steps to the
 * code; main.go lists what is checked, and runs it.
 *
 * What a process takes for the cheapest request is its own affair, so each choice
 * is free here: to read or not, to foresee, to write the tail, to tell a release.
 * Each contender has so many turns; therefore all numbers are small ones, and stand
 * for themselves.
 */

#ifndef N
#define N 3             /* contenders; the last has a process of its own */
#endif
#ifndef TURNS
#define TURNS 1         /* of each, but the last */
#endif
#ifndef LAST_TURNS
#define LAST_TURNS 1    /* of the last */
#endif
#ifndef FLAPS
#define FLAPS 0         /* new sessions, of all contenders together */
#endif
#ifndef DEEDS
#define DEEDS 0         /* what strangers do: they delete, make and write the parent */
#endif
#ifndef FORESEE
#define FORESEE 1       /* versions are foreseen, too */
#endif

#define PROCS           2
#define PROC(i)         (i == N - 1)
#define SIBLING(i)      (N == 3 && i < 2 -> 1 - (i) : i)        /* in the same process; itself if there is none */

/* An entry is a turn of a contender: no path is used twice. */
#if TURNS > LAST_TURNS
#define ROOM            TURNS
#else
#define ROOM            LAST_TURNS
#endif
#define ENTRIES         (N * ROOM)
#define OWN(i)          ((i) * ROOM + turn[i])
#define WANTS(i)        (mode[i] == idle && turn[i] < (i == N - 1 -> LAST_TURNS : TURNS))
#define BIT(e)          (1 << (e))
#define THERE(e)        ((there & BIT(e)) != 0)

/* Where a contender thinks it stands: behind an entry, or one of these. */
#define IN      ENTRIES         /* nobody is in the way */
#define UNKNOWN (ENTRIES + 1)   /* a listing will tell */
#define NONE    (ENTRIES + 2)

mtype:mode = { idle, waiting, held };
mtype:data = { blank, foreign, ours };
mtype:fact = { unread, missing, present };

/* What the ensemble has. */
int  there;             /* the set of entries */
byte seq[ENTRIES];
byte next;              /* the parent's counter */
bit  exists;            /* the parent */
byte inc;               /* its incarnation: the Czxid */
byte ver;
mtype:data data;
bit  adopted;           /* ... as its data say */
byte tail;
byte released;
bit  alien;             /* a stranger has made it */

/* What each process knows of the parent, its facts, and what it owes. */
mtype:fact known[PROCS];
byte finc[PROCS];
byte fver[PROCS];
bit  fadopted[PROCS];
byte ftail[PROCS];
byte freleased[PROCS];
bit  fresh[PROCS];      /* learned within the last second */
bit  duty[PROCS];       /* somebody of it has to see to the parent */
bit  drops[PROCS];      /* it has read that the parent is to be deleted, */
byte dver[PROCS];       /* ... at this version */

/* What each contender knows. */
mtype:mode mode[N];
byte turn[N];
byte ahead[N];          /* where it stands */
bit  amiss[N];          /* ... no: nobody ever had the name that was foretold */
bit  seen[N];           /* the entry ahead was seen, not only foretold */
bit  first[N];          /* nothing stands before the entry ahead */
byte einc[N];           /* the incarnation that its entry is in; 0: not known */
byte pver[N];           /* the parent's version as it joined alone; 0: it did not */
bit  keep[N];           /* the parent is not to be deleted */
bit  mark[N];           /* it has mistaken the parent, and has to mark it as adopted */
bit  behind[N];         /* new session: its server may lag behind what it wrote last */

byte flaps = FLAPS, deeds = DEEDS;
bit  mistaken;          /* a parent was written by facts of another, ever */

/* The properties, as assertions name them: true for as long as they hold. */
bit mutual_exclusion = 1, nothing_left = 1, strangers_alone = 1, served = 1;

#define LIVES(i)        (!amiss[i] && THERE(ahead[i]))          /* the entry ahead of it */
#define PRESENT(i)      (mode[i] != idle)
#define VALID(i)        (mode[i] == held && THERE(OWN(i)))      /* strangers' deletes excepted */

/* With a witness the join's transaction checks an entry of the same process, which
   is in the parent that the facts are of. */
#ifdef ANY_WITNESS
#define WITNESS(i, p)   (SIBLING(i) != i && PRESENT(SIBLING(i)))
#else
#define WITNESS(i, p)   (SIBLING(i) != i && PRESENT(SIBLING(i)) && einc[SIBLING(i)] == finc[p])
#endif
#ifdef KEEP_FACTS
#define USABLE(i, p)    (known[p] == present)
#else
#define USABLE(i, p)    (known[p] == present && (fresh[p] || WITNESS(i, p)))
#endif
#ifdef NO_CHECK
#define PROVEN(i, p)    true
#else
#define PROVEN(i, p)    (!WITNESS(i, p) || THERE(OWN(SIBLING(i))))
#endif

/* Who has a parent to mark does that before it leaves. */
#ifdef MARK_LATER
#define MAY_LEAVE(i)    true
#else
#define MAY_LEAVE(i)    (!mark[i])
#endif

/* Which parent may be deleted, once it is empty. */
#ifdef DELETE_ANY
#define REMOVABLE       true
#elif defined(IGNORE_ADOPTED)
#define REMOVABLE       (data == ours)
#else
#define REMOVABLE       (data == ours && !adopted)
#endif

/* Whether contender i of a process sees to the parent when it leaves. */
#ifdef LEFT_TO_JOINERS
#define TAKES_OVER(i)   (PRESENT(i) || WANTS(i))
#else
#define TAKES_OVER(i)   PRESENT(i)
#endif

/* What is assumed of strangers, who cannot be told from us by a version: whoever
   makes a parent does so neither between a read of ours and the request right after
   it, nor writes it within a second. */
#ifdef AT_ONCE
#define MAY_MAKE        true
#define MAY_WRITE       true
#else
#define MAY_MAKE        (!(fresh[0] && fver[0] == 0) && !(fresh[1] && fver[1] == 0) && !drops[0] && !drops[1])
#define MAY_WRITE       ((!fresh[0] || finc[0] == inc) && (!fresh[1] || finc[1] == inc))
#endif

/* Whether a read tells process p anything. */
#define OUTDATED(p)     (known[p] != (exists -> present : missing) || exists && (finc[p] != inc || fver[p] != ver || !fresh[p]))

/* Process p learns what the parent is, by reading it or from the reply to a write; */
inline learn(p) {
	known[p] = present; fresh[p] = 1;
	finc[p] = inc; fver[p] = ver;
	fadopted[p] = adopted || data == blank;
	ftail[p] = tail; freleased[p] = released
}

/* that it has none to speak of; */
inline unlearn(p, fact) {
	known[p] = fact; fresh[p] = 0;
	finc[p] = 0; fver[p] = 0;
	fadopted[p] = 0;
	ftail[p] = NONE; freleased[p] = NONE
}

/* The nearest entry before one, as found; NONE if there is none. */
inline nearest(one, found, k) {
	found = NONE;
	k = 0;
	do
	:: k < ENTRIES ->
		if
		:: THERE(k) && seq[k] < seq[one] && (found == NONE || seq[k] > seq[found]) -> found = k
		:: else
		fi;
		k++
	:: else -> break
	od;
	k = 0
}

/* The ensemble creates the entry of contender i, at the end of the queue. */
inline appear(i) {
	seq[OWN(i)] = next;
	next++;
	there = there | BIT(OWN(i));
	mode[i] = waiting;
	ahead[i] = UNKNOWN
}

/* The ensemble creates the parent. */
inline make() {
	exists = 1;
	inc++;
	ver = 0;
	next = 0;
	adopted = 0;
	tail = NONE;
	released = NONE
}

inline unmake() {
	exists = 0;
	ver = 0;
	next = 0;
	adopted = 0;
	tail = NONE;
	released = NONE;
	alien = 0;
	data = blank
}

/* Contender i does not know where it stands. */
inline unplaced(i) { ahead[i] = UNKNOWN; amiss[i] = 0; seen[i] = 0; first[i] = 0 }

/* A turn of contender i has ended. */
inline over(i) {
	mode[i] = idle;
	turn[i] = turn[i] + 1;
	unplaced(i);
	einc[i] = 0; pver[i] = 0; keep[i] = 0; mark[i] = 0;
	behind[i] = 0
}

proctype Contender(byte i; byte p) {
	byte e, j, v;
end:	do
	/* Join: read first, or not. */
	:: atomic { WANTS(i) && OUTDATED(p) ->
		printf("%d: reads the parent\n", i);
		d_step {
		if
		:: !exists -> unlearn(p, missing)
		:: exists && data == foreign -> turn[i]++; unlearn(p, unread); printf("%d: it is somebody else's: gives up\n", i)
		:: else -> learn(p)
		fi } }
	:: atomic { WANTS(i) && known[p] != present ->
		d_step {
		if
		:: !exists ->
			printf("%d: makes the parent and joins\n", i);
			make();
			appear(i);
			data = ours; tail = OWN(i); ver = 1;
			learn(p);
			einc[i] = inc; pver[i] = ver;
			ahead[i] = IN
		:: else -> printf("%d: cannot make the parent, which is there\n", i); unlearn(p, unread)
		fi } }
	:: atomic { WANTS(i) && USABLE(i, p) ->
		if
		:: v = fver[p]
		:: FORESEE && fver[p] > 0 -> v = fver[p] + 1
		fi;
		d_step {
		if
		:: exists && ver == v && PROVEN(i, p) ->
			printf("%d: joins under version %d\n", i, v);
			strangers_alone = !(alien && data == foreign);
			assert(strangers_alone);
			appear(i);
			e = OWN(i);
			j = there & ~BIT(e);
			if
			:: j == 0 -> ahead[i] = IN; pver[i] = ver + 1
			:: j != 0 && v == fver[p] && ftail[p] != NONE ->
				first[i] = (j & (j - 1)) == 0;
				ahead[i] = ftail[p];
				amiss[i] = seq[ftail[p]] + 1 != seq[e]
			:: else
			fi;
			data = ours; adopted = fadopted[p]; released = freleased[p]; tail = e; ver++;
#ifndef IGNORE_ADOPTED
			keep[i] = adopted;
#endif
			einc[i] = inc;
			if
			:: finc[p] != inc ->
				mistaken = 1;
#ifndef BY_VERSION
				printf("%d: it is not the parent that it was\n", i);
				if
				:: ahead[i] != IN -> unplaced(i)
				:: else
				fi;
				mark[i] = 1; keep[i] = 1;
				learn(p); fadopted[p] = 1
#else
				learn(p)
#endif
			:: else -> learn(p)
			fi
		:: else -> printf("%d: cannot join under version %d\n", i, v); unlearn(p, unread)
		fi;
		e = 0; j = 0; v = 0 } }
	:: atomic { WANTS(i) && known[p] == present ->
		d_step {
		if
		:: exists -> appear(i); printf("%d: joins without the tail\n", i)
		:: else -> unlearn(p, unread)
		fi } }
	:: atomic { WANTS(i) ->
		printf("%d: gives up before it has joined\n", i);
		turn[i]++ }
	:: atomic { mark[i] && THERE(OWN(i)) ->
		printf("%d: marks the parent as adopted\n", i);
		adopted = 1; ver++;
		learn(p);
		pver[i] = 0;
		mark[i] = 0 }

	/* Wait: by listing, */
	:: atomic { mode[i] == waiting && ahead[i] == UNKNOWN && THERE(OWN(i)) ->
		d_step {
		nearest(OWN(i), e, j);
		if
		:: e == NONE -> ahead[i] = IN; printf("%d: lists, and is first\n", i)
		:: else ->
			ahead[i] = e; seen[i] = 1;
			nearest(e, v, j);
			first[i] = (v == NONE);
			printf("%d: lists, and is behind entry %d\n", i, e)
		fi;
		e = 0; v = 0 } }
	:: atomic { PRESENT(i) && !THERE(OWN(i)) ->
		printf("%d: its entry has gone\n", i);
#ifndef GONE_OWES_NOTHING
		duty[p] = 1;
#endif
		over(i) }

	/* by following the entry ahead, */
	:: atomic { mode[i] == waiting && ahead[i] < ENTRIES && LIVES(i) && !seen[i] && !behind[i] ->
		printf("%d: sees entry %d\n", i, ahead[i]);
		seen[i] = 1 }
	:: atomic { mode[i] == waiting && ahead[i] < ENTRIES && !LIVES(i) && !behind[i] ->
		printf("%d: reads that the entry ahead is not there\n", i);
		if
#ifdef PREDICTED
		:: !seen[i] -> ahead[i] = IN
#endif
#ifdef UNSEEN
		:: first[i] -> ahead[i] = IN
#else
		:: seen[i] && first[i] -> ahead[i] = IN
#endif
		:: ahead[i] = UNKNOWN
#ifdef TOLD_UNSEEN
		:: true ->
#else
		:: seen[i] ->
#endif
			printf("%d: reads the parent for who has released\n", i);
			ahead[i] = (exists && released == ahead[i] -> IN : UNKNOWN);
			if
			:: exists && data == ours -> learn(p); einc[i] = inc
			:: else
			fi
		fi;
		amiss[i] = 0; seen[i] = 0; first[i] = 0 }
	:: atomic { mode[i] == waiting && behind[i] && ahead[i] < ENTRIES ->
		if
		:: printf("%d: does not see the entry ahead, on a server that may lag behind\n", i);
			unplaced(i)
#ifdef UNSETTLED
		:: !amiss[i] ->
			printf("%d: sees entry %d, on a server that may lag behind\n", i, ahead[i]);
			seen[i] = 1
#endif
		fi }
	:: atomic { behind[i] ->
		printf("%d: renews\n", i);
		behind[i] = 0 }

	/* and enter. */
	:: atomic { mode[i] == waiting && ahead[i] == IN && !behind[i] ->
		d_step {
		printf("%d: is granted the lock\n", i);
		mutual_exclusion = 1;
		j = 0;
		do
		:: j < N -> mutual_exclusion = mutual_exclusion && (j == i || !VALID(j)); j++
		:: else -> break
		od;
		j = 0;
		mutual_exclusion = mutual_exclusion || !THERE(OWN(i));
		assert(mutual_exclusion);
		mode[i] = held;
		ahead[i] = UNKNOWN } }

	/* Leave: with the parent, telling it, or just so. */
	:: atomic { PRESENT(i) && THERE(OWN(i)) && pver[i] > 0 && !keep[i] && MAY_LEAVE(i) ->
		d_step {
		if
		:: there == BIT(OWN(i)) && ver == pver[i] ->
			printf("%d: deletes its entry and the parent\n", i);
			strangers_alone = !alien;
			assert(strangers_alone);
			there = 0;
			unmake();
			unlearn(p, missing);
			over(i)
		:: else -> pver[i] = 0; printf("%d: cannot delete the parent\n", i)
		fi } }
#ifdef WAITERS_TELL
	:: atomic { PRESENT(i) &&
#else
	:: atomic { mode[i] == held &&
#endif
		    THERE(OWN(i)) && MAY_LEAVE(i) && known[p] == present && einc[i] == finc[p] ->
		d_step {
		if
		:: ver == fver[p] ->
			printf("%d: deletes its entry and tells it in the parent\n", i);
			there = there & ~BIT(OWN(i));
			released = OWN(i);
			tail = ftail[p]; adopted = fadopted[p]; ver++;
			duty[p] = duty[p] || there == 0;
			learn(p);
			over(i)
		:: else -> unlearn(p, unread); printf("%d: cannot tell the release\n", i)
		fi } }
	:: atomic { PRESENT(i) && THERE(OWN(i)) && MAY_LEAVE(i) ->
		printf("%d: deletes its entry\n", i);
		there = there & ~BIT(OWN(i));
		duty[p] = 1;
		over(i) }

	/* Faults. */
	:: atomic { PRESENT(i) && flaps > 0 && !behind[i] ->
		printf("%d: has a new session\n", i);
		flaps--;
		behind[i] = 1 }
	od
}

/* What process p does for all of its contenders: it sees to the parent, at once or
   after a while, and forgets what it learned more than a second ago. */
proctype Process(byte p; byte one; byte two) {
end:	do
	:: atomic { duty[p] && !drops[p] && (TAKES_OVER(one) || TAKES_OVER(two)) ->
		printf("process %d: leaves the parent to another\n", p);
		duty[p] = 0 }
#ifdef UNREAD
	:: atomic { duty[p] && known[p] == present && !fadopted[p] ->
		printf("process %d: is to delete the parent that it knows\n", p);
		drops[p] = 1; dver[p] = fver[p];
		duty[p] = 0 }
#endif
	:: atomic { duty[p] && !drops[p] ->
		d_step {
		printf("process %d: looks whether the parent is empty\n", p);
		if
		:: exists && there == 0 && REMOVABLE -> drops[p] = 1; dver[p] = ver
		:: else
		fi;
		if
		:: !exists -> unlearn(p, missing)
		:: exists && data == ours -> learn(p)
		:: else -> unlearn(p, unread)
		fi;
		duty[p] = 0 } }
	:: atomic { drops[p] ->
		d_step {
		if
		:: exists && there == 0 && ver == dver[p] ->
			printf("process %d: deletes the parent\n", p);
			strangers_alone = !alien;
			assert(strangers_alone);
			unmake();
			unlearn(p, missing)
		:: else -> unlearn(p, unread); printf("process %d: does not delete the parent\n", p)
		fi;
		drops[p] = 0; dver[p] = 0 } }
	:: atomic { fresh[p] ->
		printf("process %d: what it knows is older than a second\n", p);
		fresh[p] = 0 }
	od
}

/* Somebody else, who uses the path for something of its own. */
proctype Stranger() {
	byte p;
	do
	:: atomic { deeds > 0 && exists ->
		printf("a stranger deletes the parent and all below it\n");
		there = 0;
		unmake();
		deeds-- }
	:: atomic { deeds > 0 && !exists && MAY_MAKE ->
		make();
		alien = 1;
		if
		:: data = blank; printf("a stranger makes an empty parent\n")
		:: data = foreign; printf("a stranger makes the parent\n")
		fi;
		deeds-- }
	:: atomic { deeds > 0 && exists && alien && data != ours && MAY_WRITE ->
		printf("a stranger writes its parent\n");
		ver++;
		deeds-- }
	:: atomic { deeds > 0 -> deeds = 0 }

	/* When nobody has anything to do, all have had their turns, and nothing is left
	   of us. */
	:: timeout ->
		served = !PRESENT(0) && !PRESENT(1) && !PRESENT(N - 1);
		assert(served);
#ifdef STRICT
		nothing_left = there == 0 && (!exists || alien);
#else
		nothing_left = there == 0 && (!exists || alien || adopted && mistaken);
#endif
		assert(nothing_left);
		strangers_alone = !(alien && data == ours && !adopted);
		assert(strangers_alone);
		break
	od
}

init {
	byte j;
	atomic {
		unmake();
		do
		:: j < N ->
			mode[j] = idle;
			ahead[j] = UNKNOWN;
			run Contender(j, PROC(j));
			j++
		:: else -> break
		od;
		unlearn(0, unread);
		unlearn(1, unread);
		j = 0;
#if N == 3
		run Process(0, 0, 1);
#else
		run Process(0, 0, 0);
#endif
		run Process(1, N - 1, N - 1);
		run Stranger()
	}
}
