package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// breaches are the promises of Holdfast that were broken.
type breaches []string

// add adds a promise if it was broken.
func (b *breaches) add(broken bool, format string, args ...any) {
	if broken {
		*b = append(*b, fmt.Sprintf(format, args...))
	}
}

// table is a table in Markdown, with text before it.
type table struct {
	title string
	head  []string
	rows  [][]string
}

func (t *table) add(cells ...any) {
	var row []string
	for _, c := range cells {
		row = append(row, strings.ReplaceAll(strings.Join(strings.Fields(fmt.Sprint(c)), " "), "|", `\|`))
	}
	t.rows = append(t.rows, row)
}

// text returns the results in Markdown.
func (r *run) text() string {
	var b strings.Builder
	delete(r.versions, "") // of Holdfast, which is this one, and of Redis
	versions := strings.Join(slices.Sorted(maps.Keys(r.versions)), ", ")
	fmt.Fprintf(&b, "\n### %s\n\nMeasured by `make compare KIND=%s DURATION=%v SEED=%d SERVERS=%d`. %s", r.title, r.name, r.duration, r.seed, r.servers, versions)
	before := ". Faults: "
	for _, name := range slices.Sorted(maps.Keys(r.made)) {
		fmt.Fprintf(&b, "%s%s %d×", before, name, r.made[name])
		before = ", "
	}
	b.WriteString(".\n")
	for _, t := range r.tables {
		if t.title != "" {
			fmt.Fprintf(&b, "\n%s\n", t.title)
		}
		fmt.Fprintf(&b, "\n| %s |\n%s|\n", strings.Join(t.head, " | "), strings.Repeat("|---", len(t.head)))
		for _, row := range t.rows {
			fmt.Fprintf(&b, "| %s |%s\n", strings.Join(row, " | "), strings.Repeat(" |", len(t.head)-len(row)))
		}
	}
	return b.String()
}
