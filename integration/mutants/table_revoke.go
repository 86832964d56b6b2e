package main

// revokeMutants break how holders are asked to give up their locks.
var revokeMutants = []mutant{
	{
		name:   "revoke-refused",
		breaks: "a request that the server refuses is made again and again",
		edits: []edit{{"lock/internal/inbox/ask.go",
			" && len(ops) == 3 && (errors.Is(cause, zk.ErrBadVersion) || errors.Is(cause, zk.ErrNoNode)):",
			":"}},
		tests: []string{"lock.TestRevokeThatTheServerRefuses"},
	}, {
		name:   "revoke-waiters",
		breaks: "a waiter is asked to release the lock, too",
		edits:  []edit{{"lock/znode/rules.go", "			return names[:i]\n", "			return names\n"}},
		tests:  []string{"lock/znode.TestHolders", "lock.TestRevokeOfEachKind"},
	}, {
		name:   "revoke-unchecked",
		breaks: "a request is made without a check that the entry is there",
		edits: []edit{{"lock/internal/inbox/ask.go",
			"Path: b.Root + \"/\" + r.Entry, Version: -1}",
			"Path: b.Root, Version: -1}"}},
		tests: []string{"lock.TestRevokeAsTheHoldEnds"},
	}, {
		name:   "revoke-standing",
		breaks: "a request is deleted though the entry that it asks is there",
		edits: []edit{{"lock/internal/inbox/inbox.go",
			"if !moot || conn.Session() == session {\n			return r, moot, nil",
			"if !moot || conn.Session() == session {\n			return r, true, nil"}},
		tests: []string{"lock.TestRevokeLeavesNothing", "reaper.TestMootRequestsAreSwept"},
	}, {
		name:   "revoke-sessions",
		breaks: "that an entry is gone is believed of a session that need not have seen it made",
		edits: []edit{{"lock/internal/inbox/inbox.go",
			"if !moot || conn.Session() == session {",
			"if !moot || conn.Session() == session || moot {"}},
		tests: []string{"lock.TestMootIsNotProvenByTwoSessions"},
	}, {
		name:   "revoke-once",
		breaks: "only the first request to a hold is told",
		edits: []edit{{"lock/internal/inbox/listen.go",
			"	if w.seen == r.Stat.Czxid {\n",
			"	if w.seen != 0 {\n"}},
		tests: []string{"lock.TestRevoke"},
	}, {
		name:   "revoke-quadratic",
		breaks: "whenever a hold begins to listen the requests of all others are read again",
		edits: []edit{{"lock/internal/inbox/listen.go",
			"		case w != nil && (anew || !read):\n",
			"		case w != nil && (anew || !read || read):\n"}},
		tests: []string{"lock.TestListensAreCheap"},
	}, {
		name:   "revoke-straggler",
		breaks: "a request that was made as the hold ended stays until another client sweeps",
		edits: []edit{{"lock/internal/inbox/listen.go",
			"		case stray:\n			b.clearSoon(id)\n",
			"		case stray:\n"}},
		tests: []string{"lock.TestRevokeAsTheHoldEnds"},
	}, {
		name:   "revoke-by-a-lagging-server",
		breaks: "a server that lags behind is asked which clients hold the lock",
		edits: []edit{{"lock/internal/inbox/ask.go",
			"zkconn.Synced(ctx, b.Conn, b.Root+\"/\"+lock, func() ([]znode.Name, error) { return b.holders(ctx, b.Root+\"/\"+lock) })",
			"b.holders(ctx, b.Root+\"/\"+lock)"}},
		tests: []string{"lock.TestRevokeOnALaggingServer"},
	},
}
