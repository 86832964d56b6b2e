package main

// breakMutants break how holds are broken.
var breakMutants = []mutant{
	{
		name:   "break-at-once",
		breaks: "break deletes the entry of a hold before the lease has ended, though the owner has not learnt of it",
		edits: []edit{{"lock/admin/break.go",
			"		case verdict == znode.Expired:\n			return b.Delete(ctx, p)\n",
			"		case verdict != znode.Unproven:\n			return b.Delete(ctx, p)\n"}},
		tests: []string{"lock.TestBreak"},
	}, {
		name:   "broken-and-kept",
		breaks: "an entry that no goroutine of its client has is left to expire when it is broken",
		edits: []edit{{"lock/internal/queue/entry.go",
			"		e.queue.removeIfBroken(e)\n	case !c.Lost():\n",
			"	case !c.Lost():\n"}},
		tests: []string{"lock.TestKeptEntryIsWritten"},
	},
}
