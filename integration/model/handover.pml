/*
 * One entry, and the writes to it: renewals, users' transactions, detaching, attaching and
 * the delete, on versions, with replies that are lost and requests that are applied late.
 * Admission is in queue.pml, time in holdfast.pml: the entry is the first in its queue,
 * and a lease ends in a step of its own. README.md maps the steps to the code; checks.go
 * lists what is checked, and main.go runs it.
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

#define NONE    N
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

mtype:mode = { away, reading, held, detaching, leaving };
mtype:kind = { none, plain, txn, detach, attach, erase };
mtype:answer = { done, no_node, bad_version };

/* What the ensemble has: the entry, */
bit  there = 1;
byte ver;
byte by;                /* the process whose bytes stand, */
byte word;              /* ... and the random id of that write */
bit  detached;
/* the user's data, */
byte applied[N];        /* a bit for each transaction: it was applied, */
byte unapplied[N];      /* ... and: its user was told that it was not */
/* and requests that it may apply later. */
mtype:kind kind[LOSSES];
byte sby[LOSSES];
byte sword[LOSSES];
byte sver[LOSSES];
byte lost;

/* What each process knows. */
mtype:mode mode[N];
byte at[N];             /* the version of the entry */
byte writes[N];         /* so many it has begun; the number of the last is its id */
mtype:kind doubt[N];    /* a write of unknown outcome */
bit  lapsed[N];
bit  was[N];            /* it has had the entry */
byte lapses = LAPSES;

bit mutual_exclusion = 1, nothing_foreign = 1, txn_told = 1, served = 1;

byte k;                 /* scratch, for one step only */
mtype:answer answer = done;
#define CLEAN           k = 0; answer = done
#define BIT(w)          (1 << (w))
#define FREE            (!VALID(0) && !VALID(1) && !VALID(N - 1))       /* the lease in the record has surely ended */
#define VALID(i)        (mode[i] == held && !lapsed[i])

/* The ensemble: process i sends a request of a kind, with an id, on a version. */
inline apply(what, i, w, v) {
	answer = (!there -> no_node : (ver != v -> bad_version : done));
	if
	:: answer == done && what == plain -> ver = v + 1; by = i; word = w
	:: answer == done && what == txn -> ver = v + TXN; by = i; word = w; applied[i] = applied[i] | BIT(w)
	:: answer == done && what == detach -> ver = v + 1; by = i; word = w; detached = 1
	:: answer == done && what == attach -> ver = v + ATTACHED; by = i; word = w; detached = 0
	:: answer == done && what == erase -> there = 0
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
		txn_told = !yes || (applied[i] & BIT(writes[i])) != 0;
		assert(txn_told);
		unapplied[i] = (yes -> unapplied[i] : unapplied[i] | BIT(writes[i]))
	:: else
	fi
}

inline finish(i) {
	mode[i] = away; doubt[i] = none; at[i] = 0; lapsed[i] = 0
}

proctype Process(byte i) {
end:	do
	/* Renew, or run a transaction. */
	:: d_step { mode[i] == held && !lapsed[i] && doubt[i] == none && writes[i] < WRITES ->
		printf("%d: renews\n", i);
		writes[i]++;
		apply(plain, i, writes[i], at[i]);
		if
		:: answer == done -> at[i]++
		:: else -> mode[i] = leaving
		fi;
		CLEAN }
	:: d_step { mode[i] == held && !lapsed[i] && doubt[i] == none && writes[i] < WRITES && lost < LOSSES ->
		printf("%d: renews, the reply is lost\n", i);
		writes[i]++;
		lose(plain, i, writes[i], at[i]);
		doubt[i] = plain }
	:: d_step { mode[i] == held && !lapsed[i] && doubt[i] == none && writes[i] < WRITES ->
		printf("%d: runs a transaction\n", i);
		writes[i]++;
		apply(txn, i, writes[i], at[i]);
		if
		:: answer == done -> at[i] = at[i] + TXN
		:: else -> mode[i] = leaving
		fi;
		CLEAN }
	:: d_step { mode[i] == held && !lapsed[i] && doubt[i] == none && writes[i] < WRITES && lost < LOSSES ->
		printf("%d: runs a transaction, the reply is lost\n", i);
		writes[i]++;
		lose(txn, i, writes[i], at[i]);
		doubt[i] = txn }

	/* Resolve a doubt: the same bytes on the same version, without operations. */
	:: d_step { (doubt[i] == plain || doubt[i] == txn) && mode[i] != away ->
		apply(plain, i, writes[i], at[i]);
		if
		:: answer == done ->
			printf("%d: writes its bytes again\n", i);
			at[i]++;
			told(i, 0)
		:: answer == bad_version && by == i && word == writes[i] && ver == at[i] + 1 && TXN == 2 ->
			printf("%d: reads its bytes, one version on\n", i);
			told(i, 0);
			at[i] = ver
		:: answer == bad_version && by == i && word == writes[i] && ver == at[i] + TXN && doubt[i] == txn ->
			printf("%d: reads the transaction's bytes\n", i);
			told(i, 1);
			at[i] = ver
		:: answer == bad_version && by == i && word == writes[i] && TXN == 1 && doubt[i] == plain ->
			at[i] = ver
		:: else ->
			printf("%d: its entry is another's, or has gone\n", i);
			mode[i] = (mode[i] == held -> leaving : mode[i])
		fi;
		doubt[i] = none;
		CLEAN }
	:: d_step { doubt[i] == txn && mode[i] != away && lost < LOSSES ->
		printf("%d: writes its bytes again, the reply is lost\n", i);
		lose(plain, i, writes[i], at[i]) }
#ifdef TXN_READ
	:: d_step { doubt[i] == txn && mode[i] != away && there && ver == at[i] ->
		printf("%d: reads that the version is still the same\n", i);
		told(i, 0);
		doubt[i] = none }
#endif

	/* End the hold, and detach the entry. */
	:: d_step { mode[i] == held && !lapsed[i] ->
		printf("%d: ends its hold, to detach\n", i);
		mode[i] = detaching }
	:: d_step { mode[i] == detaching && doubt[i] == none ->
		apply(detach, i, writes[i] + 1, at[i]);
		printf("%d: detaches the entry: %e\n", i, answer);
		finish(i);
		CLEAN }
	:: d_step { mode[i] == detaching && doubt[i] == none && lost < LOSSES ->
		printf("%d: detaches the entry, the reply is lost, and it gives up\n", i);
		lose(detach, i, writes[i] + 1, at[i]);
		finish(i) }

	/* Unlock. A renewal may be on its way: the delete goes on the version that it leaves. */
	:: d_step { mode[i] == held || mode[i] == leaving ->
		mode[i] = leaving;
		apply(erase, i, 0, at[i]);
		printf("%d: deletes the entry: %e\n", i, answer);
		finish(i);
		CLEAN }
	:: d_step { (mode[i] == held || mode[i] == leaving) && doubt[i] == plain && lost < LOSSES ->
		printf("%d: deletes the entry behind its renewal, the reply is lost, and it gives up\n", i);
		lose(erase, i, 0, at[i] + 1);
		finish(i) }
	:: d_step { lapses > 0 && mode[i] == held && !lapsed[i] ->
		printf("%d: its lease ends\n", i);
		lapses--;
		lapsed[i] = 1 }

	/* Attach: read the entry, and write it on the version that was read. */
	:: d_step { mode[i] == away && !was[i] && there && (detached || FREE) ->
		printf("%d: reads the entry\n", i);
		at[i] = ver;
		mode[i] = reading }
	:: d_step { mode[i] == reading ->
#ifdef ATTACHED_ANY_VERSION
		at[i] = ver;
#endif
		apply(attach, i, 0, at[i]);
		printf("%d: attaches: %e\n", i, answer);
		if
		:: answer == done ->
			at[i] = at[i] + ATTACHED;
			k = 0;
			do
			:: k < N -> mutual_exclusion = mutual_exclusion && (k == i || !VALID(k)); k++
			:: else -> break
			od;
			assert(mutual_exclusion);
			was[i] = 1;
			mode[i] = held
		:: else -> finish(i)
		fi;
		CLEAN }
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

/* What was told of a transaction is true in the end. */
proctype Watch() {
	timeout;
	d_step {
	k = 0;
	do
	:: k < N ->
		txn_told = txn_told && (applied[k] & unapplied[k]) == 0;
		served = served && (mode[k] == away);
		k++
	:: else -> break
	od;
	assert(txn_told);
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
		:: k < N -> mode[k] = (k == 0 -> held : away); was[k] = (k == 0); doubt[k] = none; run Process(k); k++
		:: else -> break
		od;
		CLEAN;
		run Watch()
	}
}
