package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/policy"
)

// policyRules has policies that break one rule each. TestPolicyRules checks them as values,
// TestParsePolicyRules as a file.
var policyRules = []struct {
	name   string
	rules  []policy.Rule
	key    string // the key of the one mistake
	reason string // part of the rule
}{
	{"name missing", []policy.Rule{named("", "a")}, "policies[0].name", "must be given"},
	{"name long", []policy.Rule{named(strings.Repeat("n", 65), "a")}, "policies[0].name", "at most 64 bytes"},
	{"name not printable", []policy.Rule{named("a\nb", "a")}, "policies[0].name", "must be printable"},
	{"name used", []policy.Rule{named("n", "a"), named("m", "b"), named("n", "c")},
		"policies[2].name", "is the name of policies[0] already"},
	{"name default", []policy.Rule{named("default", "a")}, "policies[0].name", "kept for the policy that matches **"},
	{"match missing", []policy.Rule{named("n", "")}, "policies[0].match", "must be given"},
	{"ttl short", times(lock.Policy{TTL: 99 * time.Millisecond}), "policies[0].ttl", "at least 100ms"},
	{"ttl negative", times(lock.Policy{TTL: -time.Second}), "policies[0].ttl", "at least 100ms"},
	{"ttl beyond max_ttl", times(lock.Policy{TTL: 3 * time.Second, MaxTTL: 2 * time.Second, Grace: time.Second}),
		"policies[0].ttl", "at most max_ttl, which is 2s"},
	{"ttl in parts of milliseconds", times(lock.Policy{TTL: time.Second + time.Microsecond}), "policies[0].ttl", "whole milliseconds"},
	{"max_ttl short", times(lock.Policy{MaxTTL: time.Millisecond}), "policies[0].max_ttl", "at least 100ms"},
	{"max_ttl long", times(lock.Policy{MaxTTL: 8761 * time.Hour}), "policies[0].max_ttl", "at most 8760h"},
	{"grace short", times(lock.Policy{Grace: time.Millisecond}), "policies[0].grace", "at least 100ms"},
	{"grace beyond max_ttl", times(lock.Policy{TTL: time.Second, MaxTTL: time.Second, Grace: 2 * time.Second}),
		"policies[0].grace", "at most max_ttl, which is 1s"},
	{"max_hold negative", times(lock.Policy{MaxHold: -time.Second}), "policies[0].max_hold", "at least 0s"},
	{"max_hold below ttl", times(lock.Policy{TTL: 3 * time.Second, MaxHold: 2 * time.Second}),
		"policies[0].max_hold", "at least ttl, which is 3s, or 0s for no limit"},
	{"local_window negative", times(lock.Policy{LocalWindow: -time.Second}), "policies[0].local_window", "at least 1ms"},
	{"local_window long", times(lock.Policy{LocalWindow: 2 * time.Second}), "policies[0].local_window", "at most 1s"},
	{"max_hold long", times(lock.Policy{MaxHold: 1<<63 - 1}), "policies[0].max_hold", "at most 8760h"},
	{"orphan_after short", []policy.Rule{{Match: policy.MustPattern("a"), Policy: lock.Policy{Name: "n"}, OrphanAfter: 999 * time.Millisecond}},
		"policies[0].orphan_after", "at least 1s"},
	{"schedule no cron", scheduled("often"), "policies[0].schedule", "must be a cron expression or an interval such as @every 1m"},
	{"schedule rounded", scheduled("@every 1500ms"), "policies[0].schedule", "whole seconds"},
	{"schedule never", scheduled("0 0 31 2 *"), "policies[0].schedule", "a time that comes"},
	{"match covered by one", []policy.Rule{named("n", "a/**"), named("m", "a/b*")},
		"policies[1].match", "policies[0] (a/**) above it matches every such name"},
	{"match covered by two", []policy.Rule{named("n", "*"), named("m", "*/*/**"), named("default", "**")},
		"policies[2].match", "the policies above it together match every such name"},
	{"many", many(1001), "policies", "at most 1000, not 1001"},
}

func times(p lock.Policy) []policy.Rule {
	p.Name = "n"
	return []policy.Rule{{Match: policy.MustPattern("a"), Policy: p}}
}

func scheduled(s string) []policy.Rule {
	r := named("n", "a")
	r.Schedule = s
	return []policy.Rule{r}
}

func many(n int) (rules []policy.Rule) {
	for i := range n {
		rules = append(rules, named(fmt.Sprint("n", i), fmt.Sprint("a", i)))
	}
	return rules
}

func named(name, pattern string) policy.Rule {
	r := policy.Rule{Policy: lock.Policy{Name: name}}
	if pattern != "" {
		r.Match = policy.MustPattern(pattern)
	}
	return r
}

// TestPolicyRules: policies that break a rule are refused, as values.
func TestPolicyRules(t *testing.T) {
	for _, test := range policyRules {
		t.Run(test.name, func(t *testing.T) {
			set, err := policy.NewSet(test.rules...)
			var wrong *policy.Error
			if !errors.As(err, &wrong) || len(wrong.Mistakes) != 1 || set != nil {
				t.Fatalf("%v, %v, want one mistake", set, err)
			}
			if text := wrong.Mistakes[0].String(); !strings.HasPrefix(text, test.key+": ") || !strings.Contains(text, test.reason) {
				t.Errorf("%s, want %s and %q", text, test.key, test.reason)
			}
		})
	}
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
