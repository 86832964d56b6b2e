package main

// riskMutants break what is told of holds that may be lost.
var riskMutants = []mutant{
	{
		name:   "risk-late",
		breaks: "a hold is at risk only when a twentieth of its lease is left",
		edits:  []edit{{"lock/internal/lease/risk.go", "	return ttl / 2\n", "	return ttl / 20\n"}},
		tests:  []string{"lock/internal/lease.TestAtRisk", "lock.TestHoldAtRisk"},
	}, {
		name:   "risk-unscheduled",
		breaks: "the time at which a hold comes at risk is not checked",
		edits:  []edit{{"lock/internal/lease/renew.go", "			due = min(due, end-e.margin())\n", "			due = min(due, end)\n"}},
		tests:  []string{"lock/internal/lease.TestRiskOfFailingRenewals", "lock.TestHoldAtRisk"},
	}, {
		name:   "risk-asleep",
		breaks: "that the machine may have slept puts no hold at risk",
		edits: []edit{{"lock/internal/lease/risk.go",
			"bool { return e.left(now) <= e.margin() }",
			"bool { return e.end()-now.Mono <= e.margin() }"}},
		tests: []string{"lock/internal/lease.TestAtRiskAfterAPause"},
	}, {
		name:   "risk-of-shorter",
		breaks: "a lease that is being shortened is measured by the longer one, so that it is at risk at once",
		edits: []edit{{"lock/internal/lease/risk.go",
			"		ttl = min(ttl, e.writing.ttl)\n",
			"		ttl = max(ttl, e.writing.ttl)\n"}},
		tests: []string{"lock/internal/lease.TestAtRisk"},
	}, {
		name:   "risk-once",
		breaks: "a hold that was at risk is never safe again, so that the next time is not told",
		edits: []edit{{"lock/internal/lease/renew.go",
			"	if e.atRisk && !e.endsSoon(now) {\n		e.atRisk = false\n",
			"	if e.atRisk && !e.endsSoon(now) {\n"}},
		tests: []string{"lock/internal/lease.TestSafeAgain", "lock.TestHoldAtRisk"},
	}, {
		name:   "risk-over",
		breaks: "a hold that has ended goes on warning",
		edits: []edit{{"lock/internal/lease/entry.go",
			"		e.withdrawWarnings() // before the end can be seen\n",
			""}},
		tests: []string{"lock.TestWarningWithdrawn", "lock/internal/lease.TestSafeAgain"},
	}, {
		name:   "risk-of-fixed",
		breaks: "a lease that was never to be renewed is at risk, and tells so each time",
		edits: []edit{{"lock/internal/lease/risk.go",
			"if e.state != Held || e.Fixed || e.atRisk",
			"if e.state != Held || e.atRisk"},
			{"lock/internal/lease/renew.go", "!e.Fixed && !e.atRisk {", "!e.atRisk {"}},
		tests: []string{"lock/internal/lease.TestAtRisk", "lock.TestAtRiskOfMaxHold"},
	}, {
		name:   "check-waits",
		breaks: "a check passes while waits are not renewed",
		edits: []edit{{"lock/internal/lease/risk.go",
			"used = e.state == Waiting || e.state == Held",
			"used = e.state == Held"}},
		tests: []string{"lock.TestCheck", "lock/internal/lease.TestStalls"},
	}, {
		name:   "wait-untold",
		breaks: "observers are not told of a waiter",
		edits: []edit{{"lock/internal/queue/wait.go",
			"			c.waiting(e.Path, c.entriesAhead)\n",
			""}},
		tests: []string{"lock.TestObserver"},
	},
}
