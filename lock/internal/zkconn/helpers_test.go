package zkconn

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/internal/bubble"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

const sessionTimeout = 6 * time.Second

// testConfig returns the configuration of these tests' connections.
func testConfig(t testing.TB) Config {
	start := time.Now()
	return Config{
		Log: zerolog.New(zerolog.NewTestWriter(t)), SessionTimeout: sessionTimeout,
		Now: func() time.Duration { return time.Since(start) }, Random: bubble.Random(),
	}
}

// world is an ensemble in memory, in virtual time.
type world struct {
	*bubble.World
	ctx context.Context // the same as World's
}

// simulate runs f in virtual time. If a goroutine is left at its end, the bubble fails the test.
func simulate(t *testing.T, opts locktest.Options, f func(w *world)) {
	t.Helper()
	bubble.Run(t, opts, 0, func(w *bubble.World) { f(&world{w, w.Ctx}) })
}

// config returns the configuration of connections with the label.
func (w *world) config(label string) Config {
	cfg := testConfig(w.T)
	cfg.Log = zerolog.Nop() // go-zookeeper may log when the test has ended
	cfg.Dialer = w.Dialer(label)
	return cfg
}

// dial returns a connection to the servers, without any to all, that is closed at the end of the test.
func (w *world) dial(cfg Config, servers ...string) *Conn {
	w.Helper()
	if len(servers) == 0 {
		servers = w.Servers()
	}
	c, err := Dial(w.ctx, servers, cfg)
	iferr.Fatal(w, err)
	w.Cleanup(func() {
		iferr.Error(w, c.Close(5*time.Second))
		<-c.own.closed // go-zookeeper may wait for its last reply for longer than Close does
	})
	return c
}

// raw returns a go-zookeeper connection with this package's provider of hosts, because
// go-zookeeper's own takes a second to reconnect.
func (w *world) raw(label string) *zk.Conn {
	w.Helper()
	return w.Plain(label, sessionTimeout, w.hosts(label))
}

func (w *world) hosts(label string) *hosts {
	cfg := w.config(label)
	cfg.lookup = net.DefaultResolver.LookupHost
	return &hosts{ctx: w.ctx, cfg: cfg, began: func([]string, map[string]error) {}}
}

type silent = bubble.Silent

var mustSay = bubble.MustSay

// mustBe checks that err matches each of wants, as a caller of the library gets it.
func mustBe(t testing.TB, err error, wants ...error) {
	t.Helper()
	bubble.MustBe(t, Reveal(err), wants...)
}

// conn returns an owned or a borrowed connection, which is closed at the end of the test.
func (w *world) conn(own bool, cfg Config) *Conn {
	w.Helper()
	if own {
		return w.dial(cfg)
	}
	c := Borrow(w.raw("a"), cfg)
	w.Cleanup(func() {
		iferr.Error(w, c.Close(5*time.Second))
	})
	return c
}
