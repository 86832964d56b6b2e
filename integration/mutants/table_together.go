package main

// togetherMutants break the way into the queue of those who join in one transaction.
var togetherMutants = []mutant{
	{
		name:   "together-count",
		breaks: "who joins behind another one in its transaction takes that for the holder, though somebody else was there",
		edits: []edit{{"lock/internal/queue/together.go",
			"behind: int32(len(taken) - 1 - i)",
			"behind: int32(len(taken) - i)"}},
		tests: []string{"lock.TestJoinTogetherGivenUp"},
	}, {
		name:   "together-alone",
		breaks: "who takes others along counts itself among them, and enters beside the holder",
		edits: []edit{{"lock/internal/queue/join.go",
			"stat.NumChildren-d.behind\n",
			"stat.NumChildren-d.behind-1\n"}},
		tests: []string{"lock.TestJoinTogether"},
	}, {
		name:   "together-left-behind",
		breaks: "who gives up while its entry is made in another one's transaction leaves that behind",
		edits: []edit{{"lock/internal/queue/together.go",
			"			c.background(func() { c.cleanUpAbandoned(p.draft, replies, err) })\n",
			""}},
		tests: []string{"lock.TestJoinTogetherGivenUp"},
	}, {
		name:   "together-for-nobody",
		breaks: "an entry that was made in another one's transaction is given to one who has given up",
		edits: []edit{{"lock/internal/queue/gate.go",
			"	t.made = !t.left\n",
			"	t.made = true\n"}},
		tests: []string{"lock.TestJoinTogetherGivenUp"},
	}, {
		name:   "together-in-doubt",
		breaks: "those who were taken along join once more if the transaction's reply was lost, without a look for what it made",
		edits: []edit{{"lock/internal/queue/together.go",
			"	case zkconn.Applied, zkconn.Ambiguous:\n",
			"	case zkconn.Applied:\n"}},
		tests: []string{"lock.TestJoinTogetherAmbiguous"},
	}, {
		name:   "together-waits-for-ever",
		breaks: "those whose transaction was refused wait for a turn that nobody gives them, if who made it has given up",
		edits: []edit{{"lock/internal/queue/gate.go",
			"	if !d.joining {\n		d.nextJoins()\n		d.joining = d.toJoin != nil\n	}\n",
			""}},
		tests: []string{"lock.TestJoinTogetherRefused"},
	}, {
		name:   "together-tail",
		breaks: "the parent tells the first of those who join together, so that all behind them have to list",
		edits: []edit{{"lock/internal/queue/together.go",
			"		d.data.Tail = prefix\n",
			""}},
		tests: []string{"lock.TestTheTailOfThoseWhoJoinTogether"},
	},
}
