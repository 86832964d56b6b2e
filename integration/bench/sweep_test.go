package main

import (
	"path"
	"runtime"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestForest: a forest has the expected numbers of directories and nodes, also if the last
// directory is not full. The names of its trees and entries are in Holdfast's format.
func TestForest(t *testing.T) {
	for _, c := range []struct {
		trees        int
		nested       bool
		dirs, perDir int
	}{
		{10, false, 0, 10},
		{9, true, 3, 3},
		{10, true, 3, 4},
		{1_000_000, true, 1000, 1000},
	} {
		f := &forest{trees: c.trees, nested: c.nested, at: "/root"}
		if f.dirs() != c.dirs || f.perDir() != c.perDir || f.nodes() != 2*c.trees+c.dirs {
			t.Errorf("%d trees, nested %v: %d directories of %d, %d nodes", c.trees, c.nested, f.dirs(), f.perDir(), f.nodes())
		}
		dirs, entries := map[string]bool{}, map[string]bool{}
		for i := range min(c.trees, 10) {
			one := f.tree(i)
			dirs[path.Dir(one.at)], entries[one.entry] = true, true
			name, ok := znode.Parse(path.Base(one.entry))
			if !ok || !name.Ours() || path.Dir(one.entry) != one.at || znode.CheckName(strings.TrimPrefix(one.at, "/root/")) != nil {
				t.Errorf("tree %d is %+v", i, one)
			}
		}
		if len(entries) != min(c.trees, 10) || c.trees <= 10 && len(dirs) != max(1, c.dirs) {
			t.Errorf("%d trees, nested %v: %d entries in %d directories", c.trees, c.nested, len(entries), len(dirs))
		}
	}
}

func TestHeapOf(t *testing.T) {
	const size = 32 << 20
	var kept []byte
	peak, err := heapOf(func() error {
		kept = make([]byte, size)
		return nil
	})
	if err != nil || peak < size || peak > 2*size {
		t.Errorf("at its peak the heap is %.0f bytes larger, %v; want about %d", peak, err, size)
	}
	runtime.KeepAlive(kept)
}
