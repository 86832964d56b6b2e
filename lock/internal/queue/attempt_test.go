package queue

import (
	"testing"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestAnyVersion: the parent is written under any version only if an entry proves which
// parent it is, and nothing else in it can have changed: neither its kind, nor the number of
// permits of a semaphore, nor whether it is adopted.
func TestAnyVersion(t *testing.T) {
	proven := attempt{witness: "/locks/x/w", version: 7, parent: facts{exists: true, ours: true, data: znode.Parent{Kind: znode.Mutex}}}
	for name, tt := range map[string]struct {
		but  func(a *attempt)
		kind znode.Kind
		any  bool
	}{
		"a mutex of ours":     {func(*attempt) {}, znode.Mutex, true},
		"a lock to read":      {func(a *attempt) { a.parent.data.Kind = znode.RW }, znode.RW, true},
		"adopted already":     {func(a *attempt) { a.parent.ours, a.parent.data.Adopted = false, true }, znode.Mutex, true},
		"may become adopted":  {func(a *attempt) { a.parent.ours = false }, znode.Mutex, false},
		"no witness":          {func(a *attempt) { a.witness = "" }, znode.Mutex, false},
		"not there":           {func(a *attempt) { a.parent.exists = false }, znode.Mutex, false},
		"of another kind":     {func(*attempt) {}, znode.RW, false},
		"a number of permits": {func(a *attempt) { a.parent.data.Kind = znode.Semaphore }, znode.Semaphore, false},
	} {
		a := proven
		tt.but(&a)
		want := a.version
		if tt.any {
			want = -1
		}
		if got := a.under(tt.kind); got != want {
			t.Errorf("%s: under version %d, want %d", name, got, want)
		}
	}
}
