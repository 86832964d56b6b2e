package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
)

var _ lock.Policies = (*Set)(nil)

func named(t interface{ Fatal(...any) }, name, pattern string) Rule {
	return Rule{Match: mustPattern(t, pattern), Policy: lock.Policy{Name: name}}
}

func TestSetFirstMatchWins(t *testing.T) {
	first := named(t, "first", "a/*")
	first.TTL = 5 * time.Second
	second := named(t, "second", "a/**")
	second.TTL = 2 * time.Hour
	second.KeepParent = true
	s, err := NewSet(first, second)
	iferr.Fatal(t, err)
	for name, want := range map[string]struct {
		policy string
		lock   lock.Policy
	}{
		"a/b": {"first", lock.Policy{Name: "first", TTL: 5 * time.Second, MaxTTL: lock.DefaultMaxTTL, Grace: lock.DefaultGrace, LocalWindow: lock.DefaultLocalWindow}},
		"a":   {"second", lock.Policy{Name: "second", TTL: 2 * time.Hour, MaxTTL: 2 * time.Hour, Grace: lock.DefaultGrace, KeepParent: true, LocalWindow: lock.DefaultLocalWindow}},
		"b":   {"default", lock.Policy{}.WithDefaults()},
	} {
		if got := s.For(name); got.Name != want.policy || got.Policy != want.lock || got.OrphanAfter != DefaultOrphanAfter {
			t.Errorf("For(%q) = %+v, want %+v", name, got, want)
		}
		if got := s.Policy(name); got != want.lock {
			t.Errorf("Policy(%q) = %+v, want %+v", name, got, want.lock)
		}
	}
}

func TestSetAll(t *testing.T) {
	for _, test := range []struct{ patterns, all string }{
		{"", "**"},
		{"a b", "a b **"},
		{"a **", "a **"},
		{"a */** ", "a */**"},
		{"* */*/**", "* */*/**"}, // the two match everything
		{"* */*", "* */* **"},
	} {
		var rules []Rule
		for i, text := range strings.Fields(test.patterns) {
			rules = append(rules, named(t, fmt.Sprint("p", i), text))
		}
		s, err := NewSet(rules...)
		iferr.Fatal(t, err)
		var got []string
		for _, p := range s.All() {
			got = append(got, p.Match.String())
		}
		if want := strings.Fields(test.all); !slices.Equal(got, want) {
			t.Errorf("All of %q are %q, want %q", test.patterns, got, want)
		}
		if last := s.All()[len(got)-1]; (last.Name == "default") != (len(got) > len(rules)) {
			t.Errorf("the last of %q is %q", test.patterns, last.Name)
		}
		s.All()[0].Name = "changed"
		if s.All()[0].Name == "changed" {
			t.Error("All gives the set's own slice away")
		}
	}
}

func TestSetZero(t *testing.T) {
	made, err := NewSet()
	iferr.Fatal(t, err)
	for _, s := range []*Set{nil, new(Set), made} {
		want := Rule{
			Match:       mustPattern(t, "**"),
			Policy:      lock.Policy{Name: "default", TTL: lock.DefaultTTL, MaxTTL: lock.DefaultMaxTTL, Grace: lock.DefaultGrace, LocalWindow: lock.DefaultLocalWindow},
			OrphanAfter: DefaultOrphanAfter,
		}
		if got := s.For("a"); got != want {
			t.Errorf("For = %+v, want %+v", got, want)
		}
		if got := s.Policy("a"); got != want.Policy {
			t.Errorf("Policy = %+v, want %+v", got, want.Policy)
		}
		if got := s.All(); !slices.Equal(got, []Rule{want}) {
			t.Errorf("All = %+v, want only %+v", got, want)
		}
	}
}

func times(p lock.Policy) []Rule {
	p.Name = "n"
	return []Rule{{Match: Pattern{"a"}, Policy: p}}
}

func many(n int) []Rule {
	var rules []Rule
	for i := range n {
		rules = append(rules, Rule{Match: Pattern{fmt.Sprint("a", i)}, Policy: lock.Policy{Name: fmt.Sprint("n", i)}})
	}
	return rules
}

func TestNewSetLimits(t *testing.T) {
	for _, rules := range [][]Rule{
		times(lock.Policy{TTL: lock.MinTTL, MaxTTL: lock.MinTTL, Grace: lock.MinGrace, MaxHold: lock.MinTTL}),
		times(lock.Policy{TTL: lock.MaxTime, MaxTTL: lock.MaxTime, Grace: lock.MaxTime, MaxHold: lock.MaxTime}),
		{{Match: Pattern{"a"}, Policy: lock.Policy{Name: strings.Repeat("n", 64)}, OrphanAfter: MinOrphanAfter}},
		{{Match: Pattern{"**"}, Policy: lock.Policy{Name: "default"}}},
		{{Match: Pattern{"a"}, Policy: lock.Policy{Name: "jobs, nightly (ü)"}}},
		many(1000),
	} {
		iferr.Error(t, iferr.Of(NewSet(rules...)))
	}
}

// TestNewSetRefuses: a mistake names the key, and the rule that is broken.
func TestNewSetRefuses(t *testing.T) {
	named := func(name, pattern string) Rule { return Rule{Match: Pattern{pattern}, Policy: lock.Policy{Name: name}} }
	scheduled := func(text string) []Rule {
		r := named("n", "a")
		r.Schedule = text
		return []Rule{r}
	}
	for _, test := range []struct {
		name        string
		rules       []Rule
		key, reason string // the key of the one mistake, and part of the rule
	}{
		{"name missing", []Rule{named("", "a")}, "policies[0].name", "must be given"},
		{"name long", []Rule{named(strings.Repeat("n", 65), "a")}, "policies[0].name", "at most 64 bytes"},
		{"name not printable", []Rule{named("a\nb", "a")}, "policies[0].name", "must be printable"},
		{"name used", []Rule{named("n", "a"), named("m", "b"), named("n", "c")},
			"policies[2].name", "is the name of policies[0] already"},
		{"name default", []Rule{named("default", "a")}, "policies[0].name", "kept for the policy that matches **"},
		{"match missing", []Rule{named("n", "")}, "policies[0].match", "must be given"},
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
		{"orphan_after short", []Rule{{Match: Pattern{"a"}, Policy: lock.Policy{Name: "n"}, OrphanAfter: 999 * time.Millisecond}},
			"policies[0].orphan_after", "at least 1s"},
		{"schedule no cron", scheduled("often"), "policies[0].schedule", "must be a cron expression or an interval such as @every 1m"},
		{"schedule rounded", scheduled("@every 1500ms"), "policies[0].schedule", "whole seconds"},
		{"schedule never", scheduled("0 0 31 2 *"), "policies[0].schedule", "a time that comes"},
		{"match covered by one", []Rule{named("n", "a/**"), named("m", "a/b*")},
			"policies[1].match", "policies[0] (a/**) above it matches every such name"},
		{"match covered by two", []Rule{named("n", "*"), named("m", "*/*/**"), named("default", "**")},
			"policies[2].match", "the policies above it together match every such name"},
		{"many", many(1001), "policies", "at most 1000, not 1001"},
	} {
		set, err := NewSet(test.rules...)
		var wrong *Error
		if !errors.As(err, &wrong) || len(wrong.Mistakes) != 1 || set != nil {
			t.Errorf("%s: %v, %v, want one mistake", test.name, set, err)
		} else if text := wrong.Mistakes[0].String(); !strings.HasPrefix(text, test.key+": ") || !strings.Contains(text, test.reason) {
			t.Errorf("%s: %s, want %s and %q", test.name, text, test.key, test.reason)
		}
	}
}

// TestNewSetAllAtOnce: all mistakes are reported at once, but none that only follows from another: an
// invalid max_ttl is not compared with ttl.
func TestNewSetAllAtOnce(t *testing.T) {
	_, err := NewSet(
		Rule{Policy: lock.Policy{TTL: 3 * time.Hour, MaxTTL: time.Millisecond, Grace: -1, MaxHold: time.Second}, Schedule: "x"},
		named(t, "b", "b"),
		named(t, "b", "b"),
	)
	var e *Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	var keys []string
	for _, m := range e.Mistakes {
		keys = append(keys, fmt.Sprintf("policies[%d].%s", m.Index, m.Key))
	}
	want := []string{
		"policies[0].name", "policies[0].match", "policies[0].max_ttl", "policies[0].grace", "policies[0].max_hold",
		"policies[0].schedule", "policies[2].name", "policies[2].match",
	}
	if !slices.Equal(keys, want) {
		t.Errorf("mistakes in %q, want them in %q:\n%v", keys, want, err)
	}
	if lines := strings.Split(err.Error(), "\n"); len(lines) != len(want) {
		t.Errorf("%d lines for %d mistakes:\n%v", len(lines), len(want), err)
	}
}

// TestNewSetKeepsRulesOfLock: lock.Policy.Validate accepts every policy that NewSet accepts.
func TestNewSetKeepsRulesOfLock(t *testing.T) {
	near := []time.Duration{-1, 0, 1, time.Millisecond, 99 * time.Millisecond, 100 * time.Millisecond, 100*time.Millisecond + 1,
		time.Second, 2 * time.Second, 30 * time.Second, time.Hour, 2 * time.Hour, lock.MaxTime, lock.MaxTime + time.Millisecond, 1<<63 - 1}
	taken := 0
	for _, ttl := range near {
		for _, maxTTL := range near {
			for _, grace := range near {
				for _, maxHold := range near {
					p := lock.Policy{TTL: ttl, MaxTTL: maxTTL, Grace: grace, MaxHold: maxHold}
					s, err := NewSet(times(p)...)
					if err != nil {
						continue
					}
					taken++
					if err := s.Policy("a").Validate(); err != nil {
						t.Fatalf("NewSet takes %+v: %v", p, err)
					}
				}
			}
		}
	}
	if taken == 0 {
		t.Error("NewSet takes none")
	}
}

func TestParseSchedule(t *testing.T) {
	noon := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	for text, next := range map[string]time.Time{
		"@every 1s":               noon.Add(time.Second),
		"@every 1h30m":            noon.Add(90 * time.Minute),
		"@hourly":                 noon.Add(time.Hour),
		"30 4 * * *":              time.Date(2026, time.March, 2, 4, 30, 0, 0, time.UTC),
		"CRON_TZ=UTC 0 13 * * *":  noon.Add(time.Hour),
		"TZ=UTC @daily":           time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC),
		"0 0 29 2 *":              time.Date(2028, time.February, 29, 0, 0, 0, 0, time.UTC),
		"CRON_TZ=UTC @every 15s":  noon.Add(15 * time.Second),
		"0 0 31 2 mon":            time.Date(2027, time.February, 1, 0, 0, 0, 0, time.UTC), // cron matches either day field
		"CRON_TZ=UTC  5 12 * * *": noon.Add(5 * time.Minute),
		// The cron package misses a day whose midnight does not exist.
		"CRON_TZ=Africa/Cairo 0 5 24 4 *": time.Date(2026, time.April, 24, 2, 0, 0, 0, time.UTC),
	} {
		s, err := ParseSchedule(text)
		if err != nil {
			t.Errorf("ParseSchedule(%q): %v", text, err)
		} else if got := s.Next(noon); !got.Equal(next) {
			t.Errorf("ParseSchedule(%q) comes at %v, want %v", text, got, next)
		}
	}
	for text, rule := range map[string]string{
		"":                          "cron expression",
		"* * * *":                   "expected exactly 5 fields",
		"0 * * * * *":               "expected exactly 5 fields",
		"60 * * * *":                "above maximum",
		"@often":                    "unrecognized descriptor",
		"@every":                    "unrecognized descriptor",
		"@every soon":               "invalid duration",
		"@every 1500ms":             "whole seconds",
		"@every 999ms":              "at least one second",
		"@every 0s":                 "at least one second",
		"@every -5s":                "at least one second",
		"CRON_TZ=UTC @every 1.5s":   "whole seconds",
		"CRON_TZ=UTC":               "a schedule after the time zone",
		"CRON_TZ= 0 4 * * *":        "a time zone after the =",
		"TZ=":                       "a schedule after the time zone",
		"CRON_TZ=UTC ":              "cron expression",
		"CRON_TZ=Nowhere * * * * *": "a time zone that this machine knows",
		"CRON_TZ=UTC TZ=UTC @daily": "one time zone",
		"0 0 31 2 *":                "a time that comes",
		"0 0 31 4,6,9,11 *":         "a time that comes",
		", * * * *":                 "a time that comes",
		"* , * * *":                 "a time that comes",
		"* * , * *":                 "a time that comes",
		"* * * , *":                 "a time that comes",
		"* * * * ,":                 "a time that comes",
	} {
		if s, err := ParseSchedule(text); err == nil || !strings.Contains(err.Error(), rule) || s != nil {
			t.Errorf("ParseSchedule(%q) = %v, %v, want the rule %q", text, s, err, rule)
		}
	}
}

func TestSetPolicyDoesNotAllocate(t *testing.T) {
	var rules []Rule
	for i, text := range []string{"imports/*", "tenant-*/jobs/**", "orders/*/items", "**/cron", "gpu-*", "*-eu-*/**", "a/b/c/d", "shop/**/stock", "shop/**", "x"} {
		rules = append(rules, named(t, fmt.Sprint("p", i), text))
	}
	s, err := NewSet(rules...)
	iferr.Fatal(t, err)
	for _, name := range []string{"shop/berlin/carts/42", "none/of/them"} {
		if n := testing.AllocsPerRun(100, func() { s.Policy(name) }); n != 0 {
			t.Errorf("Policy(%q) allocates %v times", name, n)
		}
	}
}
