package locktest

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func drawOp(t *rapid.T) op {
	o := op{
		code:    rapid.SampledFrom([]int32{opCreate, opCreate, opCreate2, opDelete, opSetData, opCheck}).Draw(t, "op"),
		path:    rapid.SampledFrom([]string{"/a", "/b", "/a/x", "/a/y", "/a/x/p", "/b/x", "/", "/a/", ""}).Draw(t, "path"),
		version: rapid.SampledFrom([]int32{-1, -1, 0, 1, 2}).Draw(t, "version"),
		acl:     worldAll,
	}
	if o.code == opCreate || o.code == opCreate2 {
		o.flags = rapid.Int32Range(0, 3).Draw(t, "flags")
	}
	return o
}

// TestMultiIsItsOperationsInOrder: a multi has the effect of its operations one after the other if
// all succeed, and otherwise none. So its checks, which come before any change, equal those of
// single operations.
func TestMultiIsItsOperationsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const session = 7
		base, zxid := newTree(), int64(0)
		silent := func(int32, string) {}
		run := func(tree *tree, multi bool, ops ...op) *txn {
			x := &txn{zxid: zxid, session: session}
			p := preparer{tree: tree, session: session}
			if multi {
				p.multi(x, ops)
			} else {
				p.single(x, &ops[0])
			}
			tree.apply(x, silent)
			return x
		}
		zxid++
		for range rapid.IntRange(0, 10).Draw(t, "nodes before") {
			run(base, false, drawOp(t))
		}
		before := base.clone()
		var ops []op
		for range rapid.IntRange(0, 8).Draw(t, "operations") {
			ops = append(ops, drawOp(t))
		}
		zxid++
		together, apart := base.clone(), base.clone()
		x := run(together, true, ops...)
		failed := false
		for i, o := range ops {
			r := x.results[i]
			if failed {
				if r.code != opError || r.err != codeRuntimeInconsistency {
					t.Fatalf("operation %d, after the one that failed: %+v", i, r)
				}
				continue
			}
			alone := run(apart, false, o).results[0]
			switch failed = alone.err != codeOK; {
			case failed && r != alone:
				t.Fatalf("operation %d: %+v in a multi, %+v alone", i, r, alone)
			case !failed && r.code == opError && r.err != codeOK:
				t.Fatalf("operation %d: %+v in a multi, %+v alone", i, r, alone)
			case !failed && r.code != opError && r != alone:
				t.Fatalf("operation %d: %+v in a multi, %+v alone", i, r, alone)
			}
		}
		want := apart
		if failed {
			want = before.clone()
			want.zxid = zxid
		}
		if !maps.EqualFunc(together.nodes, want.nodes, func(a, b *node) bool { return reflect.DeepEqual(a.stat(), b.stat()) }) {
			t.Fatalf("the multi's tree is another one")
		}
		if together.zxid != zxid {
			t.Fatalf("zxid %d after transaction %d", together.zxid, zxid)
		}
		for _, tree := range []*tree{base, together, apart} {
			if err := checkTree(tree); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(base, before) {
			t.Fatal("a change of a clone shows in the tree it was made of")
		}
	})
}

// TestSequenceSticks: at 2147483647 a real server's counter sticks. Single creates get that number
// forever. Within a multi the number turns negative, because prepared creates count before they are
// applied.
func TestSequenceSticks(t *testing.T) {
	tree := newTree()
	zxid := int64(0)
	run := func(ops ...op) []string {
		t.Helper()
		zxid++
		x := &txn{zxid: zxid}
		p := preparer{tree: tree}
		p.multi(x, ops)
		tree.apply(x, func(int32, string) {})
		var names []string
		for _, r := range x.results {
			if r.err != codeOK {
				names = append(names, fmt.Sprint(r.err))
			} else {
				names = append(names, strings.TrimPrefix(r.path, "/p/"))
			}
		}
		return names
	}
	join := func(prefix string) op {
		return op{code: opCreate, path: "/p/" + prefix, acl: worldAll, flags: flagSequential}
	}
	run(op{code: opCreate, path: "/p", acl: worldAll})
	tree.nodes["/p"].cversion = math.MaxInt32 - 1
	for i, step := range []struct {
		ops  []op
		want []string
		cver int32
		// shows means that the parent's pzxid shows the transaction. Once the counter sticks, the pzxid
		// does not change any more.
		shows bool
	}{
		{[]op{join("a-")}, []string{"a-2147483646"}, math.MaxInt32, true},
		{[]op{join("b-")}, []string{"b-2147483647"}, math.MaxInt32, false},
		{[]op{join("c-")}, []string{"c-2147483647"}, math.MaxInt32, false},
		{[]op{join("c-")}, []string{"-110"}, math.MaxInt32, false},
		{[]op{join("d-"), join("d-"), join("d-")}, []string{"d-2147483647", "d--2147483648", "d--2147483647"}, math.MaxInt32, false},
		{[]op{join("e-")}, []string{"e-2147483647"}, math.MaxInt32, false},
	} {
		pzxid := tree.nodes["/p"].pzxid
		got := run(step.ops...)
		if !slices.Equal(got, step.want) {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
		p := tree.nodes["/p"]
		if p.cversion != step.cver || (p.pzxid != pzxid) != step.shows {
			t.Errorf("step %d: counter %d, pzxid %d after %d; want counter %d, pzxid moved %v",
				i, p.cversion, p.pzxid, pzxid, step.cver, step.shows)
		}
	}
	if err := checkTree(tree); err != nil {
		t.Error(err)
	}
}
