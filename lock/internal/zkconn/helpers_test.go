package zkconn

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
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock/locktest"
)

const sessionTimeout = 6 * time.Second

// processRandom is the process's source of randomness, which is safe for concurrent use.
type processRandom struct{}

func (processRandom) Uint64() uint64 { return rand.Uint64() }

// testConfig is what connections of these tests are made with.
func testConfig(t testing.TB) Config {
	start := time.Now()
	return Config{
		Log: zerolog.New(zerolog.NewTestWriter(t)), SessionTimeout: sessionTimeout,
		Now: func() time.Duration { return time.Since(start) }, Random: rand.New(processRandom{}),
	}
}

// world is an ensemble in memory, in virtual time.
type world struct {
	*testing.T
	*locktest.Ensemble
	ctx context.Context
}

// simulate runs f in virtual time. Nothing may still run at its end, or the bubble
// fails the test.
func simulate(t *testing.T, opts locktest.Options, f func(w *world)) {
	t.Helper()
	if opts.Latency == nil { // not 0 because of a race in go-zookeeper; see locktest
		opts.Latency = func(string, string) time.Duration { return time.Microsecond }
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
		defer cancel()
		f(&world{T: t, Ensemble: locktest.Start(t, opts), ctx: ctx})
	})
}

// config is that of connections that carry the label.
func (w *world) config(label string) Config {
	cfg := testConfig(w.T)
	cfg.Log = zerolog.Nop() // go-zookeeper may log when the test has ended
	cfg.Dialer = w.Dialer(label)
	return cfg
}

// dial returns a connection that is closed at the end of the test.
func (w *world) dial(cfg Config) *Conn {
	w.Helper()
	c, err := Dial(w.ctx, w.Servers(), cfg)
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

// raw returns a plain connection, as other programs have one; with our provider of
// hosts, because go-zookeeper's takes a second to connect again.
func (w *world) raw(label string) *zk.Conn {
	w.Helper()
	z, events, err := zk.Connect(w.Servers(), sessionTimeout, zk.WithDialer(w.Dialer(label)), zk.WithHostProvider(w.hosts(label)),
		zk.WithLogInfo(false), zk.WithLogger(silent{}))
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

func (w *world) hosts(label string) *hosts {
	cfg := w.config(label)
	cfg.lookup = net.DefaultResolver.LookupHost
	return &hosts{ctx: w.ctx, cfg: cfg, failed: func(error) {}, stuck: func() bool { return false }}
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// mustBe checks that the error is each of the targets.
func mustBe(t testing.TB, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error is %v, want one that is %q", err, target)
		}
	}
}

// mustSay checks that the error's message has each of the parts in it.
func mustSay(t testing.TB, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error is %v, want one that says %q", err, part)
		}
	}
}

// conn returns an own or a borrowed connection, closed at the end of the test.
func (w *world) conn(own bool, cfg Config) *Conn {
	w.Helper()
	if own {
		return w.dial(cfg)
	}
	c := Borrow(w.raw("a"), cfg)
	w.Cleanup(func() {
		if err := c.Close(5 * time.Second); err != nil {
			w.Error(err)
		}
	})
	return c
}
