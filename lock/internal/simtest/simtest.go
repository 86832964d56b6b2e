// Package simtest is what the tests of the packages below package lock share: an
// ensemble in memory, in virtual time, and connections to it.
package simtest

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// Root is the node that the tests' locks are below.
const Root = "/locks"

// SessionTimeout is that of all connections.
const SessionTimeout = 6 * time.Second

// latency is how long a packet takes one way unless a test says otherwise: not 0
// because of a race in go-zookeeper; see package locktest.
const latency = time.Microsecond

// World is an ensemble in memory, in virtual time.
type World struct {
	*testing.T
	*locktest.Ensemble
	Ctx   context.Context
	start time.Time
}

// Run runs f in virtual time. Nothing may still run at its end, or the bubble fails
// the test.
func Run(t *testing.T, opts locktest.Options, f func(w *World)) {
	t.Helper()
	if opts.Latency == nil {
		opts.Latency = func(string, string) time.Duration { return latency }
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour) // of virtual time
		defer cancel()
		f(&World{T: t, Ensemble: locktest.Start(t, opts), Ctx: ctx, start: time.Now()})
	})
}

// Mono is the monotonic time of all clients of the test, and Wall their wall clock's.
func (w *World) Mono() time.Duration { return time.Since(w.start) }

// Wall is what a wall clock shows.
func (w *World) Wall() time.Duration { return time.Duration(time.Now().UnixNano()) }

// processRandom is the process's source of randomness, which is safe for concurrent use.
type processRandom struct{}

func (processRandom) Uint64() uint64 { return rand.Uint64() }

// Random is safe for concurrent use.
func Random() *rand.Rand { return rand.New(processRandom{}) }

// Config is that of a connection that carries the label.
func (w *World) Config(label string) zkconn.Config {
	return zkconn.Config{
		Log:            zerolog.Nop(), // go-zookeeper may log when the test has ended
		SessionTimeout: SessionTimeout, Dialer: w.Dialer(label), Now: w.Mono, Random: Random(),
	}
}

// Dial returns a connection of our own to these members, closed at the end of the test.
func (w *World) Dial(cfg zkconn.Config, servers ...string) *zkconn.Conn {
	w.Helper()
	if len(servers) == 0 {
		servers = w.Servers()
	}
	c, err := zkconn.Dial(w.Ctx, servers, cfg)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := c.Close(5 * time.Second); err != nil {
			w.Error(err)
		}
	})
	return c
}

// Make creates a node.
func (w *World) Make(c *zkconn.Conn, path, data string, acl []zk.ACL) {
	w.Helper()
	if _, err := c.Multi(w.Ctx, nil, &zk.CreateRequest{Path: path, Data: []byte(data), Acl: acl}); err != nil {
		w.Fatalf("create %s: %v", path, err)
	}
}

// Node returns the node of that path, and whether it is there.
func (w *World) Node(path string) (locktest.Node, bool) {
	if nodes := w.Dump(path); len(nodes) > 0 && nodes[0].Path == path {
		return nodes[0], true
	}
	return locktest.Node{}, false
}

// Below lists the paths below that one.
func (w *World) Below(path string) []string {
	var below []string
	for _, n := range w.Dump(path) {
		if strings.HasPrefix(n.Path, path+"/") {
			below = append(below, n.Path)
		}
	}
	return below
}

// Until lets time pass until the condition holds.
func (w *World) Until(what string, condition func() bool) {
	w.Helper()
	for range 100_000 {
		if synctest.Wait(); condition() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	w.Fatalf("never happened: %s", what)
}
