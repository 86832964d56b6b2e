package main

// familyMutants break what is particular to the kinds of locks that several may hold.
var familyMutants = []mutant{
	{
		name:   "others-ignored",
		breaks: "who waited for a reader that was granted the lock enters when that goes, though others read still",
		edits: []edit{{"lock/internal/queue/await.go",
			"seen.Granted() && w.Kind.Alone(name)",
			"seen.Granted()"}},
		tests: []string{"lock.TestWriterBehindLastOfManyReaders"},
	}, {
		name:   "second-entry-ignored",
		breaks: "a writer of Curator's that goes is taken to have left, though it may read on by an entry in the same place",
		edits: []edit{{"lock/znode/admit.go",
			"k == RW && n.Ours() && n.Role != Shared",
			"k == RW && n.Role != Shared"}},
		tests: []string{"lock.TestReadWriteLockOfCurator"},
	}, {
		name:   "writer-beside-readers",
		breaks: "who wants to write waits for writers only",
		edits: []edit{{"lock/znode/admit.go",
			"return a != Shared || b != Shared",
			"return a != Shared || b == Exclusive"}},
		tests: []string{"lock.TestReadersShareWritersDoNot", "lock/znode.TestAdmit"},
	}, {
		name:   "later-writer",
		breaks: "a reader waits for a writer who came later and waits for it, which is kazoo#649",
		edits: []edit{{"lock/znode/admit.go",
			"	for i := self - 1; i >= 0; i-- {\n		if ",
			"	for i := len(names) - 1; i >= 0; i-- {\n		if (i < self || i > self && names[self].Role == Shared) && "}},
		tests: []string{"lock.TestReaderDoesNotWaitForALaterWriter", "lock/znode.TestAdmitNeverDeadlocks"},
	}, {
		name:   "upgrade",
		breaks: "the hold of a reader is handed out for writing",
		edits: []edit{{"lock/internal/lease/entry.go",
			"toWrite && (e.shared || e.Name.Role == znode.Shared)",
			"toWrite && e.shared"}},
		tests: []string{"lock.TestReadersAndWritersReenter"},
	}, {
		name:   "upgrade-of-downgraded",
		breaks: "a hold that was downgraded is handed out for writing",
		edits: []edit{{"lock/internal/lease/entry.go",
			"toWrite && (e.shared || e.Name.Role == znode.Shared)",
			"toWrite && e.Name.Role == znode.Shared"}},
		tests: []string{"lock.TestDowngradeLetsReadersIn"},
	}, {
		name:   "downgraded-beside-writer",
		breaks: "a hold is downgraded although another handle on it may write",
		edits: []edit{{"lock/internal/lease/entry.go",
			"e.state != Ended && e.handles > 1",
			"e.state != Ended && e.handles > 2"}},
		tests: []string{"lock.TestWhatCannotBeDowngraded"},
	}, {
		name:   "downgrade-taken-back",
		breaks: "the renewal after a downgrade does not tell of it",
		edits: []edit{{"lock/internal/lease/entry.go",
			"Grant{e.acquired, e.shared, e.ahead}",
			"Grant{e.acquired, false, e.ahead}"}},
		tests: []string{"lock.TestDowngradeLetsReadersIn", "lock.TestDowngradeThatIsNotAcknowledged"},
	}, {
		name:   "writer-shares",
		breaks: "a writer enters beside one that only reads from now on",
		edits: []edit{{"lock/internal/queue/await.go",
			"w.p.shares = w.Role == znode.Shared && seen.Shares()",
			"w.p.shares = seen.Shares()"}},
		tests: []string{"lock.TestWriterBehindADowngradedHold"},
	},
}
