package integration_test

import (
	"regexp"
	"strings"
	"testing"
)

// TestFamiliesOfJobs: lock/FAMILIES.md has the results of ticks of integration/compare, in rows for the
// races on one ZooKeeper server and in rows for the races on several.
func TestFamiliesOfJobs(t *testing.T) {
	var one, several [][][]string // cells by race and row
	results := strings.Split(text(t, "compare/README.md"), "\n### A job each second\n")
	for _, result := range results[1:] {
		result, _, _ = strings.Cut(result, "\n### ")
		if !regexp.MustCompile(`DURATION=\d+m`).MatchString(result) {
			t.Errorf("a race did not last for minutes: %.150s", result)
		}
		var rows [][]string
		for line := range strings.Lines(result) {
			if strings.HasPrefix(line, "| ") {
				rows = append(rows, strings.Split(strings.Trim(line, "| \n"), " | "))
			}
		}
		if strings.Contains(result, "SERVERS=1") {
			one = append(one, rows[1:])
		} else {
			several = append(several, rows[1:])
		}
	}
	page := text(t, "../lock/FAMILIES.md")
	if len(one) < 2 {
		t.Fatalf("there are %d results on one server, want 2", len(one))
	}
	for _, races := range [][][][]string{one, several} {
		if len(races) == 0 {
			continue
		}
		for i, cells := range races[0] {
			row := "| " + cells[0]
			for at, cell := range cells {
				if at < 2 { // the group, and the number of ticks, which is the heading
					continue
				}
				for _, more := range races[1:] {
					if cell != "–" { // not counted in this group
						cell += " / " + more[i][at]
					}
				}
				row += " | " + cell
			}
			row += " |\n"
			if !strings.Contains(page, row) {
				t.Errorf("lock/FAMILIES.md must have the row\n%s", row)
			}
		}
	}
}
