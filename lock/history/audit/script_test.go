package audit_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/script"
	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/history/internal/tape"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestScripts runs the scripts in testdata: transactions, see [tape.Text], and the violations that they are,
// each by its rule. "of 1/5" is that of an earlier transaction, which this one has proven.
//
//	options grace=2s skew=1ms
//	begin 1/80       a snapshot, of the nodes before
//	opened 1 4s      a session that it has, and its timeout
//	end              what is not judged
func TestScripts(t *testing.T) {
	script.Each(t, "testdata", func(t *testing.T, sc *script.Scenario) {
		p := &player{Text: tape.NewText(t)}
		sc.Check(t, sc.Play(t, p.do), script.First)
	})
}

// player runs the lines of a script.
type player struct {
	*tape.Text
	opts           audit.Options
	a              *audit.Audit // nil until the first transaction, or snapshot
	told, restored int          // numbers of violations, and of contradictions, that were results
}

func (p *player) do(line string) (results []string) {
	words := strings.Fields(line)
	switch args := words[1:]; words[0] {
	case "options":
		for _, a := range args {
			switch name, value, _ := strings.Cut(a, "="); name {
			case "grace":
				p.opts.Grace = p.Span(value)
			case "skew":
				p.opts.Skew = p.Span(value)
			default:
				p.Fatalf("there is no option %s", name)
			}
		}
	case "begin":
		p.a = audit.New(p.opts)
		iferr.Fatal(p, p.a.Begin(p.Number(args[0]), p.Snapshot()))
	case "opened":
		p.a.Opened(txnlog.Session{ID: p.Number("0/" + args[0]), Timeout: p.Span(args[1])})
	case "end":
		r := p.a.Report()
		if r.Pending > 0 {
			results = append(results, fmt.Sprintf("%d pending", r.Pending))
		}
		for why, n := range r.Unjudged {
			results = append(results, fmt.Sprintf("%d not judged: %s", n, why))
		}
		slices.Sort(results)
	default:
		for _, x := range p.Line(words) {
			p.audit().Apply(&x)
			results = append(results, p.news(x.Zxid)...)
		}
	}
	return results
}

// audit returns the audit. It begins with a new ensemble, in which the root has been made.
func (p *player) audit() *audit.Audit {
	if p.a == nil {
		p.a = audit.New(p.opts)
		iferr.Fatal(p, p.a.Begin(0, nil))
		p.a.Apply(&txnlog.Txn{Zxid: 1, Time: tape.Epoch0, Ops: []txnlog.Op{tape.Create("/locks", nil)}})
	}
	return p.a
}

// news returns what the audit has found since the last call.
func (p *player) news(zxid int64) (results []string) {
	r := p.a.Report()
	for _, v := range r.Violations[p.told:] {
		p.Log(v)
		text := string(v.Rule)
		if v.Zxid != zxid {
			text += fmt.Sprintf(" of %d/%d", znode.Epoch(v.Zxid), znode.Counter(v.Zxid))
		}
		results = append(results, text)
	}
	for range r.Restored[p.restored:] {
		results = append(results, "restored")
	}
	p.told, p.restored = len(r.Violations), len(r.Restored)
	return results
}

// TestDocHasRules: the package's doc has all rules.
func TestDocHasRules(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	iferr.Fatal(t, err)
	for _, rule := range audit.Rules() {
		if !strings.Contains(string(doc), "\n//\t"+string(rule)+" ") {
			t.Errorf("doc.go lacks the rule %s", rule)
		}
	}
}
