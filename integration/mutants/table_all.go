package main

// allMutants break what is particular to several locks that are taken together.
var allMutants = []mutant{
	{
		name:   "all-one-by-one",
		breaks: "several locks are taken one after the other, in any order",
		edits: []edit{{"lock/internal/queue/all.go",
			"	return q.takeAll(ctx, rs, false)\n",
			"	var es []*Entry\n	if q.Random.IntN(2) == 0 {\n		rs = append([]Request(nil), rs...)\n		for i, j := 0, len(rs)-1; i < j; i, j = i+1, j-1 {\n			rs[i], rs[j] = rs[j], rs[i]\n		}\n	}\n" +
				"	for i := range rs {\n		one, at, err := q.takeAll(ctx, rs[i:i+1], false)\n" +
				"		if err != nil {\n			for _, e := range es {\n				e.Withdraw()\n				q.Remove(e)\n			}\n			return nil, at, err\n		}\n" +
				"		es = append(es, one...)\n	}\n	return es, -1, nil\n"}},
		tests: []string{"lock.TestFreeLocksAreOneTransactionEachWay"},
	}, {
		name:   "all-one-anew",
		breaks: "if one of several entries is gone, that one alone is made anew",
		edits: []edit{{"lock/internal/queue/all.go",
			"		if a.withdrawAll(es); !errors.Is(err, lease.ErrGone) {\n			return nil, err\n		}\n		a.requeued",
			"		for errors.Is(err, lease.ErrGone) {\n			at := a.at\n			a.each[at].withdraw(es[at])\n			a.requeued.Add(1)\n" +
				"			if es[at], ps[at], err = a.each[at].join(ctx); err == nil {\n				err = a.enter(ctx, es, ps)\n			}\n		}\n" +
				"		if err == nil {\n			return es, nil\n		}\n" +
				"		a.withdrawAll(es)\n		if !errors.Is(err, lease.ErrGone) {\n			return nil, err\n		}\n		a.requeued"}},
		tests: []string{"lock.TestOneOfAllGoneWhileItWaits"},
	}, {
		name:   "all-one-belief",
		breaks: "of several parents that were made anew one is read at a time",
		edits: []edit{{"lock/internal/queue/all.go",
			"			if !first {\n",
			"			if !first && i < 0 {\n"}},
		tests: []string{"lock.TestAllOfManyKeptParents"},
	}, {
		name:   "all-but-one-withdrawn",
		breaks: "a call that gives up waiting for several locks leaves one of its entries",
		edits: []edit{{"lock/internal/queue/all.go",
			"		if e != nil {\n",
			"		if e != nil && i > 0 {\n"}},
		tests: []string{"lock.TestAllOrNone"},
	}, {
		name:   "all-not-renewed",
		breaks: "an entry whose turn has come is not renewed while it waits for the others",
		edits: []edit{{"lock/internal/queue/all.go",
			"			es[i].Begin(a.each[i].Values) // it is renewed while it waits for the others\n",
			"			_ = i\n"}},
		tests: []string{"lock.TestAllOrNone"},
	}, {
		name:   "all-told-early",
		breaks: "an entry tells a grant though other locks have yet to be waited for",
		edits: []edit{{"lock/internal/queue/all.go",
			"		alone = alone && known[i].state == absent\n",
			"		alone = alone && (i > 0 || known[i].state == absent)\n"}},
		tests: []string{"lock.TestAllOrNone"},
	}, {
		name:   "all-gone-unnoticed",
		breaks: "that an entry is gone whose turn had come is not noticed before the turn of the others",
		edits: []edit{{"lock/internal/queue/all.go",
			"			return outlast(ctx, es[i], allIn)\n",
			"			return nil\n"}},
		tests: []string{"lock.TestOneOfAllGoneWhileItWaits"},
	}, {
		name:   "all-one-over",
		breaks: "several locks are granted though the leases of all but the first may be over",
		edits: []edit{{"lock/internal/queue/all.go",
			"e.Fresh(session)); next != enter {",
			"e.Fresh(session)); next != enter && i == 0 {"}},
		tests: []string{"lock.TestStaleLeaseOfOneOfAll"},
	}, {
		name:   "all-over",
		breaks: "several locks are granted though their entries may have been purged",
		edits: []edit{{"lock/internal/queue/all.go",
			"admit(ps[i], e.Fresh(session))",
			"admit(ps[i], e.Fresh(session) || true)"}},
		tests: []string{"lock.TestAllJoinedTooLongAgo"},
	}, {
		name:   "all-doubt-forgotten",
		breaks: "the entries of several locks in doubt are neither deleted nor remembered, but one",
		edits: []edit{
			{"lock/internal/queue/all.go",
				"				c.orphans.add(znode.FormatID(d.attempt), c.Clock.Mono())\n",
				"				_ = znode.FormatID(d.attempt)\n"},
			{"lock/internal/queue/all.go",
				"				if es[j] == nil && j != i {\n",
				"				if es[j] == nil && j < 0 {\n"},
		},
		tests: []string{"lock.TestLockOfAllInDoubt"},
	}, {
		name:   "all-tried-beside-kept",
		breaks: "a try of several locks fails at what its own client keeps",
		edits: []edit{{"lock/internal/queue/all.go",
			"		a.dropKept(c.lock)\n",
			"		_ = c\n"}},
		tests: []string{"lock.TestTryLockOfWhatIsKept"},
	}, {
		name:   "all-wait-for-the-counter",
		breaks: "a call for several locks waits for the end of one counter with an entry at the others",
		edits: []edit{{"lock/internal/queue/all.go",
			"			a.at, es[i] = i, nil\n			a.withdrawAll(es)\n",
			"			a.at, es[i] = i, nil\n"}},
		tests: []string{"lock.TestCounterOfOneOfAllNearItsEnd"},
	},
}
