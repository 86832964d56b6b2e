package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// result is the result of a race, as the file of -out has it.
type result struct {
	settings
	ZooKeeper string         // version of the servers
	Faults    map[string]int // number of faults by kind
	Groups    []figures
}

// broken lists the promises of package schedule that were broken.
func (r result) broken() (promises []error) {
	for _, f := range r.Groups {
		if !f.Ours {
			continue
		}
		if f.Missed > 0 {
			promises = append(promises, fmt.Errorf("seed %d, %s: %d ticks were missed", r.Seed, f.Group, f.Missed))
		}
		if f.Twice > 0 && !f.AtLeastOnce {
			promises = append(promises, fmt.Errorf("seed %d, %s: %d ticks ran twice", r.Seed, f.Group, f.Twice))
		}
		if f.Interrupted > 0 && f.AtLeastOnce {
			promises = append(promises, fmt.Errorf("seed %d, %s: %d ticks were begun and never ended", r.Seed, f.Group, f.Interrupted))
		}
	}
	return promises
}

// addTo appends the result to a file, as a line of JSON.
func (r result) addTo(path string) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

func readResults(path string) (all []result, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(data) {
		var r result
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// table returns the results in Markdown: a row for each group of each race.
func table(results []result) string {
	var b strings.Builder
	b.WriteString("| race | group | ticks | ran once | ran twice or more | interrupted, ran again | interrupted | missed | over 1 s late | latest |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		name := fmt.Sprintf("seed %d, %v, %d ZooKeeper %s", r.Seed, r.Duration, r.Servers, r.ZooKeeper)
		for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
			name += fmt.Sprintf(", %d %s", r.Faults[kind], kind)
		}
		for _, f := range r.Groups {
			again := "–"
			if f.AtLeastOnce {
				again = fmt.Sprint(f.Again)
			}
			fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %s | %d | %d | %d | %.1f s |\n", name, f.Group, f.ticks(), f.Once, f.Twice, again,
				f.Interrupted, f.Missed, f.Late, f.Latest.Round(100*time.Millisecond).Seconds())
			name = ""
		}
	}
	return b.String()
}
