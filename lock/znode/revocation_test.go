package znode_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/lock/znode"
)

var goldenRevocations = map[string]znode.Revocation{
	"revocation.json": {
		Request: id2, Entry: "orders/42/" + entry1, Owner: "deploy", Host: "node4", PID: 815, Reason: "<node3> is drained",
	},
}

func TestDecodeRevocationRefuses(t *testing.T) {
	entry := `"entry":"x/` + id1 + `-lock-0000000007"`
	if r, err := znode.DecodeRevocation(entry1, []byte(`{"holdfast":2,"of later":1,`+entry+`}`)); err != nil || r.Lock() != "x" {
		t.Fatalf("the case that the others are made from: %+v, %v", r, err)
	}
	for data, want := range map[string]error{
		``:                             znode.ErrForeign,
		`{`:                            znode.ErrForeign,
		`{` + entry + `}`:              znode.ErrForeign,
		`{"holdfast":3,"entry":7}`:     znode.ErrNewer,
		`{"holdfast":1,` + entry + `}`: znode.ErrForeign,
		`{"holdfast":2}`:               znode.ErrForeign,
		`{"holdfast":2,"entry":"x"}`:   znode.ErrForeign,
		`{"holdfast":2,"entry":"x/lock-0000000001"}`:                                             znode.ErrForeign,
		`{"holdfast":2,"entry":"/x/` + id1 + `-lock-0000000007"}`:                                znode.ErrForeign,
		`{"holdfast":2,"entry":"x/../` + id1 + `-lock-0000000007"}`:                              znode.ErrForeign,
		`{"holdfast":2,"entry":"` + id1 + `-lock-0000000007"}`:                                   znode.ErrForeign,
		`{"holdfast":2,"entry":"x/` + id1 + `-lock-0000000008"}`:                                 znode.ErrForeign,
		`{"holdfast":2,` + entry + `,"reason":"` + strings.Repeat("x", znode.MaxReason+1) + `"}`: znode.ErrForeign,
	} {
		if _, err := znode.DecodeRevocation(entry1, []byte(data)); !errors.Is(err, want) {
			t.Errorf("%.80s: %v, want %v", data, err, want)
		}
	}
}

// TestHolders: Holders returns the contenders at the head of the queue that hold the lock. It calls
// shares only for a read/write lock.
func TestHolders(t *testing.T) {
	entry := func(token string, seq int) string { return fmt.Sprintf("%016x%s%010d", seq, token, seq) }
	r, w, l, l2 := "-__READ__", "-__WRIT__", "-lock-", "-2-lock-"
	for i, tt := range []struct {
		tokens []string
		rules  znode.Rules
		shares bool
		want   int
	}{
		{nil, znode.Rules{Kind: znode.Mutex}, false, 0},
		{[]string{l, l, l}, znode.Rules{Kind: znode.Mutex}, false, 1},
		{[]string{"__lock__"}, znode.Rules{}, false, 1},
		{[]string{r, r, w, r}, znode.Rules{Kind: znode.RW}, true, 2},
		{[]string{w, r, r, w, r}, znode.Rules{Kind: znode.RW}, false, 1},
		{[]string{w, r, r, w, r}, znode.Rules{Kind: znode.RW}, true, 3},
		{[]string{w, w, r}, znode.Rules{Kind: znode.RW}, true, 1},
		{[]string{l, r}, znode.Rules{Kind: znode.RW}, true, 1},
		{[]string{l, l2, l, l}, znode.Rules{Kind: znode.Semaphore, Capacity: 3}, false, 2},
		{[]string{l2, l2, l}, znode.Rules{Kind: znode.Semaphore, Capacity: 3}, false, 1},
		{[]string{l2, l}, znode.Rules{Kind: znode.Semaphore, Capacity: 1}, false, 0},
	} {
		var nodes []string
		for seq, token := range tt.tokens {
			nodes = append(nodes, entry(token, seq))
		}
		asked := 0
		got := znode.Holders(znode.Contenders(nodes), tt.rules, func(n znode.Name) bool {
			asked++
			return tt.shares && n.Seq == 0
		})
		if len(got) != tt.want || asked > 0 && tt.rules.Kind != znode.RW {
			t.Errorf("%d: %v are in, want %d; asked %d times", i, got, tt.want, asked)
		}
	}
}
