// Package access lets package admin work with a client's connection and clock, which
// package lock shows to no other package.
package access

import (
	"github.com/holdfast-io/holdfast/lock/internal/clock"
	"github.com/holdfast-io/holdfast/lock/internal/servercheck"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
)

// Client is what tools need of a client.
type Client struct {
	Conn  *zkconn.Conn // the client's own, or the one it was given
	Clock *clock.Clock
	Root  string // path below which the locks stand
	Check servercheck.Checker
}

// Of returns what stands behind a *lock.Client, or false for one that is nil or was not
// made by Dial or New. Package lock sets it.
var Of func(client any) (Client, bool)
