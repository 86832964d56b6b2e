package main

// holdMutants break the lease: for how long it is trusted, and its renewal.
var holdMutants = []mutant{
	{
		name:   "unlock-unseen",
		breaks: "a hold has ended before Close knows that its entry is yet to be deleted",
		edits: []edit{{"lock/hold.go",
			"		defer c.tasks.Leave()\n	}\n	h.deafen()\n",
			"		c.tasks.Leave()\n	}\n	h.deafen()\n"}},
		tests: []string{"lock.TestUnlockAsTheClientCloses"},
	}, {
		name:   "reply-validity",
		breaks: "a renewed lease counts from the reply, not from the send",
		edits: []edit{{"lock/internal/lease/flush.go",
			"b.acknowledge(b.write, sent, session, replies",
			"b.acknowledge(b.write, received, session, replies"}},
		tests: []string{"lock.TestLeaseCountsFromTheSend"},
	}, {
		name:   "reply-session",
		breaks: "a renewal counts as one of the session in which the reply was read, not of the one in which it was sent",
		edits: []edit{{"lock/internal/lease/flush.go",
			"b.acknowledge(b.write, sent, session, replies",
			"b.acknowledge(b.write, sent, f.conn.Session(), replies"}},
		tests: []string{"lock.TestRenewalCountsForTheSessionItWasSentIn"},
	}, {
		name:   "no-margin",
		breaks: "the lease has no margin for a clock that runs wrong and a timer that is late",
		edits: []edit{{"lock/internal/lease/lease.go",
			"return l.sent.Mono + l.ttl - l.ttl/znode.RateError - time.Millisecond - timerSlack",
			"return l.sent.Mono + l.ttl - l.ttl/znode.RateError*0"}},
		tests: []string{"lock/internal/lease.TestLeaseEndsBeforeOthersMayEnter"},
	}, {
		name:   "told-late",
		breaks: "the context of a lost hold ends two graces after the lease",
		edits: []edit{{"lock/internal/lease/entry.go",
			"			e.cancel(why)\n		}\n		for _, each",
			"			if e.left(e.keeper.clock.Local()) > 0 {\n				e.cancel(why)\n			} else {\n				time.AfterFunc(2*e.Grace, func() { e.cancel(why) })\n			}\n" +
				"		}\n		for _, each"}},
		tests: []string{"lock.TestHolderKnowsFirst"},
	}, {
		name:   "gives-up-renewing",
		breaks: "renewal stops after one error",
		edits: []edit{{"lock/internal/lease/flush.go",
			"		return f.attempt(ctx)\n",
			"		if err := f.attempt(ctx); errors.Is(err, zkconn.ErrAgain) {\n			return err\n		}\n		return nil\n"}},
		tests: []string{"lock.TestRenewalIsRetriedUntilTheDeadline"},
	}, {
		name:   "bad-member",
		breaks: "one entry that is gone ends the renewals that shared its transaction",
		edits: []edit{{"lock/internal/lease/flush.go",
			"	f.batch = append(f.batch[:i], f.batch[i+1:]...)\n",
			"	for _, other := range f.batch {\n		if other.Entry != b.Entry {\n			other.Vanished()\n		}\n	}\n	f.batch = nil\n"}},
		tests: []string{"lock.TestBadMemberDoesNotSpoilTheBatch"},
	}, {
		name:   "session-bound",
		breaks: "a hold is lost when its session ends",
		edits: []edit{{"lock/internal/lease/renew.go",
			"			e.expire(now)\n",
			"			e.expire(now)\n			if e.session != 0 && e.session != e.keeper.conn.Session() {\n				e.transition(Ended, ErrExpired)\n			}\n"}},
		tests: []string{"lock.TestSessionExpiryLosesNothing"},
	}, {
		name:   "grant-unrecorded",
		breaks: "a lease that is not renewed runs from the time it was queued, not from the grant",
		edits: []edit{{"lock/internal/queue/acquire.go",
			"|| e.Recorded() { // a leader",
			"|| !e.Recorded() { // a leader"}},
		tests: []string{"lock.TestFixedLeaseEndsOnTime"},
	}, {
		name:   "late-renewal",
		breaks: "a renewal that arrives after the hold was lost leaves an entry that lives",
		edits: []edit{{"lock/internal/queue/entry.go",
			"errors.Is(c.Why, lease.ErrTaken):",
			"errors.Is(c.Why, lease.ErrTaken), errors.Is(c.Why, lease.ErrExpired):"}},
		tests: []string{"lock.TestLateRenewalOfLostHold"},
	}, {
		name:   "context-asked-for-late",
		breaks: "a hold's context that is first asked for when the hold has ended never ends",
		edits: []edit{{"lock/internal/lease/entry.go",
			"		if e.state == Ended {\n			e.cancel(e.why)\n		}\n",
			""}},
		tests: []string{"lock.TestContextAskedForLate"},
	}, {
		name:   "first-reason",
		breaks: "a hold that has ended may end once more, for another reason",
		edits: []edit{{"lock/internal/lease/entry.go",
			"	if e.state == Ended {\n		return\n	}\n	if lost :=",
			"	if lost :="}},
		tests: []string{"lock/internal/lease.TestStateOnlyMovesForward"},
	}, {
		name:   "token-sequence",
		breaks: "the fencing token is the entry's sequence number, which starts again with each parent",
		edits: []edit{{"lock/hold.go",
			"return Token{Czxid: e.Czxid(), Incarnation: e.Incarnation, Pass: e.Pass}",
			"return Token{Czxid: int64(e.Name().Seq)}"}},
		tests: []string{"lock.TestTokensRiseOverDeletions"},
	},
}

// doubtMutants break what is known of a write of unknown outcome.
var doubtMutants = []mutant{
	{
		name:   "no-read-back",
		breaks: "a renewal whose reply was lost is taken for somebody else's write",
		edits: []edit{{"lock/internal/lease/flush.go",
			"!bytes.Equal(n.Data, b.data):",
			"!bytes.Equal(n.Data, nil):"}},
		tests: []string{"lock.TestRenewalWhoseReplyIsLost"},
	}, {
		name:   "read-back-unchecked",
		breaks: "whatever is read back after a lost reply is taken for the own write",
		edits: []edit{{"lock/internal/lease/flush.go",
			"case !b.inDoubt(b.write) || !bytes.Equal(n.Data, b.data):",
			"case !b.inDoubt(b.write) && !bytes.Equal(n.Data, b.data):"}},
		tests: []string{"lock.TestOverwrittenInDoubt"},
	}, {
		name:   "read-back-validity",
		breaks: "a renewal that is found by reading back counts from then on, not from its first send",
		edits: []edit{{"lock/internal/lease/flush.go",
			"b.acknowledge(b.write, b.first, session, ops[i]",
			"b.acknowledge(b.write, received, session, ops[i]"}},
		tests: []string{"lock.TestLeaseCountsFromTheSend"},
	}, {
		name:   "shortening-late",
		breaks: "a shorter lease counts only once it was acknowledged",
		edits: []edit{{"lock/internal/lease/trust.go",
			"	if e.writing != nil {\n		end = min(",
			"	if e.writing != nil && e.limit() < 0 {\n		end = min("}},
		tests: []string{"lock.TestShorteningCountsFromTheSend"},
	}, {
		name:   "shortening-in-flight",
		breaks: "a shorter lease that may have been written counts only while somebody waits for the reply",
		edits: []edit{{"lock/internal/lease/trust.go",
			"	if e.writing != nil {\n		end = min(",
			"	if e.writing != nil && e.writing.flying {\n		end = min("}},
		tests: []string{"lock.TestShorteningThatCannotBeReadBack"},
	}, {
		name:   "doubt-dropped",
		breaks: "a write that may have been applied is forgotten when what follows it is refused",
		edits: []edit{{"lock/internal/lease/renew.go",
			"	if w.flying = false; !w.doubt {\n",
			"	if w.flying = false; !w.flying {\n"}},
		tests: []string{"lock.TestShorteningThatCannotBeReadBack", "lock.TestRenewalThatCannotBeReadBackAtFirst"},
	}, {
		name:   "doubt-rewritten",
		breaks: "a write that may have been applied is followed by one with other bytes, so that it is not known again",
		edits: []edit{{"lock/internal/lease/renew.go",
			"		if e.writing == nil { // else",
			"		if e.writing == nil || !e.writing.flying { // else"}},
		tests: []string{"lock.TestRenewalThatCannotBeReadBackAtFirst"},
	}, {
		name:   "doubt-unnoted",
		breaks: "nobody notes that a renewal whose reply was lost may have been applied",
		edits: []edit{{"lock/internal/lease/renew.go",
			"	w.doubt = true\n",
			"	w.doubt = w.flying && e.state == Ended\n"}},
		tests: []string{"lock.TestRenewalWhoseReplyIsLost"},
	},
}
