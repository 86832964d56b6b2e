package doctor

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-io/holdfast/cmd/internal/text"
)

// Print prints the report as text.
func (r *Report) Print(w io.Writer, colour bool) error {
	var b strings.Builder
	styles := map[Severity]text.Style{Error: text.Red, Warning: text.Yellow, Info: text.Dim}
	count := map[Severity]int{}
	for _, f := range r.Findings {
		count[f.Severity]++
		fmt.Fprintf(&b, "%s %s: %s\n", styles[f.Severity].Paint(fmt.Sprintf("%-7s", f.Severity), colour), text.Bold.Paint(f.ID, colour), text.Printable(f.What))
		fmt.Fprintf(&b, "        means: %s\n        mend:  %s\n", f.Means, f.Mend)
	}
	for _, told := range r.Told {
		fmt.Fprintf(&b, "%s %s\n", text.Green.Paint("ok     ", colour), text.Printable(told))
	}
	fmt.Fprintf(&b, "%s, %s, %d to be known; fine: %d of %d\n", text.Count(count[Error], "error", "errors"), text.Count(count[Warning], "warning", "warnings"), count[Info], len(r.Fine), len(kinds))
	_, err := io.WriteString(w, b.String())
	return err
}

// Catalogue prints all kinds of findings.
func Catalogue(w io.Writer, colour bool) error {
	table := text.Table{Colour: colour}
	table.Head("ID", "SEVERITY", "MEANS")
	for _, id := range slices.Sorted(maps.Keys(kinds)) {
		table.Add(text.Cells(id, string(kinds[id].Severity), kinds[id].means)...)
	}
	return table.Print(w)
}

// Known returns all kinds of findings, sorted by ID, with an empty What.
func Known() (all []Finding) {
	for _, id := range slices.Sorted(maps.Keys(kinds)) {
		all = append(all, find(id, ""))
	}
	return all
}
