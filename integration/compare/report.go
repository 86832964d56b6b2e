package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// result has the results of a run, as a line of results.jsonl.
type result struct {
	By string // the command that measured it
	settings
	Versions string
	Faults   map[string]int `json:",omitempty"` // number by kind; the same in all systems
	Tables   []table

	broken breaches
}

// breaches are the promises of Holdfast that were broken.
type breaches []string

// add adds a promise if it was broken.
func (b *breaches) add(broken bool, format string, args ...any) {
	if broken {
		*b = append(*b, fmt.Sprintf(format, args...))
	}
}

// table is a table in Markdown, with text before and after it.
type table struct {
	Title string `json:",omitempty"`
	Head  []string
	Rows  [][]string
	After string `json:",omitempty"`
}

func (t *table) add(cells ...any) {
	var row []string
	for _, c := range cells {
		row = append(row, strings.ReplaceAll(strings.Join(strings.Fields(fmt.Sprint(c)), " "), "|", `\|`))
	}
	t.Rows = append(t.Rows, row)
}

// text returns the results in Markdown.
func text(results ...result) string {
	var b strings.Builder
	for _, r := range results {
		fmt.Fprintf(&b, "\n### %s\n\n%s. %s", kinds[kindIndex(r.Kind)].title, r.By, r.Versions)
		before := ". Faults: "
		for _, name := range slices.Sorted(maps.Keys(r.Faults)) {
			fmt.Fprintf(&b, "%s%s %d×", before, name, r.Faults[name])
			before = ", "
		}
		b.WriteString(".\n")
		for _, t := range r.Tables {
			if t.Title != "" {
				fmt.Fprintf(&b, "\n%s\n", t.Title)
			}
			fmt.Fprintf(&b, "\n| %s |\n%s|\n", strings.Join(t.Head, " | "), strings.Repeat("|---", len(t.Head)))
			for _, row := range t.Rows {
				fmt.Fprintf(&b, "| %s |%s\n", strings.Join(row, " | "), strings.Repeat(" |", len(t.Head)-len(row)))
			}
			if t.After != "" {
				fmt.Fprintf(&b, "\n%s\n", t.After)
			}
		}
	}
	return b.String()
}

// Files of this folder, and the lines of the page around the results.
const (
	page        = "README.md"
	resultsFile = "results.jsonl"
	pageBegin   = "<!-- begin: written by bin/compare -update -->\n"
	pageEnd     = "<!-- end -->\n"
)

func readResults(dir string) (all []result, err error) {
	path := filepath.Join(dir, resultsFile)
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

// publish writes a result to the folder's results.jsonl, instead of the one of the same kind, number of
// servers and seed, and all results to README.md.
func publish(dir string, one result) error {
	all, err := readResults(dir)
	if err != nil {
		return err
	}
	order := func(a, b result) int {
		return cmp.Or(kindIndex(a.Kind)-kindIndex(b.Kind), a.Servers-b.Servers, cmp.Compare(a.Seed, b.Seed))
	}
	all = append(slices.DeleteFunc(all, func(r result) bool { return order(r, one) == 0 }), one)
	slices.SortFunc(all, order)
	var lines bytes.Buffer
	for _, r := range all {
		if err := json.NewEncoder(&lines).Encode(r); err != nil {
			return err
		}
	}
	written, err := os.ReadFile(filepath.Join(dir, page))
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(written), pageBegin)
	_, after, ends := strings.Cut(rest, pageEnd)
	if !begins || !ends {
		return fmt.Errorf("%s: has no lines %q and %q", page, pageBegin, pageEnd)
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, resultsFile), lines.Bytes(), 0o644),
		os.WriteFile(filepath.Join(dir, page), []byte(before+pageBegin+text(all...)+"\n"+pageEnd+after), 0o644))
}
