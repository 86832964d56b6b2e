package incident

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/cmd/internal/text"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/history"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/znode"
)

const (
	logs = "../../testdata/incident/server-1"
	root = "/it-7472e92e4a8df3a6"
)

// report returns the report of the recorded incident, with its state at the given moments.
func report(t *testing.T, o Options, at ...history.Asked) *Report {
	t.Helper()
	l, err := txnlog.Open(logs)
	iferr.Fatal(t, err)
	o.Root = root
	r := New(o)
	m := history.New(history.Options{Root: root, At: at}, r.Add)
	for txn, err := range l.Txns(txnlog.Range{}) {
		iferr.Fatal(t, err)
		m.Apply(&txn)
	}
	m.End()
	r.Finish(m)
	return r
}

// TestWidth: on a terminal of 60 columns or more no line is wider than the terminal.
func TestWidth(t *testing.T) {
	for _, o := range []Options{{What: "orders/42"}, {Overview: true}, {Owner: "shop-3"}} {
		for _, width := range []int{60, 80, 100, 200} {
			var out bytes.Buffer
			iferr.Fatal(t, report(t, o).Print(&out, width, false))
			for line := range strings.Lines(out.String()) {
				if n := text.Width(strings.TrimSuffix(line, "\n")); n > width {
					t.Errorf("%+v: %d of %d columns: %s", o, n, width, line)
				}
			}
		}
	}
}

// TestLongNames: with long names of locks and owners no line is wider than the terminal, except titles
// and lines with hosts.
func TestLongNames(t *testing.T) {
	r := New(Options{Owner: strings.Repeat("long-", 40)})
	m := history.New(history.Options{Root: "/locks"}, r.Add)
	for i := range 3 {
		rec := znode.Record{Version: znode.Version, Owner: r.Owner, Host: strings.Repeat("host.", 30), PID: 1, TTL: 30_000}
		node := fmt.Sprintf("/locks/%s/%d/9f86d081884c7d65-lock-0000000000", strings.Repeat("注文", 20), i)
		m.Apply(&txnlog.Txn{Zxid: int64(1<<32 + i), Time: time.UnixMilli(int64(i) * 1000), Session: 1, Ops: []txnlog.Op{{Kind: txnlog.OpCreate, Path: node, Data: rec.Encode()}}})
	}
	m.End()
	r.Finish(m)
	for _, width := range []int{60, 80, 120} {
		var out bytes.Buffer
		iferr.Fatal(t, r.Print(&out, width, false))
		for line := range strings.Lines(out.String()) {
			title := strings.HasPrefix(line, "注文")
			if n := text.Width(strings.TrimSuffix(line, "\n")); n > width && !title && !strings.Contains(line, "host.host") {
				t.Errorf("%d of %d columns: %s", n, width, line)
			}
		}
		if !strings.Contains(out.String(), "granted") {
			t.Error(out.String())
		}
	}
}

// TestColours: colors do not change the text.
func TestColours(t *testing.T) {
	var plain, coloured bytes.Buffer
	r := report(t, Options{What: "orders/42"}, history.Asked{Zxid: 0x100000044})
	r.Moments = nil
	iferr.Fatal(t, r.Print(&plain, 100, false))
	iferr.Fatal(t, r.Print(&coloured, 100, true))
	if got := regexp.MustCompile("\x1b\\[[0-9]*m").ReplaceAllString(coloured.String(), ""); got != plain.String() || got == coloured.String() {
		t.Errorf("got\n%s\nwant\n%s", got, &plain)
	}
}

// TestInDoubt: from a step of the leader's clock until the entry's next write, pictures and page mark its
// hold as not known. The incident's clock was stepped ahead by an hour.
func TestInDoubt(t *testing.T) {
	r := report(t, Options{What: "orders/42"})
	var terminal, page bytes.Buffer
	iferr.Fatal(t, errors.Join(r.Print(&terminal, 100, false), r.HTML(&page)))
	if !regexp.MustCompile(`(?m)^#4 shop-3 +·+█\?{20,}◆█+┤$`).MatchString(terminal.String()) {
		t.Errorf("the picture:\n%s", &terminal)
	}
	if !regexp.MustCompile(`<rect class="doubt"[^>]*><title>#4 shop-3: doubt from 12:53:31.018 to 12:53:58.522`).MatchString(page.String()) {
		t.Errorf("the page:\n%s", &page)
	}
}

// hostile returns a report of a lock whose clients wrote HTML and control characters. It passes each
// event to add.
func hostile(t *testing.T, add func(*history.Machine, history.Event)) *Report {
	t.Helper()
	const evil = "</style><script>alert(1)</script>\x1b[2J\u202e\"'&\n{{.}}"
	r := New(Options{Root: "/locks", What: "l"})
	var m *history.Machine
	m = history.New(history.Options{Root: "/locks", Reaper: ""}, func(e history.Event) { r.Add(e); add(m, e) })
	name := "/locks/l/9f86d081884c7d65-lock-0000000000"
	rec := znode.Record{Version: znode.Version, Owner: evil, Host: evil, PID: 1, TTL: 1000}
	broken := rec
	broken.Broken = &znode.Broken{Owner: evil, Host: evil, Reason: evil}
	start := time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)
	for i, op := range []txnlog.Op{
		{Kind: txnlog.OpCreate, Path: name, Data: rec.Encode()},
		{Kind: txnlog.OpSetData, Path: name, Data: broken.Encode()},
		{Kind: txnlog.OpSetData, Path: name, Data: []byte(evil)},
		{Kind: txnlog.OpDelete, Path: name},
	} {
		m.Apply(&txnlog.Txn{Zxid: int64(1<<32 + i + 1), Time: start.Add(time.Duration(i) * 100 * time.Millisecond), Session: 1, Ops: []txnlog.Op{op}})
	}
	m.End()
	r.Warnings = []string{evil}
	r.Finish(m)
	return r
}

// TestHostile: texts of clients reach a terminal without control characters, a page without HTML, and
// a JSON document unchanged.
func TestHostile(t *testing.T) {
	var document bytes.Buffer
	s := NewStream(&document, Options{Root: "/locks"})
	r := hostile(t, func(m *history.Machine, e history.Event) {
		iferr.Error(t, s.Add(m, e))
	})
	iferr.Fatal(t, s.Close(r.m, r))
	var doc struct {
		Events []struct{ Client struct{ Owner string } }
	}
	if err := json.Unmarshal(document.Bytes(), &doc); err != nil || len(doc.Events) == 0 || !strings.Contains(doc.Events[0].Client.Owner, "<script>") {
		t.Errorf("%v: %s", err, &document)
	}
	var terminal, page bytes.Buffer
	iferr.Fatal(t, r.Print(&terminal, 80, false))
	if strings.ContainsAny(terminal.String(), "\x1b\u202e") || !strings.Contains(terminal.String(), "alert(1)") {
		t.Errorf("%q", &terminal)
	}
	iferr.Fatal(t, r.HTML(&page))
	if n := strings.Count(page.String(), "<script"); n > 0 || strings.Count(page.String(), "</style>") != 1 || !strings.Contains(page.String(), "&lt;script&gt;") {
		t.Errorf("%d scripts, in\n%s", n, &page)
	}
}

// TestFolds: consecutive renewals of an entry are one row, even with events of other entries between
// them.
func TestFolds(t *testing.T) {
	r := New(Options{})
	m := history.New(history.Options{Root: "/locks"}, r.Add)
	rec := func(owner string) []byte {
		return (&znode.Record{Version: znode.Version, Owner: owner, TTL: 30_000}).Encode()
	}
	node := func(i int) string { return fmt.Sprintf("/locks/l/9f86d081884c7d65-lock-%010d", i) }
	n := int64(1 << 32)
	do := func(session int64, op txnlog.Op) {
		n++
		m.Apply(&txnlog.Txn{Zxid: n, Time: time.UnixMilli((n - 1<<32) * 1000), Session: session, Ops: []txnlog.Op{op}})
	}
	for i := range 2 {
		do(int64(i+1), txnlog.Op{Kind: txnlog.OpCreate, Path: node(i), Data: rec(fmt.Sprint(i))})
	}
	for range 5 {
		for i := range 2 {
			do(int64(i+1), txnlog.Op{Kind: txnlog.OpSetData, Path: node(i), Data: rec(fmt.Sprint(i))})
		}
	}
	m.End()
	r.Finish(m)
	var got []string
	for _, row := range r.Rows {
		got = append(got, fmt.Sprintf("%s %s %d #%d", row.Kind, row.Who.Owner, row.Count, row.Number))
	}
	want := []string{"joined 0 1 #1", "granted 0 1 #1", "joined 1 1 #2", "renewed 0 5 #1", "renewed 1 5 #2"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestBeginAndEnd: for a given time, begin finds the first stamp that is not before it, and end the
// last stamp that is not after it, even if the leader's clock was stepped.
func TestBeginAndEnd(t *testing.T) {
	r := report(t, Options{What: "orders/42"})
	at := func(s string) time.Time {
		stamp, err := time.Parse(time.RFC3339, "2026-11-26T"+s+"Z")
		iferr.Fatal(t, err)
		return stamp
	}
	for _, c := range []struct{ since, until, from, to string }{
		{"11:53:20", "11:53:30", "11:53:20.000", "11:53:30.000"},
		{"10:00:00", "14:00:00", "11:53:17.667", "11:54:32.807"},
		{"12:00:00", "12:53:40", "12:53:31.018", "11:54:32.807"}, // later stamps, of another leader, are not after it either
		{"12:54:20", "11:54:30", "12:54:20.000", "11:54:30.000"},
	} {
		from, to := r.begin(at(c.since)), r.end(at(c.until))
		if got := r.clock(r.stamp(from)) + " " + r.clock(r.stamp(to)); got != c.from+" "+c.to {
			t.Errorf("%s until %s: %s, want %s %s", c.since, c.until, got, c.from, c.to)
		}
	}
}
