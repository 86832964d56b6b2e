package deploy

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/prometheus/prometheus/config"
)

// TestScrape loads the scrape configuration as Prometheus does: it names the rules, and the
// job that they ask for.
func TestScrape(t *testing.T) {
	file := filepath.Join(folder, "prometheus", "prometheus.yaml")
	c, err := config.LoadFile(file, false, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.RuleFiles) != 1 || filepath.Base(c.RuleFiles[0]) != "alerts.yaml" {
		t.Errorf("rule files %q, want alerts.yaml", c.RuleFiles)
	}
	if len(c.ScrapeConfigs) != 1 || c.ScrapeConfigs[0].JobName != "holdfast-reaper" || c.ScrapeConfigs[0].MetricsPath != "/metrics" {
		t.Errorf("scrape configs %+v, want one of the job holdfast-reaper", c.ScrapeConfigs)
	}
}
