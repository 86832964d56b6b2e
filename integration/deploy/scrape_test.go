package deploy

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery/dns"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// scrapes loads a scrape configuration as Prometheus does.
func scrapes(t *testing.T, file string) *config.Config {
	t.Helper()
	c, err := config.LoadFile(file, false, slog.New(slog.DiscardHandler))
	iferr.Fatal(t, err)
	return c
}

// TestScrape: the scrape configuration names the file of the rules, and has the job of the rules.
func TestScrape(t *testing.T) {
	c := scrapes(t, filepath.Join(folder, "prometheus", "prometheus.yaml"))
	if len(c.RuleFiles) != 1 || filepath.Base(c.RuleFiles[0]) != "alerts.yaml" {
		t.Errorf("rule files %q, want alerts.yaml", c.RuleFiles)
	}
	if len(c.ScrapeConfigs) != 1 || c.ScrapeConfigs[0].JobName != "holdfast-reaper" || c.ScrapeConfigs[0].MetricsPath != "/metrics" {
		t.Errorf("scrape configs %+v, want one of the job holdfast-reaper", c.ScrapeConfigs)
	}
}

// TestScrapeInKubernetes: the commented example in the scrape configuration names the Service of
// the manifests.
func TestScrapeInKubernetes(t *testing.T) {
	text := read(t, folder, "prometheus", "prometheus.yaml")
	text = regexp.MustCompile(`(?m)^    (static_configs:|  - targets:).*\n`).ReplaceAllString(text, "")
	text = regexp.MustCompile(`(?m)^    #(dns_sd_configs:|  -)`).ReplaceAllString(text, "    $1")
	file := filepath.Join(t.TempDir(), "prometheus.yaml")
	iferr.Fatal(t, os.WriteFile(file, []byte(text), 0o600))
	found := scrapes(t, file).ScrapeConfigs[0].ServiceDiscoveryConfigs
	if len(found) != 1 {
		t.Fatalf("%d ways to find the reapers, want 1", len(found))
	}
	d, service := found[0].(*dns.SDConfig), manifest(t, "deployment.yaml")["Service"].(*corev1.Service)
	if name, _, _ := strings.Cut(d.Names[0], "."); name != service.Name || d.Type != "A" || d.Port != int(service.Spec.Ports[0].Port) {
		t.Errorf("%+v", d)
	}
}
