// Package bubble is shared by the tests of package lock and of the packages below it: an ensemble
// in memory, in virtual time, and helpers to inspect it.
package bubble

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock/locktest"
)

// Latency is the one-way time of a packet unless a test sets another.
//
// It is not 0 because of a data race in go-zookeeper v1.0.4. After a reconnect its sendSetWatches
// reads lastZxid while its recvLoop may already write it, if the reply to a request overtakes the
// setWatches. At worst a client misses a change of a watched node; the protocol allows for that.
const Latency = time.Microsecond

// World is the ensemble in memory of one test, in virtual time.
type World struct {
	*testing.T
	*locktest.Ensemble
	Ctx context.Context // ends after the test's cleanups
}

// Run runs f in virtual time, with an ensemble. The test fails if a goroutine still runs when the
// time after has passed since the end of f and its cleanups.
func Run(t *testing.T, opts locktest.Options, after time.Duration, f func(w *World)) {
	t.Helper()
	if opts.Latency == nil {
		opts.Latency = func(string, string) time.Duration { return Latency }
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour) // in virtual time
		t.Cleanup(func() { time.Sleep(after) })                      // runs after all other cleanups
		t.Cleanup(cancel)
		f(&World{T: t, Ensemble: locktest.Start(t, opts), Ctx: ctx})
	})
}

// Plain returns a connection of go-zookeeper with a session, as other programs use it. Faults and
// counters name the connection by the label. hosts must not be nil. The connection is closed at the
// end of the test.
func (w *World) Plain(label string, timeout time.Duration, hosts zk.HostProvider) *zk.Conn {
	w.Helper()
	z, events, err := zk.Connect(w.Servers(), timeout,
		zk.WithDialer(hideFailedWrites(w.Dialer(label))), zk.WithHostProvider(hosts), zk.WithLogInfo(false), zk.WithLogger(Silent{}))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		z.Close()
		synctest.Wait()
	})
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	return z
}

// hideFailedWrites makes failed writes look like successes; the reader sees the end of the connection.
// go-zookeeper v1.0.4 answers the request of a failed write twice, and hangs without a reader of the
// second answer.
func hideFailedWrites(dial zk.Dialer) zk.Dialer {
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		nc, err := dial(network, address, timeout)
		if err != nil {
			return nil, err
		}
		return failedWritesHidden{nc}, nil
	}
}

type failedWritesHidden struct{ net.Conn }

func (c failedWritesHidden) Write(p []byte) (int, error) {
	if _, err := c.Conn.Write(p); err != nil {
		c.Close()
	}
	return len(p), nil
}

// Silent is a logger for go-zookeeper that discards all messages.
type Silent struct{}

// Printf does nothing.
func (Silent) Printf(string, ...any) {}

// Node returns the node at that path, and whether it exists.
func (w *World) Node(path string) (locktest.Node, bool) {
	if nodes := w.Dump(path); len(nodes) > 0 && nodes[0].Path == path {
		return nodes[0], true
	}
	return locktest.Node{}, false
}

// Until lets virtual time pass until the condition holds. After 500 virtual seconds the test fails
// with the message what.
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

// Random returns a random generator that is not seeded, and safe for concurrent use.
func Random() *rand.Rand { return rand.New(processRandom{}) }

// processRandom is math/rand/v2's source, which is safe for concurrent use.
type processRandom struct{}

func (processRandom) Uint64() uint64 { return rand.Uint64() }

// MustBe reports a failure of the test unless the error matches each of the targets.
func MustBe(t testing.TB, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error is %v, want one that is %q", err, target)
		}
	}
}

// MustSay reports a failure of the test unless the error's message contains each of the parts.
func MustSay(t testing.TB, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error is %v, want one that says %q", err, part)
		}
	}
}
