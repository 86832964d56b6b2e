package main

// allMutants break what is particular to several locks that are taken together.
var allMutants = []mutant{
	{
		name:   "all-one-by-one",
		breaks: "who wants several locks joins one queue after the other, in any order",
		edits: []edit{{"lock/internal/queue/all.go",
			"	return q.contendAll(ctx, rs, (*all).acquire)\n",
			"	if q.Random.IntN(2) == 0 {\n		rs = append([]Request(nil), rs...)\n		for i, j := 0, len(rs)-1; i < j; i, j = i+1, j-1 {\n			rs[i], rs[j] = rs[j], rs[i]\n		}\n	}\n" +
				"	for i := range rs {\n		one, at, err := q.contendAll(ctx, rs[i:i+1], (*all).acquire)\n" +
				"		if err != nil {\n			for _, e := range es {\n				e.Withdraw()\n				q.Discard(e)\n			}\n			return nil, at, err\n		}\n" +
				"		es = append(es, one...)\n	}\n	return es, -1, nil\n"}},
		tests: []string{"lock.TestFreeLocksAreOneTransactionEachWay"},
	}, {
		name:   "all-one-anew",
		breaks: "if one of several entries is gone, that one alone is made anew",
		edits: []edit{{"lock/internal/queue/all.go",
			"		a.takeBack(es)\n		if !errors.Is(err, lease.ErrGone) {\n			return nil, err\n		}\n		a.requeued",
			"		for errors.Is(err, lease.ErrGone) {\n			at := a.at\n			a.each[at].takeBack(es[at])\n			a.requeued.Add(1)\n" +
				"			if es[at], ps[at], err = a.each[at].join(ctx); err == nil {\n				err = a.enter(ctx, es, ps)\n			}\n		}\n" +
				"		if err == nil {\n			return es, nil\n		}\n" +
				"		a.takeBack(es)\n		if !errors.Is(err, lease.ErrGone) {\n			return nil, err\n		}\n		a.requeued"}},
		tests: []string{"lock.TestOneOfAllGoneWhileItWaits"},
	}, {
		name:   "all-but-one-withdrawn",
		breaks: "who gives up waiting for several locks leaves one of its entries",
		edits: []edit{{"lock/internal/queue/all.go",
			"		if e != nil {\n",
			"		if e != nil && i > 0 {\n"}},
		tests: []string{"lock.TestAllOrNone"},
	}, {
		name:   "all-not-kept",
		breaks: "an entry whose turn has come is not renewed while it waits for the others",
		edits: []edit{{"lock/internal/queue/all.go",
			"				es[i].Begin(a.each[i].Values) // it is to be kept alive while it waits for the others\n",
			"				_ = i\n"}},
		tests: []string{"lock.TestAllOrNone"},
	}, {
		name:   "all-told-early",
		breaks: "an entry tells a grant though other locks have yet to be waited for",
		edits: []edit{{"lock/internal/queue/all_join.go",
			"		alone = alone && !next.parent.exists\n",
			"		alone = alone && (i > 0 || !next.parent.exists)\n"}},
		tests: []string{"lock.TestAllOrNone"},
	}, {
		name:   "all-gone-unnoticed",
		breaks: "nobody notices that an entry whose turn has come is gone before the others' turn comes",
		edits: []edit{{"lock/internal/queue/all.go",
			"			return outlast(ctx, es[i], allIn)\n",
			"			return nil\n"}},
		tests: []string{"lock.TestOneOfAllGoneWhileItWaits"},
	}, {
		name:   "all-drains-in-its-turn",
		breaks: "who wants several locks and waits until the counter of one starts anew keeps its turn to join meanwhile",
		edits: []edit{{"lock/internal/queue/all.go",
			"	return c.drain(ctx, e)\n",
			"	if err := c.door.lock(ctx); err != nil {\n		return err\n	}\n	defer c.door.unlock()\n	return c.drain(ctx, e)\n"}},
		tests: []string{"lock.TestCounterOfOneOfAllNearItsEnd"},
	}, {
		name:   "all-abandoned",
		breaks: "of what a call for several locks has made that was given up, one entry is left",
		edits: []edit{{"lock/internal/queue/all_join.go",
			"		a.background(func() { a.each[i].cleanUpAbandoned(ds[i], part, err) })\n",
			"		if i > 0 {\n			a.background(func() { a.each[i].cleanUpAbandoned(ds[i], part, err) })\n		}\n"}},
		tests: []string{"lock.TestAbandonedLockOfAll"},
	}, {
		name:   "all-unlock-forgets",
		breaks: "an unlock of several locks whose reply was lost takes entries that are gone for removed by others",
		edits: []edit{{"lock/internal/queue/discard.go",
			"				l.tried = l.tried || zkconn.OutcomeOf(err) == zkconn.Ambiguous\n",
			"				_ = l\n"}},
		tests: []string{"lock.TestAmbiguousUnlockOfAll"},
	}, {
		name:   "all-enter-unfresh",
		breaks: "who is first at all of several locks enters though its entries may be purged by now",
		edits: []edit{{"lock/internal/queue/all.go",
			"decide(ps[i], e.Fresh(session))",
			"decide(ps[i], e.Fresh(session) || true)"}},
		tests: []string{"lock.TestAllJoinedTooLongAgo"},
	},
}
