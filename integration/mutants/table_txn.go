package main

// txnMutants break what is promised of transactions that only the holder can make.
var txnMutants = []mutant{
	{
		name:   "txn-of-nobody",
		breaks: "a transaction does not mind that another client has written the entry",
		edits: []edit{
			{"lock/internal/lease/txn.go", "Data: w.data, Version: version})", "Data: w.data, Version: -1})"},
			{"lock/internal/lease/txn.go", "Data: w.data, Version: version + raisedByTxn - 1})", "Data: w.data, Version: -1})"},
		},
		tests: []string{"lock.TestTxnFindsTheEntryGone"},
	}, {
		name:   "txn-jumps-the-queue",
		breaks: "a transaction does not wait for a renewal that is on its way or of unknown outcome",
		edits: []edit{{"lock/internal/lease/txn.go",
			"			case e.writing == nil:\n				w, version",
			"			case e != nil:\n				w, version"}},
		tests: []string{"lock.TestTxnDuringRenewal"},
	}, {
		name:   "txn-sent-again",
		breaks: "a transaction whose reply was lost, and that was applied, is sent again",
		edits: []edit{{"lock/internal/lease/txn.go",
			"		case applied:\n			return nil\n",
			"		case applied:\n			return zkconn.ErrAgain\n"}},
		tests: []string{"lock.TestAmbiguousTxn"},
	}, {
		name:   "txn-taken-for-applied",
		breaks: "a transaction whose reply was lost counts as applied",
		edits: []edit{{"lock/internal/lease/txn.go",
			"applied, why = w.raised == raisedByTxn, nil",
			"applied, why = w.raised != 0, nil"}},
		tests: []string{"lock.TestAmbiguousTxn"},
	}, {
		name:   "txn-taken-for-renewal",
		breaks: "the version of an entry that was read back is not looked at: a write counts as one of one version",
		edits: []edit{{"lock/internal/lease/flush.go",
			"b.acknowledge(b.write, b.first, session, n.Stat.Version, n",
			"b.acknowledge(b.write, b.first, session, ops[0].(*zk.SetDataRequest).Version+1, n"}},
		tests: []string{"lock.TestAmbiguousTxn"},
	}, {
		name:   "txn-unsettled",
		breaks: "a transaction whose reply was lost is made again at once, without finding out whether it was applied",
		edits: []edit{{"lock/internal/lease/txn.go",
			"		applied, why := e.settle(ctx, w)\n",
			"		e.drop(w, e.keeper.clock.Local())\n		applied, why := false, error(nil)\n"}},
		tests: []string{"lock.TestAmbiguousTxn"},
	}, {
		name:   "txn-doubt-untold",
		breaks: "a caller that gives up while its transaction is on its way is not told that it may be applied",
		edits: []edit{{"lock/internal/lease/txn.go",
			"return zkconn.Final(fmt.Errorf(\"%w: %w: %w\", ErrInDoubt, why, err))",
			"return zkconn.Final(fmt.Errorf(\"%w: %w\", why, err))"}},
		tests: []string{"lock.TestTxnInDoubt"},
	}, {
		name:   "txn-starves-renewals",
		breaks: "a transaction that was refused counts as a renewal",
		edits: []edit{{"lock/internal/lease/txn.go",
			"		e.writing = nil\n		e.notify()\n		e.scheduleNext(now)\n",
			"		e.writing = nil\n		e.notify()\n		e.renewAt = now.Mono + w.ttl/3\n		e.scheduleNext(now)\n"}},
		tests: []string{"lock.TestRefusedTxnsDoNotStarveRenewals"},
	}, {
		name:   "txn-prolongs",
		breaks: "a transaction prolongs a lease that is not renewed",
		edits: []edit{{"lock/internal/lease/txn.go",
			"	if e.Fixed && e.writesWanted == e.writesAcked {\n",
			"	if e.Fixed && e.writesWanted < e.writesAcked {\n"}},
		tests: []string{"lock.TestTxnKeepsTheEndOfAFixedLease"},
	}, {
		name:   "txn-on-locks",
		breaks: "a transaction may write the nodes of locks",
		edits: []edit{{"lock/txn.go",
			"case !reads && strings.HasPrefix(",
			"case reads && strings.HasPrefix("}},
		tests: []string{"lock.TestTxnRefusesBadInput"},
	}, {
		name:   "txn-outlives-its-handle",
		breaks: "a handle is taken back while a transaction by it is in doubt, and the entry lives on",
		edits: []edit{{"lock/internal/lease/txn.go",
			"return e.state != Ended && e.handles > 1 })",
			"return e == nil })"}},
		tests: []string{"lock.TestTxnEndsWithItsHandle", "lock.TestTxnThatNeverSettles"},
	}, {
		name:   "txn-by-a-handle-that-was-unlocked",
		breaks: "a transaction is sent again after its handle was taken back",
		edits: []edit{{"lock/internal/lease/txn.go",
			"case unlocked.Load():",
			"case unlocked == nil:"}},
		tests: []string{"lock.TestTxnEndsWithItsHandle"},
	}, {
		name:   "txn-of-a-hold-handed-off",
		breaks: "the entry of a hold that a transaction depends on is handed off",
		edits: []edit{{"lock/txn.go",
			"	other.e.Pin() // it is not handed off\n",
			""}},
		tests: []string{"lock.TestTxnOfTwoHolds"},
	},
}
