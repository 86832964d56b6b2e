package reaper_test

import (
	"slices"
	"testing"

	"github.com/holdfast-io/holdfast/reaper"
)

// TestGroups: each sweep names the nodes with a child plan, also while their locks are live and
// remembered.
func TestGroups(t *testing.T) {
	simulate(t, func(w *world) {
		z, r := w.raw("others"), w.reaper("r", reaper.Options{})
		w.dead(z, "orders/partitions/plan")
		w.dead(z, "orders/partitions/0")
		w.dead(z, "orders/planned")
		w.dead(z, "plan")
		for range 2 {
			if got := w.mustSweep(r).Groups; !slices.Equal(got, []string{"orders/partitions"}) {
				t.Errorf("the groups are %q", got)
			}
		}
	})
}
