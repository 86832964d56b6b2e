package reaper

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
)

// TestNames: each name is returned once, in order, with a flag on the last one.
func TestNames(t *testing.T) {
	for _, n := range []int{0, 1, namesAtOnce, namesAtOnce + 1, 3*namesAtOnce - 1, 3 * namesAtOnce} {
		var want []string
		for i := range n {
			want = append(want, fmt.Sprint("job", i))
		}
		names := newNames(slices.Clone(want))
		var got []string
		for {
			name, more := names.take()
			if name == "" {
				break
			}
			if got = append(got, name); more != (len(got) < n) {
				t.Errorf("%d names: after %d there are more: %v", n, len(got), more)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d names: %d came", n, len(got))
		}
	}
}

// TestNamesTakeLittle: a million pending names take at most 16 MiB, half as much as strings, and
// nothing after they were taken.
func TestNamesTakeLittle(t *testing.T) {
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	const million = 1_000_000
	before := heap()
	all := make([]string, million)
	for i := range all {
		all[i] = fmt.Sprintf("job%07d", i)
	}
	names := newNames(all)
	all = nil
	if took := heap() - before; took > 16<<20 {
		t.Errorf("they take %d bytes", took)
	}
	for range million - 1 {
		names.take()
	}
	if took := heap() - before; took > 1<<20 {
		t.Errorf("%d bytes are kept of what was taken", took)
	}
	if last, more := names.take(); last != "job0999999" || more {
		t.Errorf("the last one is %q, more: %v", last, more)
	}
}
