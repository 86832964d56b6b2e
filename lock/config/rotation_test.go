package config_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/integration/testpki"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/internal/bubble"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// later is one end of a net.Pipe whose writes do not wait for the reader.
type later struct {
	net.Conn
	queue chan []byte
}

func (c later) Write(p []byte) (int, error) {
	c.queue <- bytes.Clone(p)
	return len(p), nil
}

func (c later) deliver() {
	for p := range c.queue {
		c.Conn.Write(p)
	}
}

// behindTLS returns a dialer to the ensemble's servers, which speak TLS with the present configuration.
func behindTLS(ensemble *locktest.Ensemble, server *atomic.Pointer[tls.Config]) func(network, address string, timeout time.Duration) (net.Conn, error) {
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		plain, err := ensemble.Dialer("a")(network, address, timeout)
		if err != nil {
			return nil, err
		}
		client, end := net.Pipe()
		out := later{end, make(chan []byte, 1024)}
		go out.deliver()
		secured := tls.Server(out, server.Load())
		var open sync.WaitGroup
		for _, way := range [][2]net.Conn{{plain, secured}, {secured, plain}} {
			open.Go(func() {
				io.Copy(way[0], way[1])
				plain.Close()
				end.Close()
			})
		}
		go func() {
			open.Wait()
			close(out.queue)
		}()
		return client, nil
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// TestRotatedAuthority: when the servers' certificates are of another authority, the client says so
// wherever it tells of the outage. It comes back when the file has the new authority, and a damaged
// file does not replace the last good one.
func TestRotatedAuthority(t *testing.T) {
	bubble.Run(t, locktest.Options{}, 0, func(w *bubble.World) {
		before, after := testpki.New(t), testpki.New(t)
		host, _, _ := strings.Cut(w.Servers()[0], ":")
		var server atomic.Pointer[tls.Config]
		serve := func(a *testpki.Authority) {
			server.Store(&tls.Config{Certificates: []tls.Certificate{a.Issue(t, host).TLS(t)}})
			w.Cut("a")
		}
		folder := t.TempDir()
		authorities := filepath.Join(folder, "ca.pem")
		write := func(path string, text []byte) {
			t.Helper()
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(authorities, before.PEM)
		write(filepath.Join(folder, "config.yaml"), []byte("zookeeper: {session_timeout: 6s, tls: {ca_file: ca.pem}}\n"))
		cfg, err := config.Load(filepath.Join(folder, "config.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		opts, err := cfg.Options(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		serve(before)
		var mu sync.Mutex
		var log strings.Builder
		lines := writer(func(p []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return log.Write(p)
		})
		locks, err := lock.Dial(w.Ctx, w.Servers(), append(opts, lock.WithDialer(behindTLS(w.Ensemble, &server)), lock.WithLogger(zerolog.New(lines).Level(zerolog.WarnLevel)))...)
		if err != nil {
			t.Fatal(err)
		}
		w.Cleanup(func() { locks.Close() })
		takes := func() {
			t.Helper()
			hold, err := locks.Mutex("x").Lock(w.Ctx)
			if err == nil {
				err = hold.Unlock()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		takes()

		write(authorities, []byte("damaged"))
		w.Cut("a")
		takes()

		serve(after)
		time.Sleep(5 * time.Second)
		bubble.MustBe(t, locks.Check(), lock.ErrUnavailable)
		bubble.MustSay(t, locks.Check(), "unknown authority", "zookeeper.tls.ca_file", "has no certificate")
		short, cancel := context.WithTimeout(w.Ctx, time.Second)
		defer cancel()
		_, err = locks.Mutex("x").Lock(short)
		bubble.MustBe(t, err, lock.ErrUnavailable, context.DeadlineExceeded)
		bubble.MustSay(t, err, "unknown authority", "zookeeper.tls.ca_file")
		write(authorities, after.PEM)
		takes()
		if err := locks.Check(); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if text := log.String(); !strings.Contains(text, "ZooKeeper is away") || !strings.Contains(text, "unknown authority") {
			t.Errorf("the log has no reason: %s", text)
		}
	})
}
