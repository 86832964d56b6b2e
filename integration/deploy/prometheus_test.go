package deploy

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// documented returns the labels of the reaper's metrics by name, from the doc of package status. A
// test of that package compares the doc with the served metrics.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	doc, err := os.ReadFile("../../reaper/status/doc.go")
	iferr.Fatal(t, err)
	found := map[string][]string{"up": nil}
	for _, m := range regexp.MustCompile(`(?m)^//\t(holdfast_\w+) +(gauge|counter|histogram) +(\w+(?:, \w+)*)`).FindAllStringSubmatch(string(doc), -1) {
		l := strings.Split(m[3], ", ")
		found[m[1]] = l
		if m[2] == "histogram" {
			found[m[1]+"_count"], found[m[1]+"_sum"] = l, l
			found[m[1]+"_bucket"] = append(slices.Clone(l), "le")
		}
	}
	return found
}

// checkQuery parses a query, and checks that its metrics and labels exist.
func checkQuery(t *testing.T, known map[string][]string, query string) {
	t.Helper()
	expr, err := parser.ParseExpr(query)
	if err != nil {
		t.Errorf("%s: %v", query, err)
		return
	}
	given := map[string]bool{"instance": true, "job": true}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		if _, ok := known[v.Name]; !ok {
			t.Errorf("%s: there is no metric %q", query, v.Name)
		}
		for _, l := range known[v.Name] {
			given[l] = true
		}
		for _, m := range v.LabelMatchers {
			if m.Name != labels.MetricName && m.Name != "job" && m.Name != "instance" && !slices.Contains(known[v.Name], m.Name) {
				t.Errorf("%s: %s has no label %q", query, v.Name, m.Name)
			}
		}
		return nil
	})
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if a, ok := n.(*parser.AggregateExpr); ok {
			for _, l := range a.Grouping {
				if !given[l] {
					t.Errorf("%s: no metric has the label %q", query, l)
				}
			}
		}
		return nil
	})
}

// TestMetricsThatAreNamed: each metric that a file of the deploy folder names exists.
func TestMetricsThatAreNamed(t *testing.T) {
	known := documented(t)
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		for _, name := range regexp.MustCompile(`\bholdfast_\w+`).FindAllString(read(t, path), -1) {
			if _, ok := known[name]; !ok {
				t.Errorf("%s: there is no metric %q", path, name)
			}
		}
		return nil
	})
	iferr.Fatal(t, err)
}

func TestDashboard(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(folder, "grafana", "dashboard.json"))
	iferr.Fatal(t, err)
	type panel struct {
		ID          int
		Type        string
		Title       string
		Description string
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct {
			Expr, RefID    string
			Instant, Range bool
		}
	}
	var board struct {
		UID, Title    string
		SchemaVersion int
		Panels        []panel
		Templating    struct {
			List []struct{ Name, Type, Definition string }
		}
	}
	iferr.Fatal(t, json.Unmarshal(data, &board))
	if board.UID == "" || board.Title == "" || board.SchemaVersion == 0 || len(board.Panels) == 0 {
		t.Errorf("%+v", board)
	}
	known := documented(t)
	variables := strings.NewReplacer("$__rate_interval", "5m")
	names := map[string]bool{"__rate_interval": true}
	for _, v := range board.Templating.List {
		names[v.Name] = true
		if m := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(v.Definition); v.Type == "query" && (m == nil || !slices.Contains(known[m[1]], m[2])) {
			t.Errorf("variable %s: %s", v.Name, v.Definition)
		}
	}
	ids, asked := map[int]bool{}, map[string]bool{}
	taken := map[[2]int]string{}
	for _, p := range board.Panels {
		if ids[p.ID] {
			t.Errorf("%s: id %d comes twice", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s stands where %q is, or beside the grid", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s asks for nothing", p.Title)
		}
		if p.Type != "row" && p.Description == "" {
			t.Errorf("%s does not say what it shows", p.Title)
		}
		for _, target := range p.Targets {
			if p.Type == "stat" && (!target.Instant || target.Range) {
				t.Errorf("%s shows the last value of a range: it must ask for the present one", p.Title)
			}
			for _, v := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(target.Expr, -1) {
				if !names[v[1]] {
					t.Errorf("%s: there is no variable %s", p.Title, v[1])
				}
			}
			checkQuery(t, known, variables.Replace(target.Expr))
			for _, m := range regexp.MustCompile(`holdfast_\w+`).FindAllString(target.Expr, -1) {
				asked[m] = true
			}
		}
	}
	// The board has all metrics, except those that the status page shows better.
	for name := range known {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_count"), "_sum"), "_bucket")
		elsewhere := slices.Contains([]string{
			"up", "holdfast_reaper_build_info", "holdfast_reaper_clock_known", "holdfast_reaper_config_reloads_total", "holdfast_reaper_last_complete_sweep_timestamp_seconds",
			"holdfast_reaper_session_away_seconds_total", "holdfast_reaper_sweep_failures_in_a_row", "holdfast_reaper_sweep_running",
		}, base)
		if !elsewhere && !asked[base] && !asked[base+"_count"] && !asked[base+"_bucket"] {
			t.Errorf("%s is on no panel", base)
		}
	}
}

// alerts parses the alert rules as Prometheus does, and returns them by name.
func alerts(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, "prometheus", "alerts.yaml"))
	iferr.Fatal(t, err)
	groups, errs := rulefmt.Parse(data, false)
	for _, err := range errs {
		t.Error(err)
	}
	if groups == nil || t.Failed() {
		t.FailNow()
	}
	rules := map[string]rulefmt.Rule{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			rules[r.Alert] = r
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || !slices.Contains([]string{"critical", "warning"}, r.Labels["severity"]) {
				t.Errorf("%s: %v %v", r.Alert, r.Labels, r.Annotations)
			}
		}
	}
	return rules
}

// TestAlerts: the rules use existing metrics. Each alert has a section in the page, and a test for
// promtool.
func TestAlerts(t *testing.T) {
	known, page, tests := documented(t), read(t, folder, "README.md"), read(t, folder, "prometheus", "alerts_test.yaml")
	_, runbook, _ := strings.Cut(page, "\n## What to do when an alert fires\n")
	runbook, _, _ = strings.Cut(runbook, "\n## ")
	rules := alerts(t)
	for name, r := range rules {
		checkQuery(t, known, r.Expr)
		if want := "https://github.com/holdfast-io/holdfast/blob/main/cmd/reaper/deploy/README.md#" + strings.ToLower(name); r.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook %q, want %q", name, r.Annotations["runbook_url"], want)
		}
		if n := strings.Count(runbook, "\n### "+name+"\n"); n != 1 {
			t.Errorf("%s: the page has %d sections on what to do, want 1", name, n)
		}
		if !regexp.MustCompile(`(?m)^  - name: ` + name + `\b`).MatchString(tests) {
			t.Errorf("%s: no test in alerts_test.yaml", name)
		}
	}
	for _, m := range regexp.MustCompile(`\n### (\w+)\n`).FindAllStringSubmatch(runbook, -1) {
		if _, ok := rules[m[1]]; !ok {
			t.Errorf("the page says what to do about %s, which is no alert", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`series: '(.*?)'`).FindAllStringSubmatch(tests, -1) {
		checkQuery(t, known, m[1])
	}
}

// TestAlertsFireAndClear: promtool's tests of the rules pass.
func TestAlertsFireAndClear(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		zkserver.NotRun(t, "needs promtool (apt-get install prometheus)")
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", filepath.Join(folder, "prometheus", "alerts_test.yaml")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
