package integration_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// raced is a result of integration/compare.
type raced struct {
	Kind     string
	Seed     uint64
	Duration time.Duration
	Servers  int
	Tables   []struct{ Rows [][]string }
}

// TestFamiliesOfJobs: lock/FAMILIES.md has the results of ticks of integration/compare, in rows for the
// races on one ZooKeeper server and in rows for the races on several.
func TestFamiliesOfJobs(t *testing.T) {
	var one, several []raced
	for line := range strings.Lines(text(t, "compare/results.jsonl")) {
		var r raced
		iferr.Fatal(t, json.Unmarshal([]byte(line), &r))
		if r.Kind != "ticks" {
			continue
		}
		if r.Duration < 10*time.Minute {
			t.Errorf("the race with seed %d lasted %v", r.Seed, r.Duration)
		}
		if r.Servers == 1 {
			one = append(one, r)
		} else {
			several = append(several, r)
		}
	}
	page := text(t, "../lock/FAMILIES.md")
	if len(one) < 2 {
		t.Fatalf("there are %d results on one server, want 2", len(one))
	}
	for _, races := range [][]raced{one, several} {
		if len(races) == 0 {
			continue
		}
		for i, cells := range races[0].Tables[0].Rows {
			row := "| " + cells[0]
			for at, cell := range cells {
				if at < 2 { // the group, and the number of ticks, which is the heading
					continue
				}
				for _, more := range races[1:] {
					if cell != "–" { // not counted in this group
						cell += " / " + more.Tables[0].Rows[i][at]
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
