package deploy

import (
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// kustomize builds a folder as kubectl apply -k does.
func kustomize(t *testing.T, files filesys.FileSystem, dir string) map[string]metav1.Object {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, dir)
	iferr.Fatal(t, err)
	text, err := built.AsYaml()
	iferr.Fatal(t, err)
	return decode(t, dir, text)
}

// TestKustomization: the base has the manifest's objects, and the example overlay in its comment
// changes the namespace, the image and the configuration.
func TestKustomization(t *testing.T) {
	base := read(t, folder, "kubernetes", "kustomization.yaml")
	example := strings.Join(regexp.MustCompile(`(?m)^#   (\w+:.*|  .*)$`).FindAllString(base, -1), "\n")
	example = regexp.MustCompile(`(?m)^#   `).ReplaceAllString(example, "")
	example = regexp.MustCompile(`https://github\.com/holdfast-io/holdfast//cmd/reaper/deploy/(\w+)\?ref=main`).ReplaceAllString(example, "../$1")
	const config = "root: /elsewhere\n"
	files := filesys.MakeFsInMemory()
	for path, text := range map[string]string{
		"kubernetes/kustomization.yaml": base,
		"kubernetes/deployment.yaml":    read(t, folder, "kubernetes", "deployment.yaml"),
		"overlay/kustomization.yaml":    example,
		"overlay/config.yaml":           config,
	} {
		iferr.Fatal(t, files.WriteFile(path, []byte(text)))
	}

	plain, ours := manifest(t, "deployment.yaml"), kustomize(t, files, "kubernetes")
	if got, want := slices.Sorted(maps.Keys(ours)), slices.Sorted(maps.Keys(plain)); !slices.Equal(got, want) {
		t.Errorf("the base has %q, want %q", got, want)
	}
	yours := kustomize(t, files, "overlay")
	for kind, object := range yours {
		if object.GetNamespace() != "locks" || object.GetName() != plain[kind].GetName() {
			t.Errorf("%s %s is in the namespace %q", kind, object.GetName(), object.GetNamespace())
		}
	}
	pod := yours["Deployment"].(*appsv1.Deployment).Spec.Template
	checkPod(t, pod)
	if image := pod.Spec.Containers[0].Image; image != "registry.example.org/holdfast-reaper:v1.0.0" {
		t.Errorf("image %q", image)
	}
	if got := yours["ConfigMap"].(*corev1.ConfigMap).Data; len(got) != 1 || got["config.yaml"] != config {
		t.Errorf("configuration %q", got)
	}
}

// TestPodMonitor: the PodMonitor selects the pods, and gives them the job name of the alert rules.
func TestPodMonitor(t *testing.T) {
	monitor := manifest(t, "podmonitor.yaml")["PodMonitor"].(*monitoringv1.PodMonitor)
	pod := manifest(t, "deployment.yaml")["Deployment"].(*appsv1.Deployment).Spec.Template
	checkSelects(t, "PodMonitor", &monitor.Spec.Selector, pod.Labels)
	if job := pod.Labels[monitor.Spec.JobLabel]; job != "holdfast-reaper" {
		t.Errorf("job %q", job)
	}
	if ends := monitor.Spec.PodMetricsEndpoints; len(ends) != 1 || *ends[0].Port != pod.Spec.Containers[0].Ports[0].Name || ends[0].Path != "/metrics" {
		t.Errorf("endpoints %+v", ends)
	}
}

// TestPrometheusRule: the command in podmonitor.yaml makes a PrometheusRule with all alert rules.
func TestPrometheusRule(t *testing.T) {
	command := regexp.MustCompile(`(?m)^#   (\{ .*; \}) \| kubectl apply -n locks -f -$`).FindStringSubmatch(read(t, folder, "kubernetes", "podmonitor.yaml"))
	if command == nil {
		t.Fatal("podmonitor.yaml has no such command")
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command[1])
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	iferr.Fatal(t, err)
	rule := decode(t, "the command's output", out)["PrometheusRule"].(*monitoringv1.PrometheusRule)
	count := 0
	for _, g := range rule.Spec.Groups {
		count += len(g.Rules)
	}
	if want := len(alerts(t)); count != want {
		t.Errorf("%d rules, want %d", count, want)
	}
}
