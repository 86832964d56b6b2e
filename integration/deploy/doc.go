// Package deploy has tests alone: they check what stands in cmd/reaper/deploy. Kubernetes
// manifests are decoded strictly into the types of k8s.io/api and of the Prometheus operator,
// the kustomization is built by kustomize's own code, alert rules are parsed by Prometheus's own,
// alerts and dashboards may ask for metrics alone that there are, and the binary of the
// Dockerfile is built and looked at. Where they are installed, promtool has each alert fire and
// clear, and systemd-analyze verifies the units.
//
// It is a module of its own, so that no other module depends on the parsers.
package deploy
