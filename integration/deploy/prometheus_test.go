package deploy

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
)

// documented returns the reaper's metrics with their labels, as the doc of package status
// has them, which its own test compares with what is served.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	doc, err := os.ReadFile("../../reaper/status/doc.go")
	if err != nil {
		t.Fatal(err)
	}
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

// checkQuery parses a query, and sees that it asks for metrics and labels that there are.
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
			if m.Name != labels.MetricName && m.Name != "job" && !slices.Contains(known[v.Name], m.Name) {
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

func TestDashboard(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(folder, "grafana", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	type panel struct {
		ID      int                            `json:"id"`
		Type    string                         `json:"type"`
		Title   string                         `json:"title"`
		GridPos struct{ X, Y, W, H int }       `json:"gridPos"`
		Targets []struct{ Expr, RefID string } `json:"targets"`
	}
	var board struct {
		UID, Title    string
		SchemaVersion int
		Panels        []panel
		Templating    struct {
			List []struct{ Name, Type, Definition string }
		}
	}
	if err := json.Unmarshal(data, &board); err != nil {
		t.Fatal(err)
	}
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
		for _, target := range p.Targets {
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
	// What the reaper tells stands on the board, but for what the page shows better.
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

// alerts parses the rules as Prometheus does.
func alerts(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, "prometheus", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
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

// well is what two reapers tell when all is well, each minute for two hours.
var well = map[string]string{
	`up{job="holdfast-reaper",instance="a"}`:                                         "1x120",
	`up{job="holdfast-reaper",instance="b"}`:                                         "1x120",
	`holdfast_reaper_active{instance="a",root="/locks"}`:                             "1x120",
	`holdfast_reaper_active{instance="b",root="/locks"}`:                             "0x120",
	`holdfast_reaper_session_up{instance="a",root="/locks"}`:                         "1x120",
	`holdfast_reaper_session_losses_total{instance="a",root="/locks"}`:               "3x120",
	`holdfast_reaper_sweep_overdue_seconds{instance="a",root="/locks",policy="p"}`:   "0x120",
	`holdfast_reaper_sweep_failures_in_a_row{instance="a",root="/locks",policy="p"}`: "0x120",
	`holdfast_reaper_undecodable_nodes{instance="a",root="/locks",policy="p"}`:       "0x120",
	`holdfast_reaper_format_1_nodes{instance="a",root="/locks",policy="p"}`:          "0x120",
	`holdfast_reaper_denied_nodes{instance="a",root="/locks",policy="p"}`:            "0x120",
	`holdfast_reaper_oldest_overdue_seconds{instance="a",root="/locks",policy="p"}`:  "30x120",
	`holdfast_reaper_config_refused{instance="a",root="/locks"}`:                     "0x120",
	`holdfast_reaper_clock_displacements_total{instance="a",root="/locks"}`:          "2x120",
}

// TestAlerts evaluates each rule with Prometheus's engine: none fires when all is well, and
// each does, for as long as it asks, for what it is meant for, and alone unless the others
// are named.
func TestAlerts(t *testing.T) {
	rules, known := alerts(t), documented(t)
	for _, r := range rules {
		checkQuery(t, known, r.Expr)
	}
	for name, test := range map[string]struct {
		change map[string]string // of what is told; "" for no longer
		fires  []string
	}{
		"all is well": {nil, nil},
		"no reaper": {map[string]string{`up{job="holdfast-reaper",instance="a"}`: "1x60 0x60", `up{job="holdfast-reaper",instance="b"}`: "1x60 0x60"},
			[]string{"HoldfastReaperGone"}},
		"one of two is gone": {map[string]string{`up{job="holdfast-reaper",instance="b"}`: "1x60 0x60"}, nil},
		"none is active":     {map[string]string{`holdfast_reaper_active{instance="a",root="/locks"}`: "1x60 0x60"}, []string{"HoldfastReaperNotActive"}},
		"one takes over": {map[string]string{`holdfast_reaper_active{instance="a",root="/locks"}`: "1x100 0x20", `holdfast_reaper_active{instance="b",root="/locks"}`: "0x103 1x17"},
			nil},
		"a sweep hangs":    {map[string]string{`holdfast_reaper_sweep_overdue_seconds{instance="a",root="/locks",policy="p"}`: "0x60 60+60x60"}, []string{"HoldfastReaperOverdue"}},
		"sweeps fail":      {map[string]string{`holdfast_reaper_sweep_failures_in_a_row{instance="a",root="/locks",policy="p"}`: "0x60 1+1x60"}, []string{"HoldfastReaperFails"}},
		"one sweep fails":  {map[string]string{`holdfast_reaper_sweep_failures_in_a_row{instance="a",root="/locks",policy="p"}`: "0x60 1x1 0x59"}, nil},
		"no session":       {map[string]string{`holdfast_reaper_session_up{instance="a",root="/locks"}`: "1x60 0x60"}, []string{"HoldfastReaperNoSession"}},
		"session flaps":    {map[string]string{`holdfast_reaper_session_losses_total{instance="a",root="/locks"}`: "3x60 3+1x60"}, []string{"HoldfastReaperSessionFlaps"}},
		"damaged":          {map[string]string{`holdfast_reaper_undecodable_nodes{instance="a",root="/locks",policy="p"}`: "0x60 2x60"}, []string{"HoldfastLocksBlocked"}},
		"format 1":         {map[string]string{`holdfast_reaper_format_1_nodes{instance="a",root="/locks",policy="p"}`: "0x60 2x60"}, []string{"HoldfastLocksBlocked"}},
		"denied":           {map[string]string{`holdfast_reaper_denied_nodes{instance="a",root="/locks",policy="p"}`: "0x60 2x60"}, []string{"HoldfastReaperDenied"}},
		"much is left":     {map[string]string{`holdfast_reaper_oldest_overdue_seconds{instance="a",root="/locks",policy="p"}`: "30x60 4000x60"}, []string{"HoldfastReaperBacklog"}},
		"a bad new file":   {map[string]string{`holdfast_reaper_config_refused{instance="a",root="/locks"}`: "0x60 1x60"}, []string{"HoldfastReaperConfigRefused"}},
		"the clock jumped": {map[string]string{`holdfast_reaper_clock_displacements_total{instance="a",root="/locks"}`: "2x110 3x10"}, []string{"HoldfastClockDisplaced"}},
	} {
		t.Run(name, func(t *testing.T) {
			told := maps.Clone(well)
			for series, values := range test.change {
				if told[series] == "" {
					t.Fatalf("no reaper tells of %s", series)
				}
				told[series] = values
			}
			fires := firing(t, rules, told)
			if !slices.Equal(fires, test.fires) {
				t.Errorf("fire: %q, want %q", fires, test.fires)
			}
		})
	}
}

// firing returns which rules fire after two hours of that.
func firing(t *testing.T, rules map[string]rulefmt.Rule, told map[string]string) []string {
	t.Helper()
	load := "load 1m\n"
	for series, values := range told {
		load += "  " + series + " " + values + "\n"
	}
	storage := promqltest.LoadedStorage(t, load)
	defer storage.Close()
	engine := promqltest.NewTestEngineWithOpts(t, promql.EngineOpts{MaxSamples: 100_000, Timeout: 10 * time.Minute})
	end := time.Unix(0, 0).Add(2 * time.Hour)
	var firing []string
	for name, r := range rules {
		whole := true
		for at := end.Add(-time.Duration(r.For)); whole && !at.After(end); at = at.Add(time.Minute) {
			query, err := engine.NewInstantQuery(context.Background(), storage, nil, r.Expr, at)
			if err != nil {
				t.Fatal(err)
			}
			result := query.Exec(context.Background())
			if result.Err != nil {
				t.Fatalf("%s: %v", name, result.Err)
			}
			whole = len(result.Value.(promql.Vector)) > 0
			query.Close()
		}
		if whole {
			firing = append(firing, name)
		}
	}
	slices.Sort(firing)
	return firing
}
