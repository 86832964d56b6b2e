// Package schedule runs a job exactly once a tick, although all replicas of a service have its
// schedule.
package schedule
