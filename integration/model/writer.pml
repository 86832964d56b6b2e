/*
 * The one writer: one entry, and all writes of its node. Renewals and users' transactions while
 * the hold lasts, the last write (the delete, or the record of a detach), and attaching; on
 * versions, with replies that are lost and requests that are applied late. Admission is in
 * queue.pml: the entry is the first in its queue, and a lease ends in a step of its own.
 * README.md maps the steps to the code; checks.go lists what is checked, and main.go runs it.
 */

#ifndef N
#define N 3             /* processes: the first has the entry, the others have its ticket */
#endif
#ifndef WRITES
#define WRITES 2        /* renewals and transactions of each */
#endif
#ifndef LOSSES
#define LOSSES 2        /* requests of all whose replies are lost */
#endif
#ifndef LAPSES
#define LAPSES 1        /* leases that end while the process lives */
#endif

/* What a transaction and an attachment add to the version. */
#ifdef TXN_WRITES_ONCE
#define TXN     1
#else
#define TXN     2
#endif
#ifdef ATTACHED_ONCE
#define ATTACHED 1
#else
#define ATTACHED 2
#endif

mtype:mode = { away, reading, attaching, held, ending };
mtype:kind = { none, plain, txn, detach, attach, erase };
mtype:answer = { done, no_node, bad_version };

/* What the ensemble has: the entry, */
bit  there = 1;
byte ver;
byte by;                /* the process whose bytes stand, */
byte word;              /* ... and the random id of that write */
bit  detached;
byte inc;               /* incarnation: attaches so far */
/* what has become of requests, a bit for each transaction and process: */
byte applied[N];        /* it was applied, */
byte unapplied[N];      /* ... its user was told that it was not; */
byte put;               /* a detach of the process was applied, */
byte erased;            /* ... or its delete */
/* and requests that it may apply later. */
mtype:kind kind[LOSSES];
byte sby[LOSSES];
byte sword[LOSSES];
byte sver[LOSSES];
byte lost;

/* What each process knows. */
mtype:mode mode[N];
byte at[N];             /* the version of the entry, by the last reply */
byte mine[N];           /* ... its incarnation */
byte writes[N];         /* so many it has begun; the number of the last is its id */
mtype:kind doubt[N];    /* a write of unknown outcome */
mtype:kind last[N];     /* the last write: erase, or detach */
byte lver[N];           /* ... the version that it is sent on */
bit  tried[N];          /* ... an attempt of it, or of an attach, may have been applied */
bit  back[N];           /* the version was refused, and the node is to be read */
bit  lapsed[N];
bit  was[N];            /* it has had the entry */
byte lapses = LAPSES;

bit mutual_exclusion = 1, nothing_foreign = 1, txn_told = 1, last_told = 1, served = 1;

byte k;                 /* scratch, for one step only */
mtype:answer answer = done;
#define CLEAN           k = 0; answer = done
#define BIT(w)          (1 << (w))
#define VALID(i)        (mode[i] == held && !lapsed[i])
/* The lease in the record has surely ended. That of an attach counts from its first send. */
#define LEASED(i)       ((mode[i] == held || mode[i] == attaching) && !lapsed[i])
#define FREE            (!LEASED(0) && !LEASED(1) && !LEASED(N - 1))
#define OURS(i)         (by == i && word == writes[i])

/* The ensemble: process i sends a request of a kind, with an id, on a version. */
inline apply(what, i, w, v) {
	answer = (!there -> no_node : (ver != v -> bad_version : done));
	if
	:: answer == done && what == plain -> ver = v + 1; by = i; word = w
	:: answer == done && what == txn ->
		ver = v + TXN; by = i; word = w;
		applied[i] = applied[i] | BIT(w);
		txn_told = (unapplied[i] & BIT(w)) == 0;
		assert(txn_told)
	:: answer == done && what == detach -> ver = v + 1; by = i; word = w; detached = 1; put = put | BIT(i)
	:: answer == done && what == attach -> ver = v + ATTACHED; by = i; word = w; detached = 0; inc++
	:: answer == done && what == erase -> there = 0; erased = erased | BIT(i)
	:: else
	fi;
	/* No other process changes the entry of a valid holder. */
	k = 0;
	do
	:: k < N -> nothing_foreign = nothing_foreign && (answer != done || k == i || !VALID(k)); k++
	:: else -> break
	od;
	assert(nothing_foreign)
}

inline lose(what, i, w, v) {
	kind[lost] = what; sby[lost] = i; sword[lost] = w; sver[lost] = v;
	lost++
}

/* The user of process i is told whether its transaction was applied. */
inline told(i, yes) {
	if
	:: doubt[i] == txn ->
		txn_told = !(yes) || (applied[i] & BIT(writes[i])) != 0;
		assert(txn_told);
		txn_told = yes || (applied[i] & BIT(writes[i])) == 0;
		assert(txn_told);
		unapplied[i] = (yes -> unapplied[i] : unapplied[i] | BIT(writes[i]));
		applied[i] = 0
	:: else
	fi
}

inline finish(i) {
	mode[i] = away; doubt[i] = none; last[i] = none; lver[i] = 0; tried[i] = 0; back[i] = 0;
	at[i] = 0; mine[i] = 0; lapsed[i] = 0;
	applied[i] = 0; put = put & ~BIT(i); erased = erased & ~BIT(i)  /* not asked for any more */
}

/* The user of process i is told that its last write is done. */
inline success(i) {
	printf("%d: has ended: %e\n", i, last[i]);
	last_told = (last[i] == erase -> !there : (put & BIT(i)) != 0 || inc > mine[i]);
	assert(last_told);
	finish(i)
}

/* ... or that the entry has been removed, unless an attempt may have done it. */
inline missing(i) {
	printf("%d: its entry has gone\n", i);
#ifdef GONE_IS_NOT_OURS
	last_told = last[i] != erase || (erased & BIT(i)) == 0;
#else
	last_told = tried[i] || last[i] != erase || (erased & BIT(i)) == 0;
#endif
	assert(last_told);
	finish(i)
}

inline attached(i) {
	k = 0;
	do
	:: k < N -> mutual_exclusion = mutual_exclusion && (k == i || lapsed[i] || !VALID(k)); k++
	:: else -> break
	od;
	assert(mutual_exclusion);
	was[i] = 1; tried[i] = 0; back[i] = 0;
	mine[i] = inc;
	mode[i] = held
}

#define WRITES_NOW(i)   (VALID(i) && doubt[i] == none && writes[i] < WRITES)
#ifdef LAST_GUESSES     /* "acknowledged, and what is in flight" */
#define BEHIND(i)       (doubt[i] == none -> 0 : (doubt[i] == txn -> TXN : 1))
#else
#define BEHIND(i)       (doubt[i] != none)
#endif

proctype Process(byte i) {
end:	do
	/* Renew, or run a transaction: one write at a time. */
	:: d_step { WRITES_NOW(i) ->
		printf("%d: renews\n", i);
		writes[i]++;
		apply(plain, i, writes[i], at[i]);
		if
		:: answer == done -> at[i]++
		:: else -> finish(i)
		fi;
		CLEAN }
	:: d_step { WRITES_NOW(i) && lost < LOSSES ->
		printf("%d: renews, the reply is lost\n", i);
		writes[i]++;
		lose(plain, i, writes[i], at[i]);
		doubt[i] = plain }
	:: d_step { WRITES_NOW(i) ->
		printf("%d: runs a transaction\n", i);
		writes[i]++;
		apply(txn, i, writes[i], at[i]);
		if
		:: answer == done -> at[i] = at[i] + TXN
		:: else -> finish(i)
		fi;
		CLEAN }
	:: d_step { WRITES_NOW(i) && lost < LOSSES ->
		printf("%d: runs a transaction, the reply is lost\n", i);
		writes[i]++;
		lose(txn, i, writes[i], at[i]);
		doubt[i] = txn }

	/* Resolve a doubt: the same bytes on the same version, without operations; then read. */
	:: d_step { mode[i] == held && doubt[i] != none && !back[i] ->
		apply(plain, i, writes[i], at[i]);
		printf("%d: writes its bytes again: %e\n", i, answer);
		if
		:: answer == done -> at[i]++; told(i, TXN == 1); doubt[i] = none
		:: answer == bad_version -> back[i] = 1
		:: answer == no_node -> finish(i)
		fi;
		CLEAN }
	:: d_step { mode[i] == held && doubt[i] != none && !back[i] && lost < LOSSES ->
		printf("%d: writes its bytes again, the reply is lost\n", i);
		lose(plain, i, writes[i], at[i]) }
	:: d_step { mode[i] == held && back[i] ->
		if
		:: there && OURS(i) ->
			printf("%d: reads its bytes, at version %d after %d\n", i, ver, at[i]);
			told(i, ver == at[i] + TXN);
			at[i] = ver;
			doubt[i] = none; back[i] = 0
		:: else ->
			printf("%d: its entry is another's, or has gone\n", i);
			finish(i)
		fi }
#ifdef TXN_READ
	:: d_step { doubt[i] == txn && mode[i] == held && there && ver == at[i] ->
		printf("%d: reads that the version is still the same\n", i);
		told(i, 0);
		doubt[i] = none }
#endif

	/* The hold ends: the last write goes behind one that is in flight. */
	:: d_step { mode[i] == held ->
		printf("%d: unlocks\n", i);
		last[i] = erase; lver[i] = at[i] + BEHIND(i); back[i] = 0;
		mode[i] = ending }
	:: d_step { VALID(i) ->
		printf("%d: ends its hold, to detach\n", i);
		last[i] = detach; lver[i] = at[i] + BEHIND(i); back[i] = 0;
		mode[i] = ending }
	:: d_step { mode[i] == ending && !back[i] ->
#ifdef LAST_ANY_VERSION
		lver[i] = ver;
#endif
		apply(last[i], i, writes[i] + 1, lver[i]);
		printf("%d: sends the last write: %e: %e\n", i, last[i], answer);
		if
		:: answer == done -> success(i)
		:: answer == bad_version -> back[i] = 1
		:: answer == no_node -> missing(i)
		fi;
		CLEAN }
	:: d_step { mode[i] == ending && !back[i] && lost < LOSSES ->
		printf("%d: sends the last write, the reply is lost: %e\n", i, last[i]);
		lose(last[i], i, writes[i] + 1, lver[i]);
		tried[i] = 1 }
	:: d_step { mode[i] == ending && tried[i] ->
		printf("%d: gives up\n", i);
		finish(i) }
	:: d_step { mode[i] == ending && back[i] ->
		if
		:: !there -> tried[i] = tried[i] || last[i] == erase; missing(i)
		:: there && last[i] == detach && (detached && inc == mine[i] || tried[i] && inc > mine[i]) -> success(i)
#ifdef TAKEN_FOR_OURS
		:: there && !(last[i] == detach && (detached && inc == mine[i] || tried[i] && inc > mine[i])) ->
#else
		:: there && !(last[i] == detach && (detached && inc == mine[i] || tried[i] && inc > mine[i])) &&
			(ver == at[i] || doubt[i] != none && OURS(i)) ->
#endif
			printf("%d: reads that the entry is as it has left it, at version %d\n", i, ver);
			lver[i] = ver; back[i] = 0
		:: else ->
			printf("%d: its entry is another's\n", i);
			finish(i)
		fi }
	:: d_step { lapses > 0 && LEASED(i) ->
		printf("%d: its lease ends\n", i);
		lapses--;
		lapsed[i] = 1 }

	/* Attach: read the entry, and write it on the version that was read. */
	:: d_step { mode[i] == away && !was[i] && there && (detached || FREE) ->
		printf("%d: reads the entry\n", i);
		at[i] = ver;
		mode[i] = reading }
	:: d_step { (mode[i] == reading || mode[i] == attaching && !back[i]) ->
#ifdef ATTACHED_ANY_VERSION
		at[i] = ver;
#endif
		apply(attach, i, 0, at[i]);
		printf("%d: attaches: %e\n", i, answer);
		if
		:: answer == done -> at[i] = at[i] + ATTACHED; attached(i)
		:: answer == bad_version && tried[i] -> back[i] = 1
		:: else -> finish(i)
		fi;
		CLEAN }
	:: d_step { (mode[i] == reading || mode[i] == attaching && !back[i]) && lost < LOSSES ->
		printf("%d: attaches, the reply is lost\n", i);
		lose(attach, i, 0, at[i]);
		was[i] = 1; tried[i] = 1;
		mode[i] = attaching }
	:: d_step { mode[i] == attaching && back[i] ->
		if
		:: there && by == i && word == 0 && inc > 0 -> printf("%d: reads its bytes: it has attached\n", i); at[i] = ver; attached(i)
		:: else -> finish(i)
		fi;
		CLEAN }
	:: d_step { mode[i] == attaching ->
		printf("%d: gives up\n", i);
		finish(i) }
	od
}

/* What a late request may do to the entry of a valid holder: nothing. */
proctype Late(byte j) {
end:	do
	:: d_step { kind[j] != none ->
		apply(kind[j], sby[j], sword[j], sver[j]);
		printf("a request is applied whose reply is lost: %d: %e: %e\n", sby[j], kind[j], answer);
		kind[j] = none; sby[j] = 0; sword[j] = 0; sver[j] = 0;
		CLEAN }
	:: d_step { kind[j] != none ->
		printf("a request whose reply is lost never arrives: %d: %e\n", sby[j], kind[j]);
		kind[j] = none; sby[j] = 0; sword[j] = 0; sver[j] = 0 }
	od
}

/* In the end no process still waits. */
proctype Watch() {
	timeout;
	d_step {
	served = mode[0] == away && mode[1] == away && mode[N - 1] == away;
	assert(served) }
}

init {
	atomic {
		do
		:: k < LOSSES -> kind[k] = none; run Late(k); k++
		:: else -> break
		od;
		k = 0;
		do
		:: k < N ->
			mode[k] = (k == 0 -> held : away); was[k] = (k == 0); doubt[k] = none; last[k] = none;
			run Process(k);
			k++
		:: else -> break
		od;
		CLEAN;
		run Watch()
	}
}
