/*
 * The queue of a mutex: the parent, its anchor and its generation; joins, admission,
 * purges and leaving; requests that the ensemble applies after the client has given them
 * up. Each contender is a process with one place in the queue: its callers come and
 * go, and the place has at most one entry. There is no time: a lease ends in a step of its
 * own. README.md maps the steps to the code; checks.go lists what is checked, and main.go
 * runs it.
 *
 * A client chooses freely where both ways are right: to delete the parent with its entry or
 * later, to leave or to leave and join in one transaction. A request that is answered is
 * one step, because what happens before it or after it has steps of its own. A request whose
 * reply is lost waits in a slot. The ensemble applies it at any time, or never.
 */

#ifndef N
#define N 2             /* processes */
#endif
#ifndef SENDS
#define SENDS 2         /* requests of each process that can create an entry */
#endif
#ifndef CALLS
#define CALLS 2         /* calls of Lock in each process, */
#endif
#ifndef OTHERS
#define OTHERS SENDS    /* ... and both, of all processes but the first */
#endif
#ifndef QUITS
#define QUITS 1         /* ... and those of all that give up */
#endif
#ifndef LOSSES
#define LOSSES 1        /* requests of all whose replies are lost */
#endif
#ifndef LAPSES
#define LAPSES 1        /* leases of all that end while the process lives */
#endif
#ifndef FLAPS
#define FLAPS 0         /* new sessions of all */
#endif
#ifndef CRASHES
#define CRASHES 0       /* processes that die */
#endif
#ifndef REAPER
#define REAPER 0        /* a reaper is at work */
#endif

/* An entry is a send: a send has an attempt's id of its own, and creates one entry or none.
   So the number of the send also stands for the generation that it draws. */
#define ENTRIES         (N * SENDS)
#define OWNER(e)        ((e) / SENDS)
#define NONE            ENTRIES
#define UNKNOWN         0               /* what is believed of the parent: */
#define ABSENT          (ENTRIES + 1)   /* ... or its generation */
#define NEXT(i)         ((i) * SENDS + sent[i])
#define MAY_SEND(i)     (sent[i] < (i == 0 -> SENDS : OTHERS))

mtype:mode = { idle, finding, waiting, held, leaving, rejoining, dead };
mtype:entry = { unmade, there, gone };
mtype:kind = { none, make, join, rejoin, leave, leave_all, tidy, write };
mtype:answer = { done, no_node, bad_version, refused };
mtype:place = { list, behind, in };

/* What the ensemble has: the entries, */
mtype:entry entry[ENTRIES];
byte egen[ENTRIES];     /* the path: a generation */
byte eseq[ENTRIES];     /* ... and a sequence */
byte ever[ENTRIES];
bit  granted[ENTRIES];  /* its record tells the grant */
/* the parent, */
bit  exists;
byte gen;
byte ver;
byte next;
/* and requests that it may apply later. */
#if LOSSES > 0
mtype:kind kind[LOSSES];
byte starget[LOSSES];   /* the entry that its client means, */
byte sgen[LOSSES];      /* ... its path: */
byte sseq[LOSSES];
byte sver[LOSSES];
byte spver[LOSSES];     /* the parent's version */
byte snew[LOSSES];      /* the entry to create */
bit  sgrant[LOSSES];
#endif
byte lost;              /* so many slots are taken, ever */

/* What each process knows. */
mtype:mode mode[N];
byte calls[N];          /* callers that have not come yet */
byte want[N];           /* callers that wait */
byte sent[N];
byte own[N];
byte over[N];           /* the version of its entry */
byte pver[N];           /* the parent's version in the join's reply; 0: it had none */
byte believed[N];
mtype:place place[N];
byte agen[N];           /* the path of the entry ahead */
byte aseq[N];
bit  seen[N];           /* it was there, in a session that had our own entry */
bit  first[N];          /* nothing stands before it */
bit  lapsed[N];         /* the lease has ended */
bit  unsettled[N];      /* a new session: its server may lag behind what it wrote last */
byte from[N];           /* the first of the sends whose entries it looks for; NONE */
byte duty[N];           /* the generation whose parent it has to tidy up */
#ifdef SAME_GENERATION
byte again[N];
#endif
byte quits = QUITS, lapses = LAPSES, flaps = FLAPS, crashes = CRASHES;
bit  litter;            /* a process died, or an entry was created that its process had given up: the reaper's */

/* The properties, as assertions name them: true for as long as they hold. */
bit mutual_exclusion = 1, nothing_foreign = 1, nothing_left = 1, served = 1;

/* Scratch, for one step only. */
byte k, hit, count, x, hgen;
mtype:answer answer = done;

#define CLEAN           k = 0; hit = 0; count = 0; x = 0; hgen = 0; answer = done
#define THERE(e)        (entry[e] == there)
#define VALID(i)        (mode[i] == held && !lapsed[i])

/* Whether the process of an entry counts on it, or may find out that it has it. */
#define REFERS(i, e)    (own[i] == e || from[i] != NONE && from[i] <= e && e < NEXT(i))
#define LIVES(e)        (mode[OWNER(e)] != dead && !lapsed[OWNER(e)] && REFERS(OWNER(e), e))

#ifdef NO_ANCHOR
#define CHECKED(g)      (exists)
#define ANCHORS         0
#define SAME(g)         true
#else
#ifdef NO_CHECK
#define CHECKED(g)      (exists)
#else
#define CHECKED(g)      (exists && gen == (g))
#endif
#define ANCHORS         1
#ifdef TIDY_ANY
#define SAME(g)         true
#else
#define SAME(g)         (gen == (g))
#endif
#endif
#ifdef ANY_PARENT_VERSION
#define UNCHANGED(v)    true
#else
#define UNCHANGED(v)    (ver == (v))
#endif
#ifdef TWO_ARE_ALONE
#define ALONE(n)        ((n) <= ANCHORS + 2)
#else
#define ALONE(n)        ((n) == ANCHORS + 1)
#endif
#ifdef THREE_ARE_TWO
#define SECOND(n)       ((n) <= ANCHORS + 3)
#else
#define SECOND(n)       ((n) == ANCHORS + 2)
#endif

#ifdef TWO_IN           /* what else goes wrong is not looked for */
#define FOREIGN         skip
#else
#define FOREIGN         assert(nothing_foreign)
#endif

/* The ensemble. Each operation leaves its answer. */
inline children() {
	count = ANCHORS;
	k = 0;
	do
	:: k < ENTRIES -> count = count + THERE(k); k++
	:: else -> break
	od
}

inline find(g, s) {
	hit = 0;
	do
	:: hit < ENTRIES && !(THERE(hit) && egen[hit] == g && eseq[hit] == s) -> hit++
	:: else -> break
	od
}

inline appear(e, g) {
	entry[e] = there; egen[e] = g; eseq[e] = next; ever[e] = 0;
	granted[e] = (next == 0);
	next++; ver++;
	litter = litter || !REFERS(OWNER(e), e)
}

inline vanish(e) {
	mutual_exclusion = !(VALID(OWNER(e)) && own[OWNER(e)] == e);
	assert(mutual_exclusion);
#if FLAPS > 0 || defined(NO_ANCHOR) || defined(NO_CHECK) || defined(SAME_GENERATION)
	entry[e] = gone;
#else
	entry[e] = unmade; egen[e] = 0; eseq[e] = 0;
#endif
	ever[e] = 0; granted[e] = 0
}

inline do_make(e, g) {
	if
	:: exists -> answer = refused
	:: else -> exists = 1; gen = g; ver = 0; next = 0; appear(e, g); answer = done
	fi
}

inline do_join(e, g) {
	if
	:: !CHECKED(g) -> answer = refused
	:: else -> appear(e, g); answer = done
	fi
}

/* Entry t is what the client means, a path and a version are what it sends. */
inline do_check(t, g, s, v) {
	find(g, s);
	answer = (hit == NONE -> no_node : (ever[hit] != v -> bad_version : done));
	nothing_foreign = answer != done || hit == t;
	FOREIGN
}

inline do_leave(t, g, s, v) {
	do_check(t, g, s, v);
	if
	:: answer == done -> vanish(hit)
	:: else
	fi
}

inline do_leave_all(t, g, s, v, pv) {
	do_check(t, g, s, v);
	children();
	if
	:: answer == done && count == ANCHORS + 1 && UNCHANGED(pv) -> vanish(hit); exists = 0; gen = 0; ver = 0; next = 0
	:: answer == done && !(count == ANCHORS + 1 && UNCHANGED(pv)) -> answer = refused
	:: else
	fi
}

inline do_rejoin(t, g, s, v, e) {
#ifdef REJOIN_UNDELETED
	do_join(e, g)
#else
	hgen = g;
	do_check(t, g, s, v);
	if
	:: answer == done && CHECKED(hgen) -> vanish(hit); appear(e, hgen)
	:: answer == done && !CHECKED(hgen) -> answer = refused
	:: else
	fi
#endif
}

inline do_tidy(g) {
#ifdef TIDY_ALL
	x = 0;
	do
	:: x < ENTRIES && THERE(x) && exists && gen == g -> vanish(x); x++
	:: x < ENTRIES && !(THERE(x) && exists && gen == g) -> x++
	:: else -> break
	od;
#endif
	children();
	if
	:: exists && SAME(g) && count == ANCHORS ->
		nothing_foreign = gen == g;
		FOREIGN;
		exists = 0; gen = 0; ver = 0; next = 0; answer = done
	:: else -> answer = refused
	fi
}

inline do_write(t, g, s, v, grant) {
	do_check(t, g, s, v);
	if
	:: answer == done -> ever[hit] = v + 1; granted[hit] = granted[hit] || grant
	:: else
	fi
}

/* The reply to a request is lost. */
inline lose(what, t, g, s, v, pv, e, grant) {
#if LOSSES > 0
	kind[lost] = what; starget[lost] = t; sgen[lost] = g; sseq[lost] = s;
	sver[lost] = v; spver[lost] = pv; snew[lost] = e; sgrant[lost] = grant;
	lost++
#else
	skip
#endif
}

inline forget(i) {
	own[i] = NONE; over[i] = 0; pver[i] = 0; from[i] = NONE;
	place[i] = list; agen[i] = 0; aseq[i] = 0; seen[i] = 0; first[i] = 0;
	lapsed[i] = 0; unsettled[i] = 0
}

/* What a join's reply tells. */
inline joined(i, e) {
	forget(i);
	own[i] = e; believed[i] = egen[e]; pver[i] = ver;
	duty[i] = 0;
	mode[i] = waiting;
	children();
	if
	:: ALONE(count) -> place[i] = in
	:: !ALONE(count) && eseq[e] > 0 ->
		place[i] = behind; agen[i] = egen[e]; aseq[i] = eseq[e] - 1;
		first[i] = SECOND(count)
	:: else
	fi
}

/* A process has left; the parent stays. */
inline left(i, g) {
	forget(i);
#ifndef LEFT_UNTIDY
	duty[i] = g;
#endif
	mode[i] = idle
}

inline entry_gone(i) {
#ifdef GONE_OWES_NOTHING
	forget(i);
	mode[i] = idle
#else
	left(i, believed[i])
#endif
}

#ifdef SAME_GENERATION
#define DRAWN(i)        (again[i] != 0 -> again[i] : NEXT(i) + 1)
#else
#define DRAWN(i)        (NEXT(i) + 1)
#endif

#define OWN_PATH(i)     egen[own[i]], eseq[own[i]]

/* An entry ahead of that of process i whose lease has ended. */
inline expired(i) {
	hit = 0;
	do
	:: hit < ENTRIES && !(THERE(hit) && !LIVES(hit) && eseq[hit] < eseq[own[i]]) -> hit++
	:: else -> break
	od
}

inline enter(i) {
	printf("%d: enters\n", i);
	k = 0;
	do
	:: k < N -> mutual_exclusion = mutual_exclusion && (k == i || !VALID(k)); k++
	:: else -> break
	od;
	assert(mutual_exclusion);
	mode[i] = held;
	place[i] = list; agen[i] = 0; aseq[i] = 0; seen[i] = 0; first[i] = 0;
	want[i]--
}

/* The same bytes on the same version, and a read that shows whether they are there. */
inline renew(i) {
	do_write(own[i], OWN_PATH(i), over[i], mode[i] == held);
	if
	:: answer == done -> over[i] = ever[hit]; lapsed[i] = 0; unsettled[i] = 0
	:: answer == bad_version -> over[i] = ever[hit]
	:: answer == no_node && mode[i] == held -> mode[i] = leaving
	:: answer == no_node && mode[i] != held -> entry_gone(i)
	fi
}

inline clear(j) {
	kind[j] = none; starget[j] = 0; sgen[j] = 0; sseq[j] = 0; sver[j] = 0; spver[j] = 0; snew[j] = 0; sgrant[j] = 0
}

/* Expressions over all entries. */
#if ENTRIES == 4
#define ANY(P, a, b)    (P(0, a, b) || P(1, a, b) || P(2, a, b) || P(3, a, b))
#elif ENTRIES == 6
#define ANY(P, a, b)    (P(0, a, b) || P(1, a, b) || P(2, a, b) || P(3, a, b) || P(4, a, b) || P(5, a, b))
#elif ENTRIES == 8
#define ANY(P, a, b)    (P(0, a, b) || P(1, a, b) || P(2, a, b) || P(3, a, b) || P(4, a, b) || P(5, a, b) || P(6, a, b) || P(7, a, b))
#elif ENTRIES == 9
#define ANY(P, a, b)    (P(0, a, b) || P(1, a, b) || P(2, a, b) || P(3, a, b) || P(4, a, b) || P(5, a, b) || P(6, a, b) || P(7, a, b) || P(8, a, b))
#else
#define ANY(P, a, b)    (P(0, a, b) || P(1, a, b) || P(2, a, b))
#endif
#define AT(e, g, s)     (THERE(e) && egen[e] == g && eseq[e] == s)
#define GRANTED(e, g, s) (AT(e, g, s) && granted[e])
#define EXPIRED(e, a, b) (THERE(e) && !LIVES(e) && eseq[e] < a)
#define ANY_THERE(e, a, b) (THERE(e))
#define NEWS(i)         (!seen[i] || !ANY(AT, agen[i], aseq[i]) || !first[i] && ANY(GRANTED, agen[i], aseq[i]))

proctype Process(byte i) {
end:	do
	/* Callers. */
	:: atomic { calls[i] > 0 && mode[i] != dead ->
		printf("%d: a caller comes\n", i);
		calls[i]--; want[i]++ }
	:: atomic { want[i] > 0 && quits > 0 ->
		printf("%d: a caller gives up\n", i);
		want[i]--; quits-- }

	/* Join. */
	:: atomic { mode[i] == idle && want[i] > 0 && believed[i] == UNKNOWN && MAY_SEND(i) ->
		believed[i] = (exists -> gen : ABSENT);
		printf("%d: reads the parent: %d\n", i, believed[i]) }
	:: d_step { mode[i] == idle && want[i] > 0 && believed[i] == ABSENT && MAY_SEND(i) ->
		x = NEXT(i); hgen = DRAWN(i);
		own[i] = x;
		do_make(x, hgen);
		sent[i]++;
#ifdef SAME_GENERATION
		again[i] = 0;
#endif
		if
		:: answer == done -> printf("%d: makes the parent and %d\n", i, x); joined(i, x)
		:: else -> printf("%d: does not make the parent, which is there\n", i); own[i] = NONE; believed[i] = UNKNOWN; sent[i]--
		fi;
		CLEAN }
	:: d_step { mode[i] == idle && want[i] > 0 && believed[i] == ABSENT && MAY_SEND(i) && lost < LOSSES ->
		printf("%d: makes the parent and %d, the reply is lost\n", i, NEXT(i));
		hgen = DRAWN(i);
		lose(make, NONE, hgen, 0, 0, 0, NEXT(i), 0);
#ifdef SAME_GENERATION
		again[i] = hgen;
#endif
		from[i] = NEXT(i); sent[i]++;
		mode[i] = finding;
		CLEAN }
	:: d_step { mode[i] == idle && want[i] > 0 && believed[i] != ABSENT && believed[i] != UNKNOWN && MAY_SEND(i) ->
		x = NEXT(i);
		own[i] = x;
		do_join(x, believed[i]);
		sent[i]++;
		if
		:: answer == done -> printf("%d: joins as %d, in generation %d with sequence %d\n", i, x, egen[x], eseq[x]); joined(i, x)
		:: else -> printf("%d: finds no anchor\n", i); own[i] = NONE; believed[i] = UNKNOWN; sent[i]--
		fi;
		CLEAN }
	:: d_step { mode[i] == idle && want[i] > 0 && believed[i] != ABSENT && believed[i] != UNKNOWN && MAY_SEND(i) && lost < LOSSES ->
		printf("%d: joins as %d, the reply is lost\n", i, NEXT(i));
		lose(join, NONE, believed[i], 0, 0, 0, NEXT(i), 0);
		from[i] = NEXT(i); sent[i]++;
		mode[i] = finding;
		CLEAN }

	/* Look for what a lost reply has created, the youngest send first. */
	:: d_step { mode[i] == finding ->
		x = NEXT(i);
		do
		:: x > from[i] && !THERE(x - 1) -> x--
		:: else -> break
		od;
		if
		:: x > from[i] ->
			printf("%d: finds %d\n", i, x - 1);
			x--;
			own[i] = x; over[i] = ever[x]; from[i] = NONE;
			believed[i] = egen[x]; duty[i] = 0;
			mode[i] = waiting
		:: else ->
			printf("%d: finds no entry of its own\n", i);
			believed[i] = (believed[i] == ABSENT -> from[i] + 1 : believed[i]);
			entry_gone(i)
		fi;
		CLEAN }
#ifdef UNSYNCED
	:: d_step { mode[i] == finding ->
		printf("%d: does not find its entry, on a server that lags\n", i);
		believed[i] = UNKNOWN;
		forget(i);
		mode[i] = idle }
#endif
#ifdef FORGOTTEN
	:: d_step { mode[i] == finding && want[i] == 0 ->
		printf("%d: forgets the join that is in flight\n", i);
		forget(i);
		mode[i] = idle;
		CLEAN }
#endif

	/* Wait: by a list, */
	:: d_step { mode[i] == waiting && place[i] == list && !unsettled[i] ->
		find(OWN_PATH(i));
		if
		:: hit == NONE -> printf("%d: lists, and its entry has gone\n", i); entry_gone(i)
		:: else ->
			k = 0; hit = NONE; count = 0;
			do
			:: k < ENTRIES ->
				count = count + (THERE(k) && eseq[k] < eseq[own[i]]);
				if
				:: THERE(k) && eseq[k] < eseq[own[i]] && (hit == NONE || eseq[k] > eseq[hit]) -> hit = k
				:: else
				fi;
				k++
			:: else -> break
			od;
			if
			:: hit == NONE -> printf("%d: lists, and is first\n", i); place[i] = in
			:: else ->
				printf("%d: lists, and is behind %d\n", i, hit);
				place[i] = behind; agen[i] = egen[hit]; aseq[i] = eseq[hit];
				seen[i] = 1; first[i] = count == 1
			fi
		fi;
		CLEAN }

	/* by the entry ahead, */
	:: d_step { mode[i] == waiting && place[i] == behind && !unsettled[i] && NEWS(i) ->
		find(agen[i], aseq[i]);
		if
		:: hit != NONE && (!seen[i] || granted[hit] && !first[i]) ->
			printf("%d: reads %d\n", i, hit);
			seen[i] = 1;
			first[i] = first[i] || granted[hit]
#ifdef UNSEEN
		:: hit == NONE && first[i] ->
#else
		:: hit == NONE && seen[i] && first[i] ->
#endif
			printf("%d: the entry ahead, which was first, has gone\n", i);
			place[i] = in; agen[i] = 0; aseq[i] = 0; seen[i] = 0; first[i] = 0
#ifndef UNSEEN
		:: hit == NONE && !(seen[i] && first[i]) ->
#else
		:: hit == NONE && !first[i] ->
#endif
			printf("%d: the entry ahead has gone, or never was\n", i);
#ifdef GONE_ENTERS
			place[i] = (seen[i] -> in : list);
#else
			place[i] = list;
#endif
			agen[i] = 0; aseq[i] = 0; seen[i] = 0; first[i] = 0
		:: else
		fi;
		CLEAN }
#ifdef SEEN_UNSETTLED
	:: d_step { mode[i] == waiting && place[i] == behind && unsettled[i] && !seen[i] ->
		hit = 0;
		do
		:: hit < ENTRIES && !(entry[hit] == gone && egen[hit] == agen[i] && eseq[hit] == aseq[i]) -> hit++
		:: else -> break
		od;
		if
		:: hit != NONE -> printf("%d: reads %d, on a server that lags\n", i, hit); seen[i] = 1
		:: else
		fi;
		CLEAN }
#endif
#ifdef GONE_UNSETTLED
	:: d_step { mode[i] == waiting && place[i] == behind && unsettled[i] && seen[i] && first[i] ->
		printf("%d: reads that the entry ahead has gone, on a server that lags\n", i);
		place[i] = in; agen[i] = 0; aseq[i] = 0; seen[i] = 0; first[i] = 0;
		CLEAN }
	:: d_step { mode[i] == waiting && place[i] == in && unsettled[i] && !lapsed[i] && want[i] > 0 ->
		enter(i);
		CLEAN }
#endif

	/* by a purge of an entry ahead that has expired, */
	:: d_step { mode[i] == waiting && !unsettled[i] && !lapsed[i] && ANY(EXPIRED, eseq[own[i]], 0) ->
		expired(i);
		printf("%d: purges %d\n", i, hit);
		vanish(hit);
		CLEAN }
	:: d_step { mode[i] == waiting && !unsettled[i] && !lapsed[i] && lost < LOSSES && ANY(EXPIRED, eseq[own[i]], 0) ->
		expired(i);
		printf("%d: purges %d, the reply is lost\n", i, hit);
		lose(leave, hit, egen[hit], eseq[hit], ever[hit], 0, NONE, 0);
		CLEAN }

	/* and enter. */
	:: d_step { mode[i] == waiting && place[i] == in && !unsettled[i] && !lapsed[i] && want[i] > 0 ->
		enter(i);
		CLEAN }

	/* Write the entry: to renew it, or to record the grant. */
	:: d_step { (mode[i] == waiting && (lapsed[i] || unsettled[i]) || mode[i] == held && (!granted[own[i]] || unsettled[i])) ->
		renew(i);
		printf("%d: writes its entry: %e\n", i, answer);
		CLEAN }
	:: d_step { (mode[i] == waiting && (lapsed[i] || unsettled[i]) || mode[i] == held && (!granted[own[i]] || unsettled[i])) && lost < LOSSES ->
		printf("%d: writes its entry, the reply is lost\n", i);
		lose(write, own[i], OWN_PATH(i), over[i], 0, NONE, mode[i] == held);
		CLEAN }

	/* Leave. */
	:: atomic { mode[i] == held ->
		printf("%d: unlocks\n", i);
		mode[i] = leaving }
	:: atomic { mode[i] == held && want[i] > 0 && MAY_SEND(i) ->
		printf("%d: unlocks, to leave and join at once\n", i);
		from[i] = NEXT(i);
		mode[i] = rejoining }
	:: atomic { mode[i] == waiting && want[i] == 0 ->
		printf("%d: none of its callers waits any longer\n", i);
		mode[i] = leaving }
	:: d_step { mode[i] == leaving ->
		do_leave(own[i], OWN_PATH(i), over[i]);
		printf("%d: deletes its entry: %e\n", i, answer);
		if
		:: answer == bad_version -> over[i] = ever[hit]
		:: else -> left(i, believed[i])
		fi;
		CLEAN }
	:: d_step { mode[i] == leaving && lost < LOSSES ->
		printf("%d: deletes its entry, the reply is lost\n", i);
		lose(leave, own[i], OWN_PATH(i), over[i], 0, NONE, 0);
		CLEAN }
	:: d_step { mode[i] == leaving && pver[i] > 0 ->
		do_leave_all(own[i], OWN_PATH(i), over[i], pver[i]);
		printf("%d: deletes its entry and the parent: %e\n", i, answer);
		if
		:: answer == bad_version -> over[i] = ever[hit]
		:: answer == refused -> pver[i] = 0
		:: answer == no_node -> left(i, believed[i])
		:: else -> forget(i); believed[i] = ABSENT; mode[i] = idle
		fi;
		CLEAN }
	:: d_step { mode[i] == leaving && pver[i] > 0 && lost < LOSSES ->
		printf("%d: deletes its entry and the parent, the reply is lost\n", i);
		lose(leave_all, own[i], OWN_PATH(i), over[i], pver[i], NONE, 0);
		CLEAN }
	:: d_step { mode[i] == idle && duty[i] != 0 ->
		do_tidy(duty[i]);
		printf("%d: tidies the parent up: %e\n", i, answer);
		believed[i] = (answer == done -> ABSENT : UNKNOWN);
		duty[i] = 0;
		CLEAN }
	:: d_step { mode[i] == idle && duty[i] != 0 && lost < LOSSES ->
		printf("%d: tidies the parent up, the reply is lost\n", i);
		lose(tidy, NONE, duty[i], 0, 0, 0, NONE, 0);
		CLEAN }

	/* Leave and join in one transaction. */
	:: d_step { mode[i] == rejoining && MAY_SEND(i) ->
		x = NEXT(i);
		sent[i]++;
		do_rejoin(own[i], OWN_PATH(i), over[i], x);
		printf("%d: leaves and joins as %d: %e\n", i, x, answer);
		if
#ifdef VERSION_IS_GONE
		:: answer == bad_version -> left(i, believed[i]); sent[i]--
#else
		:: answer == bad_version -> over[i] = ever[hit]; sent[i]--
#endif
		:: answer == done ->
			hit = own[i];
			joined(i, x);
#ifdef REJOIN_UNDELETED
			if
			:: THERE(hit) -> vanish(hit)
			:: else
			fi
#endif
		:: answer == refused -> mode[i] = leaving; from[i] = NONE; sent[i]--
#ifdef NOT_APPLIED
		:: answer == no_node -> left(i, believed[i]); sent[i]--
#else
		:: answer == no_node -> own[i] = NONE; sent[i]--; mode[i] = finding
#endif
		fi;
		CLEAN }
	:: d_step { mode[i] == rejoining && MAY_SEND(i) && lost < LOSSES ->
		printf("%d: leaves and joins as %d, the reply is lost\n", i, NEXT(i));
		lose(rejoin, own[i], OWN_PATH(i), over[i], 0, NEXT(i), 0);
		sent[i]++;
		CLEAN }
	:: d_step { mode[i] == rejoining && (!MAY_SEND(i) || want[i] == 0) ->
		do_leave(own[i], OWN_PATH(i), over[i]);
		printf("%d: deletes its entry alone: %e\n", i, answer);
		if
		:: answer == bad_version -> over[i] = ever[hit]
		:: answer == no_node -> own[i] = NONE; mode[i] = finding
		:: else -> left(i, believed[i])
		fi;
		CLEAN }

	/* Faults. */
	:: d_step { lapses > 0 && (own[i] != NONE || from[i] != NONE) && !lapsed[i] && mode[i] != dead ->
		printf("%d: its lease ends\n", i);
		lapses--;
		lapsed[i] = 1;
		mode[i] = (mode[i] == held -> leaving : mode[i]);
		CLEAN }
	:: d_step { flaps > 0 && (mode[i] == waiting || mode[i] == held) && !unsettled[i] ->
		printf("%d: has a new session\n", i);
		flaps--;
		unsettled[i] = 1;
		CLEAN }
	:: d_step { crashes > 0 && mode[i] != idle && mode[i] != dead ->
		printf("%d: dies\n", i);
		crashes--;
		litter = 1;
		forget(i);
		want[i] = 0; calls[i] = 0; duty[i] = 0;
		mode[i] = dead;
		CLEAN }
	od
}

#if LOSSES > 0
/* What the ensemble does with a request whose reply was lost. */
proctype Late(byte j) {
end:	do
	:: d_step { kind[j] != none ->
		if
		:: kind[j] == make -> do_make(snew[j], sgen[j])
		:: kind[j] == join -> do_join(snew[j], sgen[j])
		:: kind[j] == rejoin -> do_rejoin(starget[j], sgen[j], sseq[j], sver[j], snew[j])
		:: kind[j] == leave -> do_leave(starget[j], sgen[j], sseq[j], sver[j])
		:: kind[j] == leave_all -> do_leave_all(starget[j], sgen[j], sseq[j], sver[j], spver[j])
		:: kind[j] == tidy -> do_tidy(sgen[j])
		:: kind[j] == write -> do_write(starget[j], sgen[j], sseq[j], sver[j], sgrant[j])
		fi;
		printf("a request is applied whose reply is lost: %e: %e\n", kind[j], answer);
		clear(j);
		CLEAN }
	:: d_step { kind[j] != none ->
		printf("a request whose reply is lost never arrives: %e\n", kind[j]);
		clear(j);
		CLEAN }
	od
}

#endif

#if REAPER
/* The reaper deletes expired entries, and a parent that has nothing but its anchor. */
proctype Reaper() {
	byte g;
end:	do
	:: d_step { ANY(EXPIRED, 255, 0) ->
		hit = 0;
		do
		:: hit < ENTRIES && !(THERE(hit) && !LIVES(hit)) -> hit++
		:: else -> break
		od;
		printf("the reaper purges %d\n", hit);
		vanish(hit);
		CLEAN }
	:: d_step { exists && g == 0 && !ANY(ANY_THERE, 0, 0) ->
		printf("the reaper reads the parent: %d\n", gen);
		g = gen;
		CLEAN }
	:: d_step { g != 0 ->
		do_tidy(g);
		printf("the reaper deletes the parent: %e\n", answer);
		g = 0;
		CLEAN }
	od
}
#endif

/* When nothing can happen any more, no caller waits, and nothing is left. */
proctype Watch() {
	timeout ->
	d_step {
	k = 0;
	do
	:: k < N ->
		served = served && (mode[k] == dead || mode[k] == idle && (want[k] == 0 || !MAY_SEND(k)));
		k++
	:: else -> break
	od;
	assert(served);
	children();
#if REAPER
	nothing_left = !exists && count == ANCHORS;
#else
	nothing_left = litter || !exists && count == ANCHORS;
#endif
	assert(nothing_left) }
}

init {
	atomic {
		x = 0;
		do
		:: x < ENTRIES -> entry[x] = unmade; x++
		:: else -> break
		od;
		x = 0;
#if LOSSES > 0
		do
		:: x < LOSSES -> kind[x] = none; run Late(x); x++
		:: else -> break
		od;
		x = 0;
#endif
		do
		:: x < N -> mode[x] = idle; calls[x] = (x == 0 || CALLS < OTHERS -> CALLS : OTHERS); own[x] = NONE; from[x] = NONE; place[x] = list; run Process(x); x++
		:: else -> break
		od;
		x = 0;
#if REAPER
		run Reaper();
#endif
		run Watch()
	}
}
