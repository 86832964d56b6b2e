package list

import (
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/golden"
	"github.com/holdfast-io/holdfast/cmd/internal/text"
)

// TestTop: in each order, and on a small terminal, the live view has at most as many lines as the
// terminal.
func TestTop(t *testing.T) {
	all := Listing{Root: "/locks", Path: "/locks", Time: at(noon), Unread: listings["busy"].Unread}
	for _, name := range []string{"busy", "odd", "wide"} {
		all.Nodes = append(all.Nodes, listings[name].InUse().Nodes...)
	}
	for file, v := range map[string]View{
		"top-waiters.txt": {Order: ByWaiters, Width: 120, Height: 40},
		"top-age.txt":     {Order: ByAge, Width: 120, Height: 40},
		"top-name.txt":    {Order: ByName, Width: 120, Height: 40},
		"top-small.txt":   {Order: ByName, Width: 40, Height: 6, Skip: 2, Note: "no session with ZooKeeper\x1b[2J"},
		"top-end.txt":     {Order: ByName, Width: 80, Height: 5, Skip: 1000},
		"top-100.txt":     {Order: ByName, Width: 100, Height: 40},
	} {
		got := all.Top(v)
		golden.Check(t, file, []byte(got))
		if n := strings.Count(got, "\n"); n > v.Height {
			t.Errorf("%s has %d lines", file, n)
		}
	}
	for _, height := range []int{0, 1, 2, 3} { // the user makes the terminal smaller
		if got := all.Top(View{Order: ByName, Width: 3, Height: height}); text.Width(strings.SplitN(got, "\n", 2)[0]) > 3 {
			t.Errorf("%q", got)
		}
	}
	if got := (Listing{Path: "/locks"}).Top(View{Order: ByAge, Width: 80, Height: 10}); !strings.Contains(got, "0 locks, 0 waiting") {
		t.Error(got)
	}
}
