// Package integration tests Holdfast against real ZooKeeper servers. Each promise of package lock
// has a test here that would fail if the promise were broken. TESTING.md lists promises and tests, and
// the map in CONTRIBUTING.md says what each folder below this one is for. Package zkserver runs the
// servers.
package integration
