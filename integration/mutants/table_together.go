package main

// togetherMutants break the way into the queue of those who join in one transaction.
var togetherMutants = []mutant{
	{
		name:   "together-count",
		breaks: "who joins behind another one in its transaction takes that for the holder, though somebody else was there",
		edits: []edit{{"lock/internal/queue/together.go",
			"t.along.behind = d.ops, d.data, int32(len(taken)-1-i)",
			"t.along.behind = d.ops, d.data, int32(len(taken)-i)"}},
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
			"		c.background(func() { c.cleanUpAbandoned(p.draft, replies, nil) })\n",
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
			"		d.bringFound(taken, err, names)\n",
			"		d.putBack(taken)\n"}},
		tests: []string{"lock.TestJoinTogetherAmbiguous"},
	}, {
		name:   "together-behind-readers",
		breaks: "a writer waits for the reader that it has joined behind, and lists when that has gone, as all like it do",
		edits: []edit{{"lock/internal/queue/join.go",
			"	if c.Kind == znode.RW && !c.Kind.Alone(ahead) {",
			"	if false {"}},
		tests: []string{"lock.TestJoinTogetherBehindReaders"},
	}, {
		name:   "together-too-large",
		breaks: "a transaction is as long as it comes, so that a server cuts the connection of who sends it, again and again",
		edits: []edit{{"lock/internal/queue/together.go",
			"size > bytesTogether {",
			"size < 0 {"}},
		tests: []string{"lock.TestJoinTogetherOfLargeEntries"},
	}, {
		name:   "together-overtaken",
		breaks: "those whose transaction was lost wait behind all who came after them",
		edits: []edit{{"lock/internal/queue/together.go",
			"				missing = append(missing, t)\n				continue\n",
			""}},
		tests: []string{"lock.TestJoinTogetherInOrder"},
	}, {
		name:   "together-waits-for-ever",
		breaks: "who gives up while others are taken along keeps the turn for ever",
		edits: []edit{{"lock/internal/queue/join.go",
			"			c.door.unlock()\n",
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
