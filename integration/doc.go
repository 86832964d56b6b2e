// Package integration tests Holdfast against real ZooKeeper servers: each promise of
// package lock has a test here that could show it broken. TESTING.md lists promises and
// tests. Package zkserver runs the servers.
package integration
