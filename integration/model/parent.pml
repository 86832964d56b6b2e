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
#ifndef LINGER
#define LINGER 1        /* the last one out may leave the parent for a moment */
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

mtype:mode = { idle, joining, waiting, held };  /* joining: its entry is there, it still sees to the parent */
mtype:data = { blank, foreign, ours };
mtype:last = { none, vain, good };      /* the entry that joined last: none is known, or it was not there, or it was */
mtype:door = { open, look, write, search, claim, claimed, doubt, mark };

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
byte released;          /* an entry that held the lock and has gone, */
byte rinc;              /* ... and which incarnation it stood in */
bit  alien;             /* a stranger has made it */

/* What each process knows of the parent, its facts, and what it owes. */
bit  known[PROCS];      /* that it is there */
byte finc[PROCS];
byte fver[PROCS];
bit  fadopted[PROCS];
byte ftail[PROCS];
mtype:last flast[PROCS];
byte freleased[PROCS];  /* the last release that it knows of, */
byte frinc[PROCS];      /* ... and which incarnation that was in */
bit  stale[PROCS];      /* somebody has changed it since */
bit  recent[PROCS];     /* an entry of the process left it within the last 100 ms */
bit  duty[PROCS];       /* somebody of it has to see to the parent */
bit  drops[PROCS];      /* it has read that the parent is to be deleted, */
byte dver[PROCS];       /* ... at this version */

/* Who of it joins, one at a time, and the attempt as it was sent. */
mtype:door door[PROCS];
byte joiner[PROCS];
byte awitness[PROCS];   /* the entry that is checked first; NONE */
byte ainc[PROCS];
byte aver[PROCS];
bit  aadopted[PROCS];
byte atail[PROCS];
bit  aany[PROCS];       /* whatever the version is */

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
bit  behind[N];         /* new session: its server may lag behind what it wrote last */

byte flaps = FLAPS, deeds = DEEDS;
bit  mistaken;          /* a parent was written by facts of another, ever */

/* The properties, as assertions name them: true for as long as they hold. */
bit mutual_exclusion = 1, nothing_left = 1, strangers_alone = 1, ours_known = 1, served = 1;

#define LIVES(i)        (!amiss[i] && THERE(ahead[i]))          /* the entry ahead of it */
#define PRESENT(i)      (mode[i] != idle)
#define QUEUED(i)       (mode[i] == waiting || mode[i] == held)
#define VALID(i)        (mode[i] == held && THERE(OWN(i)))      /* strangers' deletes excepted */
#define LAST_OUT(i)     (SIBLING(i) == i || !PRESENT(SIBLING(i)))
#define MAY_JOIN(i, p)  (WANTS(i) && door[p] == open)
#define AT_DOOR(i, p, what) (door[p] == what && joiner[p] == i)

/* With a witness the join's transaction checks an entry that is in the parent that the
   facts are of: one of the same process, or the one that joined last. */
#ifdef ANY_WITNESS
#define WITNESS(i, p)   (SIBLING(i) != i && PRESENT(SIBLING(i)))
#else
#define WITNESS(i, p)   (SIBLING(i) != i && PRESENT(SIBLING(i)) && einc[SIBLING(i)] == finc[p])
#endif
#define FORETOLD(p)     (flast[p] == good)

/* Without one, facts are used only for a moment after an entry of ours has left. */
#ifdef KEEP_FACTS
#define RECENT(p)       true
#else
#define RECENT(p)       recent[p]
#endif
#define USABLE(i, p)    (known[p] && !stale[p] && fver[p] > 0 && (WITNESS(i, p) || FORETOLD(p) || flast[p] == none && RECENT(p)))
#define FORESEEABLE(i, p) (FORESEE && known[p] && stale[p] && RECENT(p) && fver[p] > 0 && (flast[p] != vain || WITNESS(i, p)))
#ifdef NO_CHECK
#define PROVEN(p)       true
#else
#define PROVEN(p)       (awitness[p] == NONE || THERE(awitness[p]))
#endif

/* A parent that was just read may go before it is written, and be made anew up to the
   same version, if no entry is known to check. So a list may look for one; and if there
   is none, ours be created first. */
#define MAY_GO(i, p)    (!WITNESS(i, p) && !FORETOLD(p) && !fadopted[p])

/* Whether a release is known that says something of an incarnation of the parent. */
#ifdef RELEASE_OF_ANY
#define KNOWN_RELEASE(p, in) (freleased[p] != NONE)
#else
#define KNOWN_RELEASE(p, in) (freleased[p] != NONE && in != 0 && frinc[p] == in)
#endif
#ifdef TOLD_UNSEEN
#define SAW(i)          true
#else
#define SAW(i)          seen[i]
#endif
#ifdef WAITERS_TELL
#define RELEASES(i)     true
#else
#define RELEASES(i)     (mode[i] == held)
#endif

/* Any version will do for whoever has an entry checked, if the parent can never become one
   that is adopted, or is. That it bears our mark may be known of each that does. */
#ifdef ANY_UNPROVEN
#define ANY_VERSION(p)  (finc[p] != inc || !alien || fadopted[p])
#else
#define ANY_VERSION(p)  (awitness[p] != NONE && (finc[p] != inc || !alien || fadopted[p]))
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

/* What is assumed of strangers, who cannot be told from us by a version: whoever makes
   a parent does so neither between a read of ours and the request right after it, nor
   writes it while we have facts of the one before that we may use without a witness. */
#ifdef AT_ONCE
#define MAY_MAKE        true
#define MAY_WRITE       true
#else
#define BARE(p)         (door[p] == write && awitness[p] == NONE)
#define MARKS(p)        (door[p] == doubt || door[p] == mark)
#define MAKE_AFTER(p)   (!(BARE(p) && aver[p] == 0) && !drops[p])
#define WRITE_AFTER(p)  (!(BARE(p) && ainc[p] != inc) && !(MARKS(p) && einc[joiner[p]] != inc) && !(known[p] && recent[p] && finc[p] != inc))
#define MAY_MAKE        (MAKE_AFTER(0) && MAKE_AFTER(1))
#define MAY_WRITE       (WRITE_AFTER(0) && WRITE_AFTER(1))
#endif

/* Process p learns that an entry has gone that held the lock, in an incarnation; the last
   one counts. */
inline release(p, entry, in) {
	if
	:: entry != NONE && in != 0 && (freleased[p] == NONE || in > frinc[p] || in == frinc[p] && seq[entry] > seq[freleased[p]]) ->
		freleased[p] = entry; frinc[p] = in
	:: else
	fi
}

/* It learns what the parent is, by reading it or from the reply to a write; */
inline learn(p) {
	recent[p] = recent[p] && known[p] && finc[p] == inc;
	known[p] = 1; stale[p] = 0;
	finc[p] = inc; fver[p] = ver;
	fadopted[p] = adopted || data == blank;
	ftail[p] = tail;
	release(p, released, rinc);
	if
	:: there == 0 || tail == NONE -> flast[p] = none
	:: there != 0 && tail != NONE && THERE(tail) -> flast[p] = (seq[tail] + 1 == next -> good : vain)
	:: else -> flast[p] = (PROC(tail / ROOM) == p -> none : vain)
	fi
}

/* that it has none to speak of. */
inline unlearn(p) {
	known[p] = 0; stale[p] = 0; recent[p] = 0;
	finc[p] = 0; fver[p] = 0;
	fadopted[p] = 0;
	ftail[p] = NONE;
	flast[p] = none
}

/* Contender i of process p is to write the parent that is known. */
inline attempt(i, p, version) {
	joiner[p] = i;
	door[p] = write;
	ainc[p] = finc[p]; aver[p] = version;
	aadopted[p] = fadopted[p];
	atail[p] = (version == fver[p] -> ftail[p] : NONE);
	if
	:: WITNESS(i, p) -> awitness[p] = OWN(SIBLING(i))
	:: !WITNESS(i, p) && FORETOLD(p) -> awitness[p] = ftail[p]
	:: else -> awitness[p] = NONE
	fi;
	aany[p] = 0
}

/* The next one of process p may join. */
inline pass(p) {
	door[p] = open; joiner[p] = 0;
	awitness[p] = NONE;
	ainc[p] = 0; aver[p] = 0; aadopted[p] = 0;
	atail[p] = NONE; aany[p] = 0
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

/* The entry that stands last. */
inline newest(found, k) {
	found = NONE;
	k = 0;
	do
	:: k < ENTRIES ->
		if
		:: THERE(k) && (found == NONE || seq[k] > seq[found]) -> found = k
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
	released = NONE; rinc = 0
}

inline unmake() {
	exists = 0;
	ver = 0;
	next = 0;
	adopted = 0;
	tail = NONE;
	released = NONE; rinc = 0;
	alien = 0;
	data = blank
}

/* Contender i does not know where it stands. */
inline unplaced(i) { ahead[i] = UNKNOWN; amiss[i] = 0; seen[i] = 0; first[i] = 0 }

/* The entry of contender i is not there any more. Where the parent is not to stay for
   a moment, what was known of it is old; the last one out has to see to it. */
inline exit(i, p, stays) {
	if
	:: known[p] && einc[i] != 0 && einc[i] == finc[p] ->
		recent[p] = stays
	:: else
	fi;
	if
	:: known[p] && ftail[p] == OWN(i) ->
		flast[p] = none;
		stale[p] = stale[p] || LAST_OUT(i) && !stays
	:: else
	fi
}

/* The entry ahead of contender i is not there: nobody is, if a release is known of who was
   right ahead of it, or right ahead of the entry that it saw. */
inline believe(i, p) {
	if
	:: KNOWN_RELEASE(p, einc[i]) && (seq[freleased[p]] + 1 >= seq[OWN(i)] || SAW(i) && seq[freleased[p]] + 1 >= seq[ahead[i]]) -> ahead[i] = IN
	:: else -> ahead[i] = UNKNOWN
	fi
}

/* A turn of contender i has ended. */
inline over(i) {
	mode[i] = idle;
	turn[i] = turn[i] + 1;
	unplaced(i);
	einc[i] = 0; pver[i] = 0; keep[i] = 0;
	behind[i] = 0
}

proctype Contender(byte i; byte p) {
	byte e, j, v;
end:	do
	/* Join: read first, or not. */
	:: atomic { MAY_JOIN(i, p) || AT_DOOR(i, p, look) ->
		printf("%d: reads the parent\n", i);
		if
		:: !exists -> d_step { unlearn(p); pass(p) }
		:: exists && data == foreign -> d_step { turn[i]++; pass(p); printf("%d: it is somebody else's: gives up\n", i) }
		:: exists && data != foreign -> d_step { learn(p); pass(p) }
		:: exists && data != foreign -> d_step {
			learn(p);
			attempt(i, p, fver[p]);
			if
			:: MAY_GO(i, p) && there != 0 -> door[p] = search
			:: MAY_GO(i, p) && there == 0 -> pass(p); door[p] = claim; joiner[p] = i
			:: else
			fi }
		:: exists && data != foreign -> d_step {
			learn(p);
			attempt(i, p, fver[p]) }
		fi }
	:: atomic { AT_DOOR(i, p, search) ->
		printf("%d: lists, for an entry to check\n", i);
		if
		:: d_step { pass(p); door[p] = claim; joiner[p] = i }	/* none; or too many */
		:: inc == ainc[p] && there != 0 -> d_step {
			newest(e, j);
			awitness[p] = e;
			door[p] = write;
			e = 0 }
		fi }
	:: atomic { MAY_JOIN(i, p) && !known[p] ->
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
		:: else -> printf("%d: cannot make the parent, which is there\n", i); door[p] = look; joiner[p] = i
		fi } }
	:: atomic { MAY_JOIN(i, p) && USABLE(i, p) ->
		printf("%d: joins by what is known\n", i);
		d_step { attempt(i, p, fver[p]) }
		if
		:: awitness[p] != NONE && !WITNESS(i, p) && RECENT(p) -> awitness[p] = NONE	/* a moment is short enough */
		:: true
		fi;
		goto sent }
	:: atomic { MAY_JOIN(i, p) && known[p] && fver[p] > 0 && (WITNESS(i, p) || FORETOLD(p)) ->
		d_step { attempt(i, p, fver[p]); aany[p] = ANY_VERSION(p) }
		if
		:: aany[p] -> printf("%d: joins under any version\n", i)
		:: else
		fi;
		goto sent }
	:: atomic { MAY_JOIN(i, p) && FORESEEABLE(i, p) ->
		if
		:: v = fver[p]
		:: v = fver[p] + 1
		fi;
		printf("%d: foresees version %d\n", i, v);
		d_step { attempt(i, p, v); v = 0 }
		goto sent }
	:: atomic { AT_DOOR(i, p, write) ->
sent:		skip;
		d_step {
		if
		:: exists && (aany[p] || ver == aver[p]) && PROVEN(p) ->
			printf("%d: joins under version %d\n", i, ver);
			strangers_alone = !(alien && data == foreign);
			assert(strangers_alone);
			appear(i);
			e = OWN(i);
			j = there & ~BIT(e);
			data = ours; adopted = aadopted[p]; tail = e; ver++;
			if
			:: KNOWN_RELEASE(p, ainc[p]) -> released = freleased[p]; rinc = frinc[p]
			:: else -> released = NONE; rinc = 0
			fi;
			einc[i] = inc;
#ifndef IGNORE_ADOPTED
			keep[i] = adopted;
#endif
			mistaken = mistaken || ainc[p] != inc;
#ifdef BY_VERSION
			if
#else
			if
			:: ainc[p] != inc ->
				printf("%d: it is not the parent that it was\n", i);
				unlearn(p);
				mode[i] = joining;
				door[p] = doubt; aver[p] = ver
#endif
			:: else ->
				if
				:: j == 0 -> ahead[i] = IN; pver[i] = ver
				:: j != 0 && atail[p] != NONE ->
					first[i] = (j & (j - 1)) == 0;
					ahead[i] = atail[p];
					amiss[i] = seq[atail[p]] + 1 != seq[e]
				:: else
				fi;
				learn(p);
				pass(p)
			fi
		:: else ->
			printf("%d: cannot join under version %d\n", i, aver[p]);
			if
			:: !PROVEN(p) -> pass(p); door[p] = look; joiner[p] = i
			:: PROVEN(p) && !exists -> unlearn(p); pass(p)
			:: else -> stale[p] = known[p]; pass(p)
			fi
		fi;
		e = 0; j = 0 } }

	/* Without the tail; and where the parent was empty it is written then. */
	:: atomic { MAY_JOIN(i, p) && known[p] || AT_DOOR(i, p, claim) ->
		d_step {
		if
		:: exists ->
			appear(i);
#ifdef KEEP_UNWRITTEN
			keep[i] = known[p] && fadopted[p];
#endif
			printf("%d: joins without the tail\n", i);
			if
			:: door[p] == claim -> mode[i] = joining; door[p] = claimed
			:: else
			fi
		:: else -> unlearn(p); pass(p)
		fi } }
	:: atomic { AT_DOOR(i, p, claimed) ->
		if
		:: !exists -> d_step { unlearn(p); mode[i] = waiting }
		:: exists && data == foreign -> d_step {
			printf("%d: it is somebody else's: deletes its entry\n", i);
			there = there & ~BIT(OWN(i));
			exit(i, p, 0);
			duty[p] = duty[p] || LAST_OUT(i);
			over(i) }
		:: exists && data != foreign -> d_step { learn(p); mode[i] = waiting }
		:: exists && data != foreign && THERE(OWN(i)) -> d_step {
			printf("%d: writes the parent that it is in\n", i);
			adopted = adopted || data == blank;
			data = ours; tail = OWN(i); ver++;
			learn(p);
			einc[i] = inc;
			pver[i] = (there == BIT(OWN(i)) -> ver : 0);
#ifndef IGNORE_ADOPTED
			keep[i] = adopted;
#endif
			mode[i] = waiting }
		fi;
		pass(p) }

	/* Another parent than the facts were of: the ACL tells whether it is ours. */
	:: atomic { AT_DOOR(i, p, doubt) ->
		d_step {
		ours_known = alien || !exists || inc != einc[i];
		if
#ifndef ADOPT_AT_ONCE
		:: !ours_known || !exists || inc != einc[i] ->
			ours_known = 1;
			printf("%d: it is ours, or has gone\n", i);
			mode[i] = waiting; pass(p)
#endif
		:: else ->
			assert(ours_known);
			keep[i] = 1;
#ifdef NO_MARK
			mode[i] = waiting; pass(p)
#else
			door[p] = mark
#endif
		fi } }
	:: atomic { AT_DOOR(i, p, mark) ->
		d_step {
		if
		:: exists && ver == aver[p] ->
			printf("%d: marks the parent as adopted\n", i);
			strangers_alone = !(alien && data == foreign);
			assert(strangers_alone);
			data = ours; adopted = 1; ver++
		:: else
		fi;
		if
		:: exists && inc == einc[i] && data == ours && !adopted -> aver[p] = ver
		:: else -> pass(p); mode[i] = waiting
		fi } }
	:: atomic { MAY_JOIN(i, p) || AT_DOOR(i, p, look) ->
		printf("%d: gives up before it has joined\n", i);
		d_step { turn[i]++; pass(p) } }

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
	:: atomic { QUEUED(i) && !THERE(OWN(i)) ->
		printf("%d: its entry has gone\n", i);
		d_step {
		exit(i, p, 0);
#ifdef GONE_OWES_NOTHING
#elif defined(KEEP_GONE)
		duty[p] = duty[p] || LAST_OUT(i) && !keep[i];
#else
		duty[p] = duty[p] || LAST_OUT(i);
#endif
		over(i) } }

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
		:: true ->
			printf("%d: reads the parent for who has released\n", i);
			if
			:: exists && data == ours -> d_step { learn(p) }
			:: else
			fi;
			believe(i, p)
		:: true ->
			believe(i, p)
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

	/* Leave: with the parent, telling it, or just so; then the parent may be left for a
	   moment, and what is known of it be doubted all the same. */
	:: atomic { QUEUED(i) && THERE(OWN(i)) && pver[i] > 0 && !keep[i] && LAST_OUT(i) ->
		d_step {
		if
		:: there == BIT(OWN(i)) && ver == pver[i] ->
			printf("%d: deletes its entry and the parent\n", i);
			strangers_alone = !alien;
			assert(strangers_alone);
			there = 0;
			unmake();
			unlearn(p);
			over(i)
		:: else -> pver[i] = 0; printf("%d: cannot delete the parent\n", i)
		fi } }
#ifdef WAITERS_TELL
	:: atomic { QUEUED(i) &&
#else
	:: atomic { mode[i] == held &&
#endif
		    THERE(OWN(i)) && known[p] && !stale[p] && einc[i] == finc[p] ->
		if
		:: ver == fver[p] ->
			if
			:: v = keep[i]
			:: LINGER && LAST_OUT(i) -> v = 1
			fi;
			d_step {
			printf("%d: deletes its entry and tells it in the parent\n", i);
			there = there & ~BIT(OWN(i));
			release(p, OWN(i), einc[i]);
			released = OWN(i); rinc = einc[i];
			tail = ftail[p]; adopted = fadopted[p]; ver++;
			learn(p);
			exit(i, p, v);
			duty[p] = duty[p] || there == 0 && LAST_OUT(i) && !keep[i];
			over(i);
			v = 0 }
		:: else -> stale[p] = 1; printf("%d: cannot tell the release\n", i)
		fi }
	:: atomic { QUEUED(i) && THERE(OWN(i)) ->
		if
		:: v = keep[i]
		:: LINGER && LAST_OUT(i) -> v = 1
		:: LINGER && FORESEE && LAST_OUT(i) -> v = 1; stale[p] = known[p]
		fi;
		d_step {
		printf("%d: deletes its entry\n", i);
		if
		:: RELEASES(i) -> release(p, OWN(i), einc[i])
		:: else
		fi;
		there = there & ~BIT(OWN(i));
		exit(i, p, v);
		duty[p] = duty[p] || LAST_OUT(i) && !keep[i];
		over(i);
		v = 0 } }

	/* Faults. */
	:: atomic { PRESENT(i) && flaps > 0 && !behind[i] ->
		printf("%d: has a new session\n", i);
		flaps--;
		behind[i] = 1 }
	od
}

/* What process p does for all of its contenders: it sees to the parent, at once or
   after a while, and its facts grow old. */
proctype Process(byte p; byte one; byte two) {
end:	do
	:: atomic { duty[p] && !drops[p] && (TAKES_OVER(one) || TAKES_OVER(two)) ->
		printf("process %d: leaves the parent to another\n", p);
		duty[p] = 0 }
#ifdef UNREAD
	:: atomic { duty[p] && known[p] && !fadopted[p] ->
		printf("process %d: is to delete the parent that it knows\n", p);
		drops[p] = 1; dver[p] = fver[p];
		duty[p] = 0 }
#endif
	:: atomic { duty[p] && !drops[p] ->
		d_step {
		printf("process %d: looks whether the parent is empty\n", p);
		if
		:: !exists -> unlearn(p)
		:: exists && data == ours ->
			learn(p);
			recent[p] = 0
		:: else
		fi;
		if
		:: exists && there == 0 && REMOVABLE ->
			drops[p] = 1; dver[p] = ver;
			stale[p] = known[p]
		:: else
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
			unlearn(p)
		:: else ->
			printf("process %d: does not delete the parent\n", p);
			if
			:: !exists -> unlearn(p)
			:: else
			fi
		fi;
		drops[p] = 0; dver[p] = 0 } }
	:: atomic { recent[p] ->
		printf("process %d: none of its entries was there within the last 100 ms\n", p);
		recent[p] = 0 }
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
#ifdef LOST_MARKS
		nothing_left = there == 0 && (!exists || alien || mistaken);
#elif DEEDS
		nothing_left = there == 0 && (!exists || alien || adopted && mistaken); /* the mark was a stranger's */
#else
		nothing_left = there == 0 && (!exists || alien);
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
		freleased[0] = NONE; freleased[1] = NONE;
		unlearn(0); pass(0);
		unlearn(1); pass(1);
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
