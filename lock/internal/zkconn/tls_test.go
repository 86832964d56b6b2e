package zkconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/testpki"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// whenLogged returns a log hook that calls f for the message.
func whenLogged(message string, f func()) zerolog.HookFunc {
	return func(_ *zerolog.Event, _ zerolog.Level, logged string) {
		if logged == message {
			f()
		}
	}
}

// listen serves connections until the end of the test, over TLS if cfg is set.
func listen(t *testing.T, cfg *tls.Config, serve func(net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	iferr.Fatal(t, err)
	life, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	var conns Tasks
	go func() {
		defer close(ended)
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			conns.Enter()
			go func() {
				defer conns.Leave()
				defer nc.Close()
				defer context.AfterFunc(life, func() { nc.Close() })()
				if cfg != nil {
					serve(tls.Server(nc, cfg))
				} else {
					serve(nc)
				}
			}()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		end()
		<-ended
		<-conns.Seal()
	})
	return l.Addr().String()
}

func fixed(cfg *tls.Config) TLS { return func() (*tls.Config, error) { return cfg, nil } }

// greets is a server that grants each client a session, and then is silent.
func greets(nc net.Conn) {
	if _, err := io.ReadFull(nc, make([]byte, 4)); err == nil {
		nc.Write(greeting(sessionTimeout))
		io.Copy(io.Discard, nc)
	}
}

// alerts is a server that speaks TLS, and answers a plain client with an alert.
func alerts(nc net.Conn) {
	nc.Read(make([]byte, 512))
	nc.Write([]byte{0x15, 3, 3, 0, 2, 2, 80})
	io.Copy(io.Discard, nc)
}

func closes(nc net.Conn) { nc.Read(make([]byte, 1)) }

// TestTLS: a session over TLS works. For each wrong configuration the error says what to do.
func TestTLS(t *testing.T) {
	ours, others := testpki.New(t), testpki.New(t)
	local := ours.Issue(t, "127.0.0.1").TLS(t)
	server := &tls.Config{Certificates: []tls.Certificate{local}}
	mutual := &tls.Config{Certificates: []tls.Certificate{local}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ours.Pool()}
	named := &tls.Config{Certificates: []tls.Certificate{ours.Issue(t, "zk.example").TLS(t)}}
	client := &tls.Config{RootCAs: ours.Pool()}
	for name, test := range map[string]struct {
		server *tls.Config
		client *tls.Config
		serve  func(net.Conn)
		says   string // "": there is a session
	}{
		"session":              {server, client, greets, ""},
		"client certificate":   {mutual, &tls.Config{RootCAs: ours.Pool(), Certificates: []tls.Certificate{ours.Issue(t, "svc").TLS(t)}}, greets, ""},
		"server name":          {named, &tls.Config{RootCAs: ours.Pool(), ServerName: "zk.example"}, greets, ""},
		"no certificate":       {mutual, client, greets, "cert_file and key_file"},
		"another's":            {mutual, &tls.Config{RootCAs: ours.Pool(), Certificates: []tls.Certificate{others.Issue(t, "svc").TLS(t)}}, greets, "cert_file and key_file"},
		"unknown authority":    {server, &tls.Config{RootCAs: others.Pool()}, greets, "zookeeper.tls.ca_file"},
		"other name":           {named, client, greets, "zookeeper.tls.server_name"},
		"no common version":    {&tls.Config{Certificates: []tls.Certificate{local}, MinVersion: tls.VersionTLS13}, &tls.Config{RootCAs: ours.Pool(), MaxVersion: tls.VersionTLS12}, greets, "no version or cipher of TLS in common"},
		"plain server":         {nil, client, greets, "port for TLS (secureClientPort)"},
		"plain server closes":  {nil, client, closes, "port for TLS (secureClientPort)"},
		"plain client":         {server, nil, greets, "this is its port for TLS (secureClientPort), which needs zookeeper.tls or lock.WithTLS"},
		"plain, alert":         {nil, nil, alerts, "answers with an alert of TLS: set zookeeper.tls, or lock.WithTLS"},
		"plain, server closes": {nil, nil, closes, "this is its port for TLS (secureClientPort), which needs zookeeper.tls or lock.WithTLS"},
	} {
		t.Run(name, func(t *testing.T) {
			address := listen(t, test.server, test.serve)
			cfg := testConfig(t)
			if test.client != nil {
				cfg.TLS = fixed(test.client)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if test.says != "" {
				cfg.Log = cfg.Log.Hook(whenLogged("cannot connect to a server", cancel))
			}
			c, err := Dial(ctx, []string{address}, cfg)
			if test.says == "" {
				iferr.Fatal(t, err)
				c.Close(0)
				return
			}
			mustBe(t, err, ErrUnavailable, context.Canceled)
			mustSay(t, err, address, test.says)
			var last interface{ LastFailure() error }
			if !errors.As(err, &last) || last.LastFailure() == nil {
				t.Errorf("%v does not tell its last failure", err)
			}
		})
	}
}

// TestTLSAsksForTheServersName: TLS verifies the configured host name, also after it was resolved
// to an address.
func TestTLSAsksForTheServersName(t *testing.T) {
	ours := testpki.New(t)
	address := listen(t, &tls.Config{Certificates: []tls.Certificate{ours.Issue(t, "zk1.example").TLS(t)}}, greets)
	_, port, _ := net.SplitHostPort(address)
	cfg := testConfig(t)
	cfg.TLS = fixed(&tls.Config{RootCAs: ours.Pool()})
	cfg.lookup = func(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil }
	c, err := Dial(t.Context(), []string{net.JoinHostPort("zk1.example", port)}, cfg)
	iferr.Fatal(t, err)
	c.Close(0)

	ctx, cancel := context.WithCancel(t.Context())
	cfg.Log = cfg.Log.Hook(whenLogged("cannot connect to a server", cancel))
	_, err = Dial(ctx, []string{net.JoinHostPort("zk2.example", port)}, cfg)
	mustBe(t, err, ErrUnavailable)
	var wrong x509.HostnameError
	if !errors.As(Reveal(err), &wrong) || wrong.Host != "zk2.example" {
		t.Errorf("error is %v, want one about the name zk2.example", err)
	}
}

// TestTLSOfSilentServer: the TLS handshake ends with Dial's context. The client leaves a silent server
// within the same limit as without TLS.
func TestTLSOfSilentServer(t *testing.T) {
	ours := testpki.New(t)
	simulate(t, locktest.Options{}, func(w *world) {
		cfg := w.config("a")
		cfg.TLS = fixed(&tls.Config{RootCAs: ours.Pool()})
		var tries []time.Time
		cfg.Dialer = func(string, string, time.Duration) (net.Conn, error) {
			tries = append(tries, time.Now())
			client, server := net.Pipe()
			go func() {
				defer server.Close()
				io.Copy(io.Discard, server)
			}()
			return client, nil
		}
		ctx, cancel := context.WithTimeout(w.ctx, 20*time.Second)
		defer cancel()
		began := time.Now()
		_, err := Dial(ctx, w.Servers(), cfg)
		mustBe(t, err, ErrUnavailable, context.DeadlineExceeded)
		mustSay(t, err, "no answer to the TLS handshake in time")
		if took := time.Since(began); took > 20*time.Second+100*time.Millisecond {
			t.Errorf("Dial took %v", took)
		}
		if len(tries) < 2 || tries[1].Sub(tries[0]) > handshakeLimit(sessionTimeout)+time.Second {
			t.Errorf("tried at %v", tries)
		}
	})
}
