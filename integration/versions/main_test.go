package main

import "testing"

func TestFailures(t *testing.T) {
	for want, said := range map[string]string{
		"failed: TestA, TestB":   "--- FAIL: TestB (0.01s)\n    --- FAIL: TestB/one (0.01s)\nFAIL\n--- FAIL: TestA (2s)\n",
		"did not come to an end": "panic: test timed out after 20m0s\nFAIL\tx\t1200s\n",
	} {
		if got := failures([]byte(said)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestChoose(t *testing.T) {
	for name, want := range map[string]int{"": len(suites), "hosts": 1, "host": 0} {
		if got := choose(name); len(got) != want {
			t.Errorf("%d suites for %q, want %d", len(got), name, want)
		}
	}
}
