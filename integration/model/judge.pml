/*
 * Judging across leaders: a holder, whose entry says by which leader it was written,
 * and a judge that wants to know whether the entry has expired, while leaders come
 * and go whose clocks are anything apart. holdfast.pml has the rest of the protocol.
 * README.md maps the steps to the code; checks.go lists what is checked,
 * and main.go runs it.
 */

/* What may go wrong; 1 or 0. */
#ifndef DEATH
#define DEATH 1         /* the holder dies */
#endif
#ifndef STEPS
#define STEPS 1         /* once the clock of a leader is set to anything while it leads */
#endif

/* Times, in ticks, as in holdfast.pml. */
#define TTL     2
#define GRACE   1
#define DISP    1       /* by how much a leader's clock is displaced at most without being set */
#define RENEW   1
#define MAY_EXPIRE      (TTL + GRACE - DISP)
#define MUST_EXPIRE     (TTL + GRACE)

mtype:wire = { quiet, renew, renewed };

/* The ensemble. Epochs are counted from the earliest that any process knows of. */
byte epoch;
bit  set;               /* its clock has been set */
bit  elected;           /* in this tick */
bit  there = 1;         /* the holder's entry: */
byte recEpoch;          /* ... the epoch of its record, */
bit  recSet;            /* ... whether its stamp is from after the clock was set, */
byte age;               /* ... and for how long it has been there */
bit  marked;            /* the marked node: */
byte markEpoch;
bit  markSet;
byte markAge;

/* The holder. */
bit  dead;
byte left;              /* what is left of its lease, in true time */
byte fresh;             /* ... once the request on its way is acknowledged */
mtype:wire wire = quiet;

/* The judge. */
bit  entered;
bit  known;             /* it has read the record that is there, */
byte observed;          /* ... this long ago by its own clock */
bit  sampled;           /* it has a sample of the leader's clock: */
byte smpEpoch;
bit  smpSet;
bit  newer;             /* ... which is newer than the record */
byte first;             /* how long ago the earliest stamp of that epoch is from that it knows of */
bit  term;              /* it has seen that the clock was set in that epoch, */
bit  below;             /* ... the record is from before the sample that showed it */
bit  wild;              /* the earliest stamp cannot be compared with the sample */

/* The property, as the assertion names it: true for as long as it holds. */
bit mutual_exclusion = 1;

#define VALID           (!dead && there && left > 0)
#define COMPARABLE      (recEpoch == smpEpoch && recSet == smpSet)

/* The three proofs that the record has expired. What is found by comparing stamps of
   different clocks can be anything. */
#ifdef STALE_SAMPLE
#define NEWER           true
#else
#define NEWER           newer
#endif
#ifdef ACROSS
#define SAME(limit)     (sampled && NEWER && (!COMPARABLE || age >= limit))
#else
#define SAME(limit)     (sampled && NEWER && recEpoch == smpEpoch && !below && (!COMPARABLE || age >= limit))
#endif
#ifdef ANY_OTHER
#define EARLIER(limit)  (sampled && (recEpoch != smpEpoch || below) && (wild || first >= limit))
#else
#define EARLIER(limit)  (sampled && (recEpoch < smpEpoch || below) && (wild || first >= limit))
#endif
#ifdef NO_OBSERVATION
#define OBSERVED(limit) false
#else
#define OBSERVED(limit) (observed >= limit)
#endif
#define EXPIRED(limit)  (SAME(limit) || EARLIER(limit) || OBSERVED(limit))

#ifdef STEP_UNSEEN
#define MAY_SET         true
#else
#define MAY_SET         (sampled && smpEpoch == epoch)
#endif

inline lease(l) {
	if
	:: l = TTL
	:: l = TTL - 1
	fi
}

/* Epochs that no process remembers are not counted. */
inline recount(e) {
	e = 0;
	do
	:: e < epoch ->
		if
		:: recEpoch == e || sampled && smpEpoch == e || marked && markEpoch == e -> e++
		:: else ->
			epoch--;
			recEpoch = (recEpoch > e -> recEpoch - 1 : recEpoch);
			smpEpoch = (smpEpoch > e -> smpEpoch - 1 : smpEpoch);
			markEpoch = (markEpoch > e -> markEpoch - 1 : markEpoch)
		fi
	:: else -> break
	od;
	e = 0
}

proctype Holder() {
end:	do
	:: atomic { !dead && wire == quiet && left > 0 && left <= RENEW ->
		printf("holder: renews\n");
		wire = renew;
		lease(fresh) }
	:: atomic { !dead && wire == renewed ->
		printf("holder: has renewed\n");
		left = fresh; fresh = 0;
		wire = quiet }
	:: atomic { DEATH && !dead ->
		printf("holder: dies\n");
		dead = 1; left = 0; fresh = 0;
		wire = (wire == renewed -> quiet : wire) }
	od
}

proctype Judge() {
end:	do
	:: atomic { there && !known ->
		printf("judge: reads the record\n");
#ifndef ANY_VERSION
		observed = 0;
#endif
		known = 1 }
	:: atomic { there && !(sampled && smpEpoch == epoch && smpSet == set && newer) ->
		d_step {
		printf("judge: samples the leader's clock\n");
		if
		:: !sampled || smpEpoch != epoch ->
#ifdef KEEP_FIRST
			first = (sampled -> first : 0);
#else
			first = 0;
#endif
			term = 0; below = 0; wild = 0
		:: sampled && smpEpoch == epoch && smpSet != set ->
#ifdef NO_TERMS
			wild = 1
#else
			printf("judge: sees that the clock was set\n");
			first = 0;
			term = 1; below = 1
#endif
		:: else
		fi;
		sampled = 1; smpEpoch = epoch; smpSet = set;
		newer = 1 } }
#ifdef ANY_MARK
	:: atomic { there && sampled && marked && markEpoch == smpEpoch && markAge > first ->
#else
	:: atomic { there && sampled && marked && markEpoch == smpEpoch && markAge > first && !term ->
#endif
		printf("judge: reads the mark\n");
		first = markAge;
		wild = wild || markSet != smpSet }
	:: atomic { there && known && EXPIRED(MAY_EXPIRE) ->
		printf("judge: judges the entry expired, purges it, and enters\n");
		mutual_exclusion = !VALID;
		assert(mutual_exclusion);
		there = 0; entered = 1 }
	od
}

proctype Ensemble() {
	byte e;
end:	do
	:: d_step { wire == renew && there ->
		recEpoch = epoch; recSet = set;
		age = 0;
		known = 0; newer = 0; below = 0;
		wire = (dead -> quiet : renewed);
		printf("the entry is renewed\n");
		recount(e) }
	:: d_step { wire == renew && !there -> wire = quiet }
	:: d_step { there && !(marked && markEpoch == epoch) ->
		printf("a client writes the mark\n");
		marked = 1; markEpoch = epoch; markSet = set; markAge = 0;
		recount(e) }
	:: d_step { there && !elected ->
		printf("another leader is elected\n");
		elected = 1;
		epoch++;
		recount(e) }
	:: d_step { there && STEPS && !set && MAY_SET ->
		printf("the leader's clock is set\n");
		set = 1 }
	od
}

/* Progress is asked for as if no process paused: time goes on when the judge has nothing
   to do. */
#ifdef PROGRESS
#define BUSY            (wire != quiet || there && (!known || EXPIRED(MUST_EXPIRE)))
#else
#define BUSY            false
#endif

#define OLDER(a)        a = (a < MUST_EXPIRE -> a + 1 : a)

proctype Clock() {
end:	do
	:: d_step { there && !BUSY ->
		OLDER(age);
		OLDER(markAge);
		observed = (known && observed < MUST_EXPIRE -> observed + 1 : observed);
		first = (sampled && first < MUST_EXPIRE -> first + 1 : first);
		left = (left > 0 -> left - 1 : 0);
		fresh = (fresh > 0 -> fresh - 1 : 0);
		elected = 0;
		printf("tick\n") }
	od
}

#ifdef PROGRESS
ltl served { [] (dead -> <> entered) }
#endif

init {
	atomic {
		left = TTL;
		run Holder();
		run Judge();
		run Ensemble();
		run Clock()
	}
}
