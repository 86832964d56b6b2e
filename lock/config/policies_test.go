package config

import (
	"errors"
	"testing"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/policy"
)

func named(name, pattern string) policy.Rule {
	return policy.Rule{Match: policy.MustPattern(pattern), Policy: lock.Policy{Name: name}}
}

// onlyMistake returns the mistake in err, which must be an [Error] with a single mistake.
func onlyMistake(t *testing.T, err error) Mistake {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error is %T (%v), want *Error", err, err)
	}
	if len(e.Mistakes) != 1 {
		t.Fatalf("%d mistakes, want 1:\n%v", len(e.Mistakes), err)
	}
	return e.Mistakes[0]
}

// TestZonesAreTheReapers: Parse accepts a schedule in a time zone that this machine does not
// know, because clients need no schedule. Parse still refuses the schedule if a field is missing.
func TestZonesAreTheReapers(t *testing.T) {
	const schedule = "CRON_TZ=Nowhere/Here 30 4 * * *"
	zoned := named("a", "a")
	zoned.Schedule = schedule
	if _, err := policy.NewSet(zoned); err != nil {
		t.Error(err)
	}
	if _, err := Parse("config.yaml", []byte(`{reaper: {schedule: "`+schedule+`"}, policies: [{name: a, match: a, schedule: "`+schedule+`"}]}`)); err != nil {
		t.Error(err)
	}
	if _, err := Parse("config.yaml", []byte(`{reaper: {schedule: "CRON_TZ=Nowhere/Here 30 4 * *"}}`)); err == nil {
		t.Error("four fields are taken")
	}
}
