// Package simtest is shared by the tests of the packages between package zkconn and package lock:
// the world of package bubble, and connections in it.
package simtest

import (
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock/internal/bubble"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// Root is the node below which the tests' locks are.
const Root = "/locks"

// SessionTimeout is the session timeout of the connections of Config.
const SessionTimeout = 6 * time.Second

// World is the ensemble in memory of one test, in virtual time.
type World struct {
	*bubble.World
	start time.Time
}

// Run runs f in virtual time. All goroutines must have ended when f returns; otherwise the test
// fails.
func Run(t *testing.T, opts locktest.Options, f func(w *World)) {
	t.Helper()
	bubble.Run(t, opts, 0, func(w *bubble.World) { f(&World{w, time.Now()}) })
}

// Mono returns the virtual time since Run was called. All connections use it as monotonic time.
func (w *World) Mono() time.Duration { return time.Since(w.start) }

// Wall returns the virtual time since the Unix epoch.
func (w *World) Wall() time.Duration { return time.Duration(time.Now().UnixNano()) }

// Config returns the configuration of a connection. Faults and counters name the connection by the
// label.
func (w *World) Config(label string) zkconn.Config {
	return zkconn.Config{
		Log:            zerolog.Nop(), // go-zookeeper may log after the end of the test
		SessionTimeout: SessionTimeout, Dialer: w.Dialer(label), Now: w.Mono, Random: bubble.Random(),
	}
}

// Dial returns an owned connection to the servers; none: to all. It is closed at the end of the
// test.
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

// Make creates a node. If that fails, it ends the test.
func (w *World) Make(c *zkconn.Conn, path, data string, acl []zk.ACL) {
	w.Helper()
	if _, err := c.Multi(w.Ctx, &zk.CreateRequest{Path: path, Data: []byte(data), Acl: acl}); err != nil {
		w.Fatalf("create %s: %v", path, err)
	}
}

// Below returns the paths of all nodes below the given path, itself not included.
func (w *World) Below(path string) []string {
	var below []string
	for _, n := range w.Dump(path) {
		if strings.HasPrefix(n.Path, path+"/") {
			below = append(below, n.Path)
		}
	}
	return below
}
