package list

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/golden"
	"github.com/holdfast-io/holdfast/cmd/internal/text"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/admin/jsonout"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// noon is the time of the listings.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func at(t time.Time) admin.Time {
	return admin.Time{Lower: time.Duration(t.UnixNano()) - 3*time.Millisecond, Upper: time.Duration(t.UnixNano()), Zxid: 99}
}

func tokenOf(czxid int64) lock.Token {
	return admin.TokenOf(&znode.Entry{Stat: znode.Stat{Czxid: czxid}})
}

func contender(path string, token int64, owner string, pid int, left time.Duration) admin.Contender {
	return admin.Contender{
		Path: path, Token: tokenOf(token), Ours: true, Owner: owner, Host: "node3", PID: pid,
		Read: at(noon), TTL: 30 * time.Second, Expires: noon.Add(left),
	}
}

func holder(path string, token int64, owner string, pid int, left, held time.Duration) admin.Contender {
	c := contender(path, token, owner, pid, left)
	c.Acquired = noon.Add(-held)
	return c
}

var listings = map[string]Listing{
	"empty":  {Root: "/locks", Path: "/locks/orders", Time: at(noon)},
	"unread": {Root: "/locks", Path: "/locks", Unread: []Unread{{"/locks", zk.ErrNoAuth}}},
	"busy": {
		Root: "/locks", Time: at(noon),
		Nodes: []admin.State{
			{Name: "imports/a", Kind: znode.Mutex, Contenders: []admin.Contender{
				holder("/locks/imports/a/9f86d081884c7d65-lock-0000000000", 4294967301, "import", 7, 4*time.Minute+59900*time.Millisecond, 2*time.Hour),
			}},
			{Name: "orders/42", Kind: znode.Mutex, Contenders: []admin.Contender{
				func() admin.Contender {
					c := holder("/locks/orders/42/9f86d081884c7d65-lock-0000000007", 4294967311, "shop-7f9c", 4711, 27430*time.Millisecond, 95*time.Second)
					c.Metadata = map[string]string{"job": "ship <now>"}
					return c
				}(),
				contender("/locks/orders/42/60303ae22b998861-lock-0000000008", 4294967312, "shop-8d1e", 12, 29100*time.Millisecond),
				{Path: "/locks/orders/42/_c_8fb1c83d8d1e4a02a1b1b1c1d1e1f1a1-lock-0000000009", Session: 0x100a3c0f1d20004, Token: tokenOf(4294967313)},
				contender("/locks/orders/42/1b4f0e9851971998-lock-0000000010", 4294967314, "rather-long-name-of-an-owner", 13, -3250*time.Millisecond),
			}},
		},
		Unread: []Unread{{"/locks/secret", zk.ErrNoAuth}},
	},
	// An expired entry, which is listed as the holder until its purge. Two readers share a lock, and
	// so do a downgraded writer and a reader.
	"odd": {
		Root: "/locks", Time: at(noon),
		Nodes: []admin.State{
			{Name: "catalog", Kind: znode.RW, Contenders: []admin.Contender{
				holder("/locks/catalog/9f86d081884c7d65-__READ__0000000000", 4294967301, "a", 1, 20*time.Second, time.Second),
				contender("/locks/catalog/60303ae22b998861-__READ__0000000001", 4294967302, "b", 2, 20*time.Second),
				contender("/locks/catalog/1b4f0e9851971998-__WRIT__0000000002", 4294967303, "c", 3, 20*time.Second),
				contender("/locks/catalog/fd61a03af4f77d87-__READ__0000000003", 4294967304, "d", 4, 20*time.Second),
			}},
			{Name: "crashed", Kind: znode.Mutex, Contenders: []admin.Contender{
				holder("/locks/crashed/9f86d081884c7d65-lock-0000000000", 4294967305, "a\x1b[2Jb\n", 1, -90*time.Second, time.Hour),
			}},
			{Name: "downgraded", Kind: znode.RW, Contenders: []admin.Contender{
				func() admin.Contender {
					c := holder("/locks/downgraded/9f86d081884c7d65-__WRIT__0000000000", 4294967306, "a", 1, 20*time.Second, time.Second)
					c.Shares = true
					return c
				}(),
				contender("/locks/downgraded/60303ae22b998861-__READ__0000000001", 4294967307, "b", 2, 20*time.Second),
				contender("/locks/downgraded/1b4f0e9851971998-__WRIT__0000000002", 4294967308, "c", 3, 20*time.Second),
			}},
			{Name: "idle", Kind: znode.Mutex},
			{Name: "orders", Kind: znode.Dir, Children: []string{"42"}},
			{Name: "slots", Kind: znode.Semaphore, Permits: 4, Contenders: []admin.Contender{
				holder("/locks/slots/9f86d081884c7d65-3-lock-0000000000", 4294967309, "a", 1, 20*time.Second, time.Second),
				contender("/locks/slots/60303ae22b998861-lock-0000000001", 4294967310, "b", 2, 20*time.Second),
				contender("/locks/slots/1b4f0e9851971998-2-lock-0000000002", 4294967311, "c", 3, 20*time.Second),
			}},
			{Name: "stranger"},
			{Name: "torn", Kind: znode.Mutex, Contenders: []admin.Contender{
				{Path: "/locks/torn/9f86d081884c7d65-lock-0000000000", Token: tokenOf(4294967312), Err: fmt.Errorf("%w: unexpected end of JSON input", znode.ErrForeign)},
			}},
		},
	},
	// Names of wide characters, and names that exceed the column.
	"wide": {
		Root: "/locks", Time: at(noon),
		Nodes: []admin.State{
			{Name: "注文/四十二", Kind: znode.Mutex, Contenders: []admin.Contender{
				holder("/locks/注文/四十二/9f86d081884c7d65-lock-0000000000", 5, "受付", 1, 10*time.Second, time.Minute),
				contender("/locks/注文/四十二/60303ae22b998861-lock-0000000001", 6, "一二三四五六七八九十一二三四五六七八九十", 2, 10*time.Second),
			}},
			{Name: "a/name/that/is/much/longer/than/the/names/of/locks/are/wont/to/be", Kind: znode.Mutex, Contenders: []admin.Contender{
				holder("/locks/a/name/9f86d081884c7d65-lock-0000000000", 7, "a", 1, 10*time.Second, time.Minute),
				contender("/locks/a/name/60303ae22b998861-lock-0000000001", 8, "b", 2, 10*time.Second),
			}},
			{Name: "a/name/that/is/much/longer/than/the/names/of/locks/are/and/of/no/use", Kind: znode.Mutex},
			{Name: "short", Kind: znode.Mutex},
		},
	},
	// Without a sample of ensemble time, the remaining lease is unknown.
	"timeless": {
		Root: "/locks",
		Nodes: []admin.State{
			{Name: "x", Kind: znode.Mutex, Contenders: []admin.Contender{
				func() admin.Contender {
					c := holder("/locks/x/9f86d081884c7d65-lock-0000000000", 5, "a", 1, 10*time.Second, time.Minute)
					c.Read = admin.Time{}
					return c
				}(),
			}},
		},
	},
}

func TestPrint(t *testing.T) {
	for name, l := range listings {
		var table, document bytes.Buffer
		iferr.Fatal(t, errors.Join(l.Table(&table, 0, false), jsonout.Document(&document, l.Document())))
		golden.Check(t, name+".txt", table.Bytes())
		golden.Check(t, name+".json", document.Bytes())
	}
}

// TestTableOnTerminal: on a terminal of 60 columns or more no line is wider than the terminal. On a
// narrower one the remaining lease and the holder are still shown.
func TestTableOnTerminal(t *testing.T) {
	for _, width := range []int{100, 80, 60, 1} {
		var got bytes.Buffer
		iferr.Fatal(t, listings["busy"].Table(&got, width, false))
		golden.Check(t, fmt.Sprintf("busy-%d.txt", width), got.Bytes())
		for line := range strings.SplitSeq(got.String(), "\n") {
			if width >= 60 && text.Width(line) > width {
				t.Errorf("wider than %d: %q", width, line)
			}
		}
	}
}

func TestInUse(t *testing.T) {
	all := listings["odd"]
	used := all.InUse()
	if len(used.Nodes) != 5 || used.Nodes[0].Name != "catalog" || used.Nodes[1].Name != "crashed" {
		t.Errorf("in use: %+v", used.Nodes)
	}
	if len(all.Nodes) != 8 || all.Nodes[3].Name != "idle" {
		t.Errorf("the listing itself has changed: %+v", all.Nodes)
	}
}

func TestRemaining(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                        "0.0s",
		99 * time.Millisecond:    "0.0s",
		1999 * time.Millisecond:  "1.9s",
		59999 * time.Millisecond: "59.9s",
		time.Minute:              "1m0s",
		90*time.Minute + 1:       "1h30m0s",
		-1500 * time.Millisecond: "expired 1.5s",
		-2 * time.Hour:           "expired 2h0m0s",
	} {
		if got := Remaining(d); got != want {
			t.Errorf("Remaining(%v) = %q, want %q", d, got, want)
		}
	}
}
