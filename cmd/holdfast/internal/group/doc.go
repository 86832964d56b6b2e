// Package group starts processes in a group of their own, which Ctrl-C does not reach, and
// ends all of it.
package group
