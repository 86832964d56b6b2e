package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock/config"
)

// TestDifferences: each changed key is listed with its new and its old value. Policies that are added,
// removed or reordered are listed, too.
func TestDifferences(t *testing.T) {
	parse := func(text string) *config.Config {
		t.Helper()
		cfg, err := config.Parse("config.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	const before = `
reaper: {schedule: "@every 1m", batch: 10}
policies:
  - {name: a, match: "a/*", ttl: 10s}
  - {name: b, match: "b/*"}
  - {name: c, match: "c/*"}
`
	for text, want := range map[string][]string{
		before: nil,
		`{reaper: {schedule: "@every 1m", batch: 10}}`: {"policy a (a/*): removed", "policy b (b/*): removed", "policy c (c/*): removed"},
		`
reaper: {schedule: "@every 5m", batch: 10, concurrency: 3, max_deletes_per_second: 7}
policies:
  - {name: a, match: "a/**", ttl: 20s, keep_parent: true, schedule: "@hourly"}
  - {name: c, match: "c/*"}
  - {name: b, match: "b/*"}
  - {name: new, match: "new/*"}
`: {
			"reaper.schedule: @every 5m, was @every 1m", "reaper.concurrency: 3, was 16", "reaper.max_deletes_per_second: 7, was unlimited",
			"policy a: match: a/**, was a/*", "policy a: ttl: 20s, was 10s", "policy a: keep_parent: true, was false", "policy a: schedule: @hourly, was the reaper's",
			"policy new (new/*): added", "policies: another order",
		},
	} {
		if got := differences(parse(before), parse(text)); !slices.Equal(got, want) {
			t.Errorf("%s\ngot  %q\nwant %q", text, got, want)
		}
	}
}

// TestReloadLogsWhatNeedsARestart: if some changes need a restart, the log line is a warning that
// lists these keys. It lists at most maxDifferences changes, and counts the rest.
func TestReloadLogsWhatNeedsARestart(t *testing.T) {
	for _, test := range []struct {
		changed, later []string
		level, message string
	}{
		{[]string{"a"}, nil, "info", "configuration reloaded: it is in force"},
		{nil, nil, "info", "configuration read again: nothing is different"},
		{nil, []string{"log"}, "warn", "configuration reloaded in part: the rest takes a restart"},
		{make([]string, maxDifferences+3), []string{"log"}, "warn", "configuration reloaded in part: the rest takes a restart"},
	} {
		var out bytes.Buffer
		tellReloaded(zerolog.New(&out), test.changed, test.later)
		var line struct {
			Level, Message  string
			Changed         []string
			More_changed    int
			Takes_a_restart []string
		}
		if err := json.Unmarshal(out.Bytes(), &line); err != nil {
			t.Fatalf("%v: %s", err, &out)
		}
		if line.Level != test.level || line.Message != test.message || len(line.Changed)+line.More_changed != len(test.changed) || len(line.Changed) > maxDifferences ||
			fmt.Sprint(line.Takes_a_restart) != fmt.Sprint(test.later) {
			t.Errorf("%v, %v: %s", test.changed, test.later, &out)
		}
	}
}
