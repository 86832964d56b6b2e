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

	"github.com/holdfast-io/holdfast/integration/iferr"
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

// TestRotatedAuthority: a client shows the configured certificate, and the new one when its files have been
// replaced. It refuses a server whose certificate is of another authority, says so wherever it tells of the
// outage, and comes back when the file has that authority. A damaged or missing file does not replace the
// last good one, and is named.
func TestRotatedAuthority(t *testing.T) {
	bubble.Run(t, locktest.Options{}, 0, func(w *bubble.World) {
		before, after := testpki.New(t), testpki.New(t)
		var server atomic.Pointer[tls.Config]
		var shown atomic.Value // the name in the client's certificate
		serve := func(a *testpki.Authority) {
			server.Store(&tls.Config{
				Certificates: []tls.Certificate{a.Issue(t, "zk.example").TLS(t)}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: before.Pool(),
				VerifyConnection: func(s tls.ConnectionState) error {
					shown.Store(s.PeerCertificates[0].Subject.CommonName)
					return nil
				},
			})
			w.Cut("a")
		}
		folder := t.TempDir()
		write := func(name string, text []byte) {
			t.Helper()
			iferr.Fatal(t, os.WriteFile(filepath.Join(folder, name), text, 0o600))
		}
		shows := func(pair testpki.Pair) {
			t.Helper()
			write("cert.pem", pair.Cert)
			write("key.pem", pair.Key)
		}
		write("ca.pem", before.PEM)
		shows(before.Issue(t, "first"))
		write("config.yaml", []byte("zookeeper: {session_timeout: 6s, tls: {ca_file: ca.pem, cert_file: cert.pem, key_file: key.pem, server_name: zk.example}}\n"))
		cfg, err := config.Load(filepath.Join(folder, "config.yaml"))
		iferr.Fatal(t, err)
		opts, err := cfg.Options(context.Background())
		iferr.Fatal(t, err)
		serve(before)
		var mu sync.Mutex
		var log strings.Builder
		lines := writer(func(p []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return log.Write(p)
		})
		locks, err := lock.Dial(w.Ctx, w.Servers(), append(opts, lock.WithDialer(behindTLS(w.Ensemble, &server)), lock.WithLogger(zerolog.New(lines).Level(zerolog.WarnLevel)))...)
		iferr.Fatal(t, err)
		w.Cleanup(func() { locks.Close() })
		takes := func(as string) {
			t.Helper()
			iferr.Fatal(t, locks.Mutex("x").Do(w.Ctx, func(context.Context) error { return nil }))
			if got := shown.Load(); got != as {
				t.Errorf("the server has seen %q, want %q", got, as)
			}
		}
		takes("first")

		shows(before.Issue(t, "second"))
		w.Cut("a")
		takes("second")

		iferr.Fatal(t, os.Remove(filepath.Join(folder, "key.pem")))
		write("ca.pem", []byte("damaged"))
		w.Cut("a")
		takes("second")

		serve(after)
		time.Sleep(5 * time.Second)
		bubble.MustBe(t, locks.Check(), lock.ErrUnavailable)
		bubble.MustSay(t, locks.Check(), "unknown authority", "zookeeper.tls.ca_file", "has no certificate", "zookeeper.tls.key_file")
		short, cancel := context.WithTimeout(w.Ctx, time.Second)
		defer cancel()
		_, err = locks.Mutex("x").Lock(short)
		bubble.MustBe(t, err, lock.ErrUnavailable, context.DeadlineExceeded)
		bubble.MustSay(t, err, "unknown authority", "zookeeper.tls.ca_file")
		write("ca.pem", after.PEM)
		takes("second")
		iferr.Error(t, locks.Check())
		mu.Lock()
		defer mu.Unlock()
		if text := log.String(); !strings.Contains(text, "ZooKeeper is away") || !strings.Contains(text, "unknown authority") {
			t.Errorf("the log has no reason: %s", text)
		}
	})
}
