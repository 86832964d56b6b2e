// Package integration tests Holdfast against real ZooKeeper servers. Each promise of package lock
// has a test here that would fail if the promise were broken. TESTING.md lists promises and tests.
// Package zkserver runs the servers.
package integration
