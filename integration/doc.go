// Package integration tests Holdfast against real ZooKeeper servers: each
// promise that README and package lock make has a test here that could show it
// broken. Package zkserver runs the servers.
package integration
