// Package group starts a process in its own process group, which Ctrl-C does not reach, and kills
// that group.
package group
