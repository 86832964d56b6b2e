/*
 * Shared transactions: members of several callers in one transaction, a refusal of one
 * member's operation, which keeps the others from being applied, replies that are lost, and
 * what each caller is told. Each caller has a lock of its own: what joins and leaves
 * mean to one lock is in queue.pml. README.md maps the steps to the code; checks.go lists
 * what is checked, and main.go runs it.
 *
 * How many transactions are in flight, and which members wait for the next one, only saves
 * requests. So any set of waiting members may form a group at any time.
 */

#ifndef N
#define N 3             /* callers, with a member each */
#endif
#ifndef LOSSES
#define LOSSES 1        /* transactions whose replies are lost */
#endif
#ifndef CHANGES
#define CHANGES 1       /* by other clients: a purged entry, or a parent that is not as believed */
#endif
#ifndef DROPS
#define DROPS 1         /* members that are not sent: an outage, or the caller has given up */
#endif

#define FLIGHTS         3       /* as many as there are members */
#define NONE            N

/* What a member consists of:
     join       0: Check(anchor) Create(E')
     leave      0: Delete(E)
     leave_all  0: Delete(E)            1: Delete(anchor) Delete(P)
     exchange   0: Delete(E)            1: Check(anchor) Create(E')
   Of all but a join the first operation is sure: it does not rely on the others. */
mtype:kind = { join, leave, leave_all, exchange };
mtype:mode = { ready, asked, finding, over };
mtype:answer = { whole, part, refusal, neighbor, unsent, doubt };

/* What the ensemble has, of each caller: */
bit  old[N];            /* the entry that it has had, */
byte made[N];           /* a bit for each attempt that has created an entry, */
byte left[N];           /* ... or has deleted the old one, */
byte swept[N];          /* ... or has deleted the parent; */
bit  right[N];          /* the parent is as the caller believes: there, or without other contenders */
/* and requests that it may apply later. */
#if LOSSES > 0
byte swho[LOSSES];      /* members, a bit each */
byte scut[LOSSES];      /* ... those of which only the sure part was sent */
byte satt[LOSSES * N];  /* ... the attempt of each */
#endif
byte slots;             /* so many are taken, ever */

/* What each caller knows. */
mtype:kind kind[N];
mtype:mode mode[N];
byte attempt[N];        /* a new one after each doubt */
bit  tried[N];          /* an earlier attempt is in doubt */
bit  dropped[N];        /* its last member was not sent */

/* What the connection has. */
byte waits;             /* members that wait for a group */
byte guess;             /* ... whose second operation, or only one, is a guess */
byte cut;               /* ... that are reduced to their sure operation */
byte who[FLIGHTS];      /* ... that are in a group; 0: no such transaction is in flight */
bit  again[FLIGHTS];    /* ... of which the server has refused one operation */
byte changes = CHANGES, drops = DROPS;

/* The properties, as assertions name them: true for as long as they hold. */
bit told_true = 1, own_answer = 1, applied_once = 1, served = 1;

/* Scratch, for one step only. */
byte k, f2, refused, rop, top;
byte at[N];
bit  wrong;
#define CLEAN           k = 0; f2 = 0; refused = 0; rop = 0; top = 0; wrong = 0; at[0] = 0; at[1] = 0; at[N - 1] = 0

#define BIT(i)          (1 << (i))
#define IN(i, set)      (((set) & BIT(i)) != 0)
#define SURE(i)         (kind[i] != join)
#define TWO(i)          (kind[i] == leave_all || kind[i] == exchange)
#define FIRST(i)        (kind[i] == join -> right[i] : old[i])
#define MADE(i)         IN(attempt[i], made[i])
#define LEFT(i)         IN(attempt[i], left[i])
#define SWEPT(i)        IN(attempt[i], swept[i])
#define WHOLE(i)        ((kind[i] == join || LEFT(i)) && (kind[i] != leave_all || SWEPT(i)) && (kind[i] != join && kind[i] != exchange || MADE(i)))
#define NOT_AT_ALL(i)   (!MADE(i) && !LEFT(i) && !SWEPT(i) && !LATE(i))
#if LOSSES == 0
#define LATE(i)         false
#elif LOSSES == 1
#define LATE(i)         (IN(i, swho[0]) && satt[i] == attempt[i])
#else
#define LATE(i)         (IN(i, swho[0]) && satt[i] == attempt[i] || IN(i, swho[1]) && satt[N + i] == attempt[i])
#endif

/* The ensemble: the first operation that is refused, in refused and rop; else all are applied. */
inline perform(members, reduced) {
	refused = NONE;
	k = 0;
	do
	:: k < N && refused == NONE ->
		if
		:: IN(k, members) && !FIRST(k) -> refused = k; rop = 0
		:: IN(k, members) && FIRST(k) && TWO(k) && !IN(k, reduced) && !right[k] -> refused = k; rop = 1
		:: else
		fi;
		k++
	:: else -> break
	od;
	k = 0;
	do
	:: k < N && refused == NONE ->
		if
		:: IN(k, members) && kind[k] != join -> old[k] = 0; left[k] = left[k] | BIT(at[k])
		:: else
		fi;
		if
		:: IN(k, members) && (kind[k] == join || kind[k] == exchange && !IN(k, reduced)) ->
			/* An attempt creates one entry; an exchange, whatever its attempts, too. */
			applied_once = !IN(at[k], made[k]) && (kind[k] == join || made[k] == 0);
			assert(applied_once);
			made[k] = made[k] | BIT(at[k])
		:: IN(k, members) && kind[k] == leave_all && !IN(k, reduced) -> right[k] = 0; swept[k] = swept[k] | BIT(at[k])
		:: else
		fi;
		k++
	:: else -> break
	od;
	k = 0
}

/* The connection answers member i, of whose operations the server may have refused o; and what
   its caller makes of that. */
inline tell(i, what, o) {
	own_answer = what != refusal || refused == i && rop == o;
	assert(own_answer);
	told_true = (what != whole || WHOLE(i)) && (what != part || LEFT(i) && !MADE(i) && !SWEPT(i)) &&
		(what != refusal && what != neighbor && what != unsent || NOT_AT_ALL(i));
	assert(told_true);
	printf("%d: is told: %e\n", i, what);
	dropped[i] = what == unsent;
	right[i] = right[i] || what == neighbor || what == refusal && kind[i] == join;   /* reads the parent */
	if
	:: what == whole || what == part || what == refusal && kind[i] != join && !(kind[i] == exchange && tried[i]) -> mode[i] = over
	:: what == refusal && kind[i] == exchange && tried[i] || what == doubt && kind[i] == join -> mode[i] = finding
	:: what == refusal && kind[i] == join || what == neighbor || what == unsent -> mode[i] = ready
	:: what == doubt && kind[i] != join -> attempt[i]++; mode[i] = ready
	fi;
	tried[i] = tried[i] || what == doubt
}

inline out(i, f) {
	who[f] = who[f] & ~BIT(i); guess = guess & ~BIT(i); cut = cut & ~BIT(i)
}

#ifdef INDEX_OF_GROUP   /* the index of the operation in the transaction, not in the member */
#define OPS(i)          (1 + (TWO(i) && !IN(i, cut)))
#define OP(f)           (rop + (refused > 0 && IN(0, who[f]) -> OPS(0) : 0) + (refused > 1 && IN(1, who[f]) -> OPS(1) : 0))
#else
#define OP(f)           rop
#endif

/* The server has refused an operation of one member of group f: whom does it concern? */
inline regroup(f) {
	wrong = IN(refused, guess);
	top = OP(f);
	k = 0;
	do
	:: k < N && IN(k, who[f]) ->
		if
#ifdef REFUSED_STAYS
		:: k == refused && !SURE(k)
		:: k == refused && SURE(k) && top == 0 -> tell(k, refusal, top); out(k, f)
#else
		:: k == refused && (!SURE(k) || top == 0) -> tell(k, refusal, top); out(k, f)
#endif
		:: k == refused && SURE(k) && top > 0 ->
			printf("%d: is reduced\n", k);
			cut = cut | BIT(k); guess = guess & ~BIT(k)
		:: k != refused && wrong && IN(k, guess) && SURE(k) ->
			printf("%d: is reduced, for a neighbor\n", k);
			cut = cut | BIT(k); guess = guess & ~BIT(k)
		:: k != refused && wrong && IN(k, guess) && !SURE(k) -> tell(k, neighbor, 0); out(k, f)
		:: k != refused && !(wrong && IN(k, guess)) ->
#ifdef REFUSES_ALL
			tell(k, refusal, top); out(k, f)
#elif defined(BEFORE_IS_APPLIED)
			if
			:: k < refused -> tell(k, whole, 0); out(k, f)
			:: else
			fi
#elif defined(FORGOTTEN)
			out(k, f)
#else
			skip
#endif
		fi;
		k++
	:: k < N && !IN(k, who[f]) -> k++
	:: k >= N -> break
	od;
	/* After a second refusal each goes alone. */
	k = 0;
	wrong = 0;
	do
	:: k < N && again[f] && IN(k, who[f]) && wrong ->
		f2 = 0;
		do
		:: f2 < FLIGHTS && who[f2] != 0 -> f2++
		:: else -> break
		od;
		who[f] = who[f] & ~BIT(k);
		who[f2] = BIT(k);
		k++
	:: k < N && again[f] && IN(k, who[f]) && !wrong -> wrong = 1; k++
	:: k < N && !(again[f] && IN(k, who[f])) -> k++
	:: k >= N -> break
	od;
	again[f] = !again[f] && who[f] != 0
}

/* The connection answers all members of group f. */
inline tell_all(f, what) {
	k = 0;
	do
	:: k < N && IN(k, who[f]) -> tell(k, what, 0); out(k, f); k++
	:: k < N && !IN(k, who[f]) -> k++
	:: k >= N -> break
	od;
	again[f] = 0
}

proctype Caller(byte i) {
end:	do
	:: d_step { mode[i] == ready ->
		printf("%d: submits: %e, attempt %d\n", i, kind[i], attempt[i]);
		waits = waits | BIT(i);
		guess = (kind[i] == leave_all -> guess | BIT(i) : guess);
		cut = (kind[i] == exchange && tried[i] -> cut | BIT(i) : cut); /* after a doubt it leaves by itself */
		dropped[i] = 0;
		mode[i] = asked }
	:: d_step { mode[i] == ready && (kind[i] == join || kind[i] == exchange && !tried[i]) ->
		printf("%d: submits, as a guess: %e, attempt %d\n", i, kind[i], attempt[i]);
		waits = waits | BIT(i); guess = guess | BIT(i);
		dropped[i] = 0;
		mode[i] = asked }
	:: d_step { mode[i] == ready && kind[i] == join && dropped[i] ->
		printf("%d: gives up\n", i);
		mode[i] = over }

	/* Look for the entries of attempts in doubt. */
	:: d_step { mode[i] == finding ->
		if
		:: kind[i] == join && MADE(i) || kind[i] == exchange && made[i] != 0 -> printf("%d: finds its entry\n", i); mode[i] = over
		:: kind[i] == join && !MADE(i) -> printf("%d: finds no entry\n", i); attempt[i]++; mode[i] = ready
		:: kind[i] == exchange && made[i] == 0 -> printf("%d: finds no entry, and has left\n", i); mode[i] = over
		fi }

	/* Its member is not sent, or not sent again. */
	:: d_step { drops > 0 && mode[i] == asked && IN(i, waits) ->
		drops--;
		tell(i, unsent, 0);
#ifndef UNSENT_STAYS
		waits = waits & ~BIT(i); guess = guess & ~BIT(i)
#endif
		}
	:: d_step { drops > 0 && mode[i] == asked && !IN(i, waits) ->
		drops--;
		f2 = (IN(i, who[0]) -> 0 : (IN(i, who[1]) -> 1 : 2));
		tell(i, unsent, 0);
		out(i, f2);
		again[f2] = again[f2] && who[f2] != 0;
		CLEAN }

	/* What other clients do. */
	:: d_step { changes > 0 && right[i] && mode[i] != over ->
		printf("%d: its belief about the parent is wrong from now on\n", i);
		changes--;
		right[i] = 0 }
	:: d_step { changes > 0 && old[i] && mode[i] != over ->
		printf("%d: its entry is purged\n", i);
		changes--;
		old[i] = 0 }
	od
}

#define OPENS(m)        who[f] == 0 && (waits & (m)) == (m) && (f == 0 || who[0] != 0) && (f <= 1 || who[1] != 0)
#define GROUP(m)        printf("group %d: members %d\n", f, m); waits = waits & ~(m); who[f] = m

proctype Flight(byte f) {
end:	do
	:: d_step { OPENS(1) -> GROUP(1) }
	:: d_step { OPENS(2) -> GROUP(2) }
	:: d_step { OPENS(3) -> GROUP(3) }
#if N > 2
	:: d_step { OPENS(4) -> GROUP(4) }
	:: d_step { OPENS(5) -> GROUP(5) }
	:: d_step { OPENS(6) -> GROUP(6) }
	:: d_step { OPENS(7) -> GROUP(7) }
#endif
	:: d_step { who[f] != 0 ->
		do
		:: k < N -> told_true = told_true && (mode[k] == asked || !IN(k, who[f])); at[k] = attempt[k]; k++
		:: else -> break
		od;
		assert(told_true);      /* no member is sent that was answered */
		perform(who[f], cut);
		printf("group %d: is sent; refused: %d, operation %d\n", f, refused, rop);
		if
		:: refused == NONE ->
			do
			:: k < N && IN(k, who[f]) ->
				if
#ifndef REDUCED_IS_WHOLE
				:: IN(k, cut) -> tell(k, part, 0)
#endif
				:: else -> tell(k, whole, 0)
				fi;
				out(k, f);
				k++
			:: k < N && !IN(k, who[f]) -> k++
			:: k >= N -> break
			od;
			again[f] = 0
		:: else -> regroup(f)
		fi;
		CLEAN }
#if LOSSES > 0
	:: d_step { who[f] != 0 && slots < LOSSES ->
		printf("group %d: is sent, the reply is lost\n", f);
		swho[slots] = who[f]; scut[slots] = cut & who[f];
		do
		:: k < N -> satt[slots * N + k] = (IN(k, who[f]) -> attempt[k] : 0); k++
		:: else -> break
		od;
		slots++;
#ifdef LOST_IS_UNSENT
		tell_all(f, unsent);
#elif !defined(SENT_AGAIN)
		tell_all(f, doubt);
#endif
		CLEAN }
#endif
	od
}

#if LOSSES > 0
inline clear(j) {
	swho[j] = 0; scut[j] = 0;
	k = 0;
	do
	:: k < N -> satt[j * N + k] = 0; k++
	:: else -> break
	od
}

/* What the ensemble does with a transaction whose reply was lost. */
proctype Late(byte j) {
end:	do
	:: d_step { swho[j] != 0 ->
		do
		:: k < N -> at[k] = satt[j * N + k]; k++
		:: else -> break
		od;
		perform(swho[j], scut[j]);
		printf("a transaction is applied whose reply is lost; refused: %d, operation %d\n", refused, rop);
		clear(j);
		CLEAN }
	:: d_step { swho[j] != 0 ->
		printf("a transaction whose reply is lost never arrives\n");
		clear(j);
		CLEAN }
	od
}
#endif

/* When nothing can happen any more, each caller was answered, and what it was told is true: who
   joins has an entry, unless it has given up, and who leaves has none. */
proctype Watch() {
	timeout;
	d_step {
	k = 0;
	do
	:: k < N ->
		served = served && mode[k] == over;
		told_true = told_true && (kind[k] == join -> dropped[k] || MADE(k) : !old[k]);
		k++
	:: else -> break
	od;
	assert(served);
	assert(told_true) }
}

#ifdef PROGRESS
#define OVER            (mode[0] == over && mode[1] == over && mode[N - 1] == over)
ltl all_served { <> OVER }
#endif

init {
	atomic {
		k = 0;
		do
		:: k < N ->
			mode[k] = ready; right[k] = 1;
			if
			:: kind[k] = join
			:: kind[k] = leave; old[k] = 1
			:: kind[k] = leave_all; old[k] = 1
			:: kind[k] = exchange; old[k] = 1
			fi;
			run Caller(k);
			k++
		:: else -> break
		od;
		k = 0;
		do
		:: k < FLIGHTS -> run Flight(k); k++
		:: else -> break
		od;
		k = 0;
#if LOSSES > 0
		do
		:: k < LOSSES -> run Late(k); k++
		:: else -> break
		od;
		k = 0;
#endif
		run Watch()
	}
}
