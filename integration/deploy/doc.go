// Package deploy has only tests, of the files in cmd/reaper/deploy:
//
//   - Kubernetes manifests are decoded strictly into the types of k8s.io/api and of the Prometheus operator;
//   - kustomize's own code builds the kustomization;
//   - Prometheus's own code parses the alert rules; alerts and dashboards may use only existing metrics;
//   - the binary of the Dockerfile is built and examined;
//   - if installed, promtool lets each alert fire and clear, and systemd-analyze verifies the units.
//
// It is a module of its own, so that no other module depends on the parsers.
package deploy
