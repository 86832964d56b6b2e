package main

// leaveMutants break the way out of the queue.
var leaveMutants = []mutant{
	{
		name:   "told-to-ours",
		breaks: "who tells its release leaves the parent to one of its own client, who may have left by then",
		edits: []edit{{"lock/internal/queue/parent.go",
			"return children > 0 && asked.below <= 1 && d.count().moves == asked.moves+1",
			"return children > 0"}},
		tests: []string{"lock/internal/queue.TestStrangersAmong"},
	}, {
		name:   "release-by-sequence",
		breaks: "unlock deletes the entry that has its sequence number, whosever it is",
		edits: []edit{{"lock/internal/queue/leave.go",
			"	ops := append(make([]any, 0, 2), &zk.DeleteRequest{Path: l.e.Path, Version: l.version})\n",
			"	path, version := l.e.Path, l.version\n" +
				"	if children, _, err := l.Conn.Children(ctx, l.e.parent()); err == nil {\n" +
				"		for _, n := range znode.Contenders(children) {\n" +
				"			if n.Seq == l.e.Name().Seq {\n" +
				"				path, version = l.e.parent()+\"/\"+n.Node, -1\n" +
				"			}\n		}\n	}\n" +
				"	ops := []any{&zk.DeleteRequest{Path: path, Version: version}}\n"}},
		tests: []string{"lock.TestLateDeleteHitsNoStranger"},
	}, {
		name:   "gone-is-fine",
		breaks: "unlock reports success when the entry had been gone before",
		edits: []edit{{"lock/internal/queue/leave.go",
			"		return zkconn.Final(lease.ErrRemoved)\n",
			"		return nil\n"}},
		tests: []string{"lock.TestUnlockOfWhatIsGone"},
	}, {
		name:   "lapsed-is-fine",
		breaks: "unlock reports success when the lease may have run out before it",
		edits: []edit{{"lock/internal/queue/leave.go",
			"&& !l.e.Lapsed() && (",
			"&& ("}},
		tests: []string{"lock.TestUnlockAfterSuspend"},
	}, {
		name:   "taken-deleted",
		breaks: "unlock deletes its node even if somebody else wrote it",
		edits: []edit{{"lock/internal/queue/leave.go",
			"; !errors.Is(why, lease.ErrBroken) {",
			"; why == nil {"}},
		tests: []string{"lock.TestUnlockOfWhatIsGone"},
	}, {
		name:   "double-delete-no-version",
		breaks: "who unlocks alone deletes the parent with its entry, whatever was written there",
		edits: []edit{{"lock/internal/queue/leave.go",
			"&zk.DeleteRequest{Path: l.e.parent(), Version: l.e.parentVersion}",
			"&zk.DeleteRequest{Path: l.e.parent(), Version: -1}"}},
		tests: []string{"lock.TestParentThatSomebodyWrote"},
	}, {
		name:   "unlock-gives-up",
		breaks: "an unlock whose reply was lost is not tried again",
		edits: []edit{{"lock/internal/queue/leave.go",
			"	case zkconn.OutcomeOf(err) == zkconn.Ambiguous:\n		l.tried = true\n",
			"	case zkconn.OutcomeOf(err) == zkconn.Ambiguous:\n		return nil\n"}},
		tests: []string{"lock.TestAmbiguousUnlock"},
	}, {
		name:   "missing-proves",
		breaks: "an entry that is found missing as it is deleted proves that its parent was there until then",
		edits: []edit{{"lock/internal/queue/leave.go",
			"	if !l.missing {\n		until = l.asked ",
			"	if true {\n		until = now "}},
		tests: []string{"lock/internal/queue.TestMissingEntryProvesNothing"},
	}, {
		name:   "discard-no-version",
		breaks: "entries that are deleted together go whatever was written there",
		edits: []edit{{"lock/internal/queue/discard.go",
			"&zk.DeleteRequest{Path: l.e.Path, Version: l.version}",
			"&zk.DeleteRequest{Path: l.e.Path, Version: -1}"}},
		tests: []string{"lock/internal/queue.TestDepartureOfABadMember"},
	}, {
		name:   "discard-parent-no-version",
		breaks: "with entries that are deleted together go their parents, whatever was written there",
		edits: []edit{{"lock/internal/queue/discard.go",
			"&zk.DeleteRequest{Path: l.e.parent(), Version: l.e.parentVersion}",
			"&zk.DeleteRequest{Path: l.e.parent(), Version: -1}"}},
		tests: []string{"lock.TestCloseLeavesAParentThatSomebodyWrote"},
	}, {
		name:   "discard-one-by-one",
		breaks: "a client that closes deletes its entries one by one",
		edits: []edit{{"lock/internal/queue/discard.go",
			"			batch = q.departTogether(batch)\n",
			""}},
		tests: []string{"lock.TestCloseOfManyHolds"},
	}, {
		name:   "discard-spoilt",
		breaks: "an entry that cannot be deleted keeps those from being deleted that share its transaction",
		edits: []edit{{"lock/internal/queue/discard.go",
			"			apart = append(apart, all[whose[op]])\n			all = slices.Delete(all, whose[op], whose[op]+1)\n",
			"			for _, l := range all {\n				q.closeDoor(l.door)\n				q.Tasks.Leave()\n			}\n			return slices.Delete(all, 0, len(all)), nil\n"}},
		tests: []string{"lock/internal/queue.TestDepartureOfABadMember"},
	},
}

// cleanupMutants break the duty to delete a lock's parent, or overdo it.
var cleanupMutants = []mutant{
	{
		name:   "parent-with-children",
		breaks: "the last one out deletes the parent with whatever is below it",
		edits: []edit{{"lock/internal/queue/parent.go",
			"	if !node.Removable(spent) || keep && !spent {\n		return n.Stat.NumChildren > 0, nil\n	}\n",
			"	if node.Stat.NumChildren = 0; !node.Removable(spent) || keep && !spent {\n		return n.Stat.NumChildren > 0, nil\n	}\n" +
				"	if children, _, err := q.Conn.Children(ctx, parent); err == nil {\n" +
				"		for _, child := range children {\n" +
				"			_, _ = q.Conn.Multi(ctx, nil, &zk.DeleteRequest{Path: parent + \"/\" + child, Version: -1})\n" +
				"		}\n	}\n"}},
		tests: []string{"lock.TestUnlockWithSomebodyQueued"},
	}, {
		name:   "parent-no-version",
		breaks: "the last one out deletes a parent that somebody wrote since it was looked at",
		edits: []edit{{"lock/internal/queue/parent.go",
			"&zk.DeleteRequest{Path: parent, Version: n.Stat.Version}",
			"&zk.DeleteRequest{Path: parent, Version: -1}"}},
		tests: []string{"lock.TestSomebodyJoinsAsTheParentIsDeleted"},
	}, {
		name:   "parent-left",
		breaks: "the last one out leaves the parent",
		edits: []edit{{"lock/internal/queue/parent.go",
			"	if !node.Removable(spent) || keep && !spent {\n",
			"	if !node.Removable(spent) || keep && !spent || n.Stat.NumChildren == 0 {\n"}},
		tests: []string{"lock.TestFirstComeFirstServed"},
	}, {
		name:   "adopted-deleted",
		breaks: "the last one out deletes a parent that was not made by us",
		edits: []edit{{"lock/znode/judge.go",
			"(!n.Adopted || spent)",
			"(!n.Adopted || spent || n.Ours())"}},
		tests: []string{"lock/znode.TestRemovable"},
	}, {
		name:   "never-last",
		breaks: "nobody ever is the last one out, and the parent is left",
		edits: []edit{{"lock/internal/queue/parent.go",
			"		d.parent.stale = d.parent.stale || d.below == 0 && !stays\n	}\n	return d.below == 0\n",
			"		d.parent.stale = d.parent.stale || d.below == 0 && !stays\n	}\n	return d.below < 0\n"}},
		tests: []string{"lock.TestFirstComeFirstServed"},
	}, {
		name:   "always-last",
		breaks: "whoever leaves is the last one out, whoever of us is there still, and looks after the parent",
		edits: []edit{{"lock/internal/queue/parent.go",
			"		d.parent.stale = d.parent.stale || d.below == 0 && !stays\n	}\n	return d.below == 0\n",
			"		d.parent.stale = d.parent.stale || d.below == 0 && !stays\n	}\n	return d.below >= 0\n"}},
		tests: []string{"lock/internal/queue.TestExit"},
	}, {
		name:   "lingers-once",
		breaks: "a parent that was left because its client would be back is looked after once, and not the next time",
		edits: []edit{{"lock/internal/queue/leave.go",
			"func (p *parentCleanup) stop() { p.running = false }",
			"func (p *parentCleanup) stop() {}"}},
		tests: []string{"lock.TestLockTakenAgainKeepsItsParentForAWhile"},
	}, {
		name:   "parent-forgotten",
		breaks: "nobody looks after a parent that was left because its lock was busy",
		edits: []edit{{"lock/internal/queue/leave.go",
			"		l.lingerOn(l.e, l.door, now)\n",
			""}},
		tests: []string{"lock.TestBusyLockKeepsItsParentForAWhile"},
	}, {
		name:   "proven-after-leaving",
		breaks: "a parent that was left for others to delete counts as proven for a while",
		edits: []edit{{"lock/internal/queue/parent.go",
			"	if !stays {\n		until = 0\n	}\n",
			""}},
		tests: []string{"lock/internal/queue.TestExit"},
	}, {
		name:   "proven-by-a-late-reply",
		breaks: "an entry counts as there until the reply to its delete has come, however late that is",
		edits: []edit{{"lock/internal/queue/leave.go",
			"		until = l.asked // the reply may be late\n",
			"		until = now\n"}},
		tests: []string{"lock.TestParentMadeAgainForSomethingElse"},
	}, {
		name:   "left-untold",
		breaks: "Close does not tell of what it could not delete, if it gave that up before its time was over",
		edits: []edit{{"lock/internal/queue/queue.go",
			"		q.leftBehind.Store(true)\n",
			"		q.leftBehind.Store(false)\n"}},
		tests: []string{"lock.TestCloseTellsWhatItLeaves"},
	}, {
		name:   "forget-nothing",
		breaks: "nobody looks after the parent of an entry that somebody else has removed",
		edits: []edit{{"lock/internal/queue/leave.go",
			"	if last := d.exit(e, 0, false); !last || e.keepParent { // it went",
			"	if last := d.exit(e, 0, false); last || e.keepParent { // it went"}},
		tests: []string{"lock.TestParentOfAnEntryThatIsGone"},
	}, {
		name:   "strangers-before-exit",
		breaks: "who tells its release asks who is there before it is counted no more: one of ours that leaves meanwhile is taken for a stranger's",
		edits: []edit{
			{"lock/internal/queue/leave.go",
				"			l.gone(ctx, replies[1].Stat.NumChildren, asked)\n",
				"			children := replies[1].Stat.NumChildren\n" +
					"			if asked.moves--; !l.door.strangersAmong(children, asked) {\n				children = 0\n			}\n" +
					"			l.gone(ctx, children, asked)\n"},
			{"lock/internal/queue/leave.go",
				"	others := l.door.strangersAmong(children, asked)\n",
				"	others := children > 0\n"},
		},
		tests: []string{"lock.TestReleaseBesideOneWhoGaveUp"},
	}, {
		name:   "tidied-in-time-only",
		breaks: "the duty for the parent ends with the time of the unlock, or with a request that was lost",
		edits: []edit{{"lock/internal/queue/leave.go",
			"	if err != nil && zkconn.OutcomeOf(err) != zkconn.Refused {\n",
			"	if err != nil && zkconn.OutcomeOf(err) > zkconn.Ambiguous {\n"}},
		tests: []string{"lock.TestSlowUnlockTidiesUp", "lock.TestParentDeleteIsLost"},
	}, {
		name:   "parent-by-an-old-read",
		breaks: "who leaves believes what a server of a new session shows of the parent",
		edits: []edit{{"lock/internal/queue/parent.go",
			"for err == nil && q.Conn.LastOutage() != outage {",
			"for err == nil && q.Conn.LastOutage() < outage {"}},
		tests: []string{"lock.TestParentIsReadAgainAfterAnOutage"},
	},
}
