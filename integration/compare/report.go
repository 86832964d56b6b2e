package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// page is the file of this folder that ends with the published results.
const page = "README.md"

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
	title string
	head  []string
	rows  [][]string
	after string
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
	fmt.Fprintf(&b, "\n### %s\n\nMeasured by `make compare KIND=%s DURATION=%v SEED=%d SERVERS=%d`. %s", r.title, r.name, r.duration, r.seed, r.servers, r.versions)
	before := ". Faults: "
	for _, name := range slices.Sorted(maps.Keys(r.made)) {
		fmt.Fprintf(&b, "%s%s %d×", before, name, r.made[name])
		before = ", "
	}
	b.WriteString(".\n")
	for _, t := range r.tables {
		if t.title != "" {
			fmt.Fprintf(&b, "\n**%s**\n", t.title)
		}
		fmt.Fprintf(&b, "\n| %s |\n%s|\n", strings.Join(t.head, " | "), strings.Repeat("|---", len(t.head)))
		for _, row := range t.rows {
			fmt.Fprintf(&b, "| %s |%s\n", strings.Join(row, " | "), strings.Repeat(" |", len(t.head)-len(row)))
		}
		if t.after != "" {
			fmt.Fprintf(&b, "\n%s\n", t.after)
		}
	}
	return b.String()
}

// publish appends the results to the page.
func (r *run) publish() error {
	f, err := os.OpenFile(page, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(r.text())
	return errors.Join(err, f.Close())
}
