package main

// connMutants break what is known of the connection, and the bounds of calls on it.
var connMutants = []mutant{
	{
		name:   "short-frames",
		breaks: "go-zookeeper is handed the length of a frame that cannot be one, and panics",
		edits: []edit{{"lock/internal/zkconn/handshake.go",
			"	if length < leastReply || length > largestReply {\n",
			"	if length > largestReply {\n"}},
		tests: []string{"lock/internal/zkconn.TestFrameThatCannotBe"},
	}, {
		name:   "frame-of-any-length",
		breaks: "whatever a server says that a frame's length is, is waited for",
		edits: []edit{{"lock/internal/zkconn/handshake.go",
			"	if length < leastReply || length > largestReply {\n",
			"	if length < leastReply {\n"}},
		tests: []string{"lock/internal/zkconn.TestFrameThatCannotBe"},
	}, {
		name:   "greeting-believed",
		breaks: "go-zookeeper is handed a greeting that it panics on, or sets memory aside for",
		edits: []edit{{"lock/internal/zkconn/handshake.go",
			"	if timeout <= 0 && session != 0 || password > length-leastGreeting {\n",
			"	if timeout <= 0 && session != 0 && password > length-leastGreeting {\n"}},
		tests: []string{"lock/internal/zkconn.TestGreetingThatCannotBe"},
	}, {
		name:   "abandoned-is-outage",
		breaks: "a caller that gives up is taken for an outage",
		edits: []edit{{"lock/internal/zkconn/call.go",
			"		return none, abandoned{ContextError(ctx)}\n",
			"		c.noteDown()\n		return none, abandoned{ContextError(ctx)}\n"}},
		tests: []string{"lock.TestAbandonedCallsAreNoOutage", "lock/internal/zkconn.TestAbandonedCallIsNoOutage"},
	}, {
		name:   "silence-unnoticed",
		breaks: "a renewal that is unanswered is no sign of an outage",
		edits: []edit{{"lock/internal/lease/flush.go",
			"	silent := time.AfterFunc(f.patience(), f.conn.NoteOutage)\n",
			"	silent := time.AfterFunc(1000*f.patience(), f.conn.NoteOutage)\n"}},
		tests: []string{"lock/internal/lease.TestUnansweredRenewal"},
	}, {
		name:   "request-without-session",
		breaks: "a request is handed over while there is no session, and runs later in another one",
		edits: []edit{{"lock/internal/zkconn/conn.go",
			"	case c.hasSession():\n		return nil\n",
			"	case c.hasSession() || c.lastDown.Load() >= 0:\n		return nil\n"}},
		tests: []string{"lock/internal/zkconn.TestCallsWithoutSession"},
	}, {
		name:   "late-unheard",
		breaks: "what an abandoned call has done is told to nobody",
		edits: []edit{{"lock/internal/zkconn/call.go",
			"			if late != nil {\n",
			"			if late != nil && ctx.Err() == nil {\n"}},
		tests: []string{"lock/internal/zkconn.TestAbandonedCall", "lock.TestAbandonedCallLeavesNothing"},
	}, {
		name:   "closed-connection-refused",
		breaks: "a connection that broke off is taken to have refused what was sent on it",
		edits: []edit{{"lock/internal/zkconn/errors.go",
			"case IsAbandoned(err), is(zk.ErrConnectionClosed), is(zk.ErrClosing):\n		return Ambiguous",
			"case IsAbandoned(err), is(zk.ErrConnectionClosed), is(zk.ErrClosing):\n		return Retryable"}},
		tests: []string{"lock/internal/zkconn.TestOutcome", "lock.TestAmbiguousLock"},
	}, {
		name:   "leaves-at-once",
		breaks: "go-zookeeper is not held up as it ends for good, and a concurrent Close waits for its answer in vain",
		edits: []edit{{"lock/internal/zkconn/dial.go",
			"		time.Sleep(time.Millisecond)\n",
			""}},
		tests: []string{"lock/internal/zkconn.TestLeaveTime"},
	}, {
		name:   "unknown-session-refused",
		breaks: "a request that met the end of its session is given up",
		edits: []edit{{"lock/internal/zkconn/errors.go",
			" || innermost(err).Error() == codeUnknownSession)",
			")"}},
		tests: []string{"lock/internal/zkconn.TestOutcome", "lock.TestAmbiguousLock", "lock.TestAmbiguousUnlock"},
	}, {
		name:   "dial-unbounded",
		breaks: "a Dial whose context has ended gives the servers more time",
		edits: []edit{{"lock/internal/zkconn/dial.go",
			"		c.Close(0)\n",
			"		c.Close(5 * time.Second)\n		WaitFor(context.Background().Done(), 3*time.Second)\n"}},
		tests: []string{"lock/internal/zkconn.TestDialWaitsForSession"},
	}, {
		name:   "dial-unknown-host",
		breaks: "a server's name that cannot be resolved yet is no passing fault",
		edits: []edit{{"lock/internal/zkconn/hosts.go",
			"	h.servers, h.salt = servers, h.cfg.Random.Uint64()\n	return nil\n",
			"	h.servers, h.salt = servers, h.cfg.Random.Uint64()\n" +
				"	for _, server := range servers {\n" +
				"		host, _, _ := net.SplitHostPort(server)\n" +
				"		if _, err := h.cfg.lookup(h.ctx, host); err != nil {\n			return err\n		}\n	}\n	return nil\n"}},
		tests: []string{"lock/internal/zkconn.TestDialOfUnresolvedHost", "lock.TestDialOfUnknownHost"},
	}, {
		name:   "handshake-unlimited",
		breaks: "the deadline of the handshake is put off by whoever sets another",
		edits: []edit{{"lock/internal/zkconn/handshake.go",
			"	if !c.greeted && (t.IsZero() || t.After(c.limit)) {\n",
			"	if !c.greeted && t.Before(time.Time{}) {\n"}},
		tests: []string{"lock/internal/zkconn.TestHandshakeDeadline"},
	}, {
		name:   "frame-that-is-none",
		breaks: "a server that answers the handshake with a negative length is believed",
		edits: []edit{{"lock/internal/zkconn/handshake.go",
			"	length := int32(binary.BigEndian.Uint32(head))\n	if length < leastGreeting || length > mostGreeting {\n",
			"	length := int32(binary.BigEndian.Uint32(head))\n	if length < 0 {\n		return 0, c.Conn.SetReadDeadline(time.Time{})\n	}\n" +
				"	if length < leastGreeting || length > mostGreeting {\n"}},
		tests: []string{"lock/internal/zkconn.TestHandshakeOfAnotherKind"},
	}, {
		name:   "close-unbounded",
		breaks: "Close waits for the server to acknowledge the session's end, however long that takes",
		edits: []edit{{"lock/internal/zkconn/dial.go",
			"		WaitFor(c.closeSession(), max(time.Until(end), lastMoments))\n",
			"		<-c.closeSession()\n"}},
		tests: []string{"lock/internal/zkconn.TestCloseIsBounded"},
	}, {
		name:   "close-gives-each-its-time",
		breaks: "Close waits for the clean-up and then for the connection, each for as long as it may take in all",
		edits: []edit{{"lock/client.go",
			"c.conn.Close(max(0, c.cfg.unlockTimeout-time.Since(begun)))",
			"c.conn.Close(c.cfg.unlockTimeout + 0*time.Since(begun))"}},
		tests: []string{"lock.TestCloseEndsWithItsTimeout"},
	}, {
		name:   "shared-watch-unread",
		breaks: "who shares a watch that is armed already gets what was read when it was armed",
		edits: []edit{{"lock/internal/zkconn/watch.go",
			"armed != nil && !fired(armed)",
			"armed != nil"}},
		tests: []string{"lock/internal/zkconn.TestWatchIsShared"},
	},
}
