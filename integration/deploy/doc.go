// Package deploy has tests alone: they check what stands in cmd/reaper/deploy. Kubernetes
// manifests are decoded strictly into the types of k8s.io/api and of the Prometheus operator,
// the kustomization is built by kustomize's own code, alert rules are parsed and
// evaluated by Prometheus's own code, dashboards may ask for metrics alone that there are,
// and the binary of the Dockerfile is built and looked at. Where systemd is installed,
// systemd-analyze verifies the units.
//
// It is a module of its own, so that no other module depends on the parsers.
package deploy
