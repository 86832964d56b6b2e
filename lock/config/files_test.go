package config

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/integration/testpki"
)

// files writes the files and a configuration into a temporary folder, and parses the configuration.
func files(t *testing.T, config string, files map[string][]byte) *Config {
	t.Helper()
	folder := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(folder, "config.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// handshake connects a client and a server that requires a certificate. It returns the name in the
// client's certificate, as the server saw it.
func handshake(t *testing.T, client, server *tls.Config) (name string, err error) {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	s := tls.Server(b, server)
	done := make(chan error, 1)
	go func() { done <- s.Handshake() }()
	c := tls.Client(a, client)
	if err := c.Handshake(); err != nil {
		b.Close()
		<-done
		return "", err
	}
	if err := <-done; err != nil {
		return "", err
	}
	return s.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

// TestTLSFiles: a client shows the configured certificate, and the new one when its files have been
// replaced. If a file is missing, the client shows the last good certificate. It refuses a
// server whose certificate is of another authority.
func TestTLSFiles(t *testing.T) {
	ours := testpki.New(t)
	first, second := ours.Issue(t, "first"), ours.Issue(t, "second")
	c := files(t, "zookeeper:\n  tls: {ca_file: ca.pem, cert_file: c.pem, key_file: k.pem, server_name: zk.example}\n",
		map[string][]byte{"ca.pem": ours.PEM, "c.pem": first.Cert, "k.pem": first.Key})
	source, err := c.tlsSource()
	if err != nil {
		t.Fatal(err)
	}
	server := &tls.Config{Certificates: []tls.Certificate{ours.Issue(t, "zk.example").TLS(t)}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ours.Pool()}
	shown := func(want string) {
		t.Helper()
		cfg, _ := source()
		if got, err := handshake(t, cfg, server); err != nil || got != want {
			t.Errorf("the server has seen %q, %v, want %q", got, err, want)
		}
	}
	shown("first")
	for path, content := range map[string][]byte{c.ZooKeeper.TLS.CertFile: second.Cert, c.ZooKeeper.TLS.KeyFile: second.Key} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	shown("second")
	if err := os.Remove(c.ZooKeeper.TLS.KeyFile); err != nil {
		t.Fatal(err)
	}
	shown("second")
	if _, err := source(); err == nil || !strings.Contains(err.Error(), "zookeeper.tls.key_file") {
		t.Errorf("a missing key gives %v", err)
	}
	strangers := testpki.New(t)
	server.Certificates = []tls.Certificate{strangers.Issue(t, "zk.example").TLS(t)}
	cfg, _ := source()
	if _, err := handshake(t, cfg, server); err == nil {
		t.Error("it believes in a server whose authority it does not know")
	}
}

// TestFileMistakes: an error about a file or variable has the position of its key in the
// configuration, and shows no secret.
func TestFileMistakes(t *testing.T) {
	ours := testpki.New(t)
	pair, other := ours.Issue(t, "svc"), ours.Issue(t, "other")
	good := map[string][]byte{
		"ca.pem": ours.PEM, "c.pem": pair.Cert, "k.pem": pair.Key, "other.pem": other.Key, "text.pem": []byte("hunter2"),
		"encrypted.pem": []byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\nhunter2\n-----END ENCRYPTED PRIVATE KEY-----\n"),
	}
	for _, test := range []struct{ config, place, says string }{
		{"zookeeper:\n  tls: {ca_file: none.pem}", ":2:18: zookeeper.tls.ca_file: ", "none.pem: no such file"},
		{"zookeeper:\n  tls: {ca_file: text.pem}", ":2:18: zookeeper.tls.ca_file: ", "has no certificate: must be PEM"},
		{"zookeeper:\n  tls: {cert_file: none.pem, key_file: k.pem}", ":2:20: zookeeper.tls.cert_file: ", "none.pem: no such file"},
		{"zookeeper:\n  tls: {cert_file: k.pem, key_file: k.pem}", ":2:20: zookeeper.tls.cert_file: ", "has no certificate"},
		{"zookeeper:\n  tls: {cert_file: c.pem, key_file: hunter2}", ":2:37: zookeeper.tls.key_file: ", "no such file"},
		{"zookeeper:\n  tls: {cert_file: c.pem, key_file: text.pem}", ":2:37: zookeeper.tls.key_file: ", "PEM"},
		{"zookeeper:\n  tls: {cert_file: c.pem, key_file: other.pem}", ":2:37: zookeeper.tls.key_file: ", "does not match"},
		{"zookeeper:\n  tls: {cert_file: c.pem, key_file: encrypted.pem}", ":2:37: zookeeper.tls.key_file: ", "is encrypted: must be without a passphrase"},
		{"zookeeper:\n  auth: {user: u, password_env: hunter2}", ":2:33: zookeeper.auth.password_env: ", "no environment variable of the name that stands there"},
		{"zookeeper:\n  auth: {user: u, password_file: hunter2}", ":2:34: zookeeper.auth.password_file: ", "no such file"},
		{"roots:\n- {name: a, root: /a, zookeeper: {tls: {ca_file: none.pem}}}\nzookeeper: {tls: {ca_file: ca.pem}}", ":2:50: roots[0].zookeeper.tls.ca_file: ", "none.pem: no such file"},
		{"roots:\n- {name: a, root: /a}\nzookeeper: {tls: {ca_file: none.pem}}", ":3:28: zookeeper.tls.ca_file: ", "none.pem: no such file"},
	} {
		c := files(t, test.config+"\n", good)
		options, err := c.Each()[0].Options(t.Context())
		if options != nil || err == nil {
			t.Errorf("%s: %d options, %v", test.config, len(options), err)
			continue
		}
		for _, want := range []string{c.from.file + test.place, test.says} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v\nwant %q in it", err, want)
			}
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error shows a secret: %v", err)
		}
	}
	c := files(t, "zookeeper:\n  tls: {cert_file: c.pem, key_file: k.pem}\n", good)
	if err := os.Chmod(c.ZooKeeper.TLS.KeyFile, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Options(t.Context()); err == nil || !strings.Contains(err.Error(), "key_file: ") || !strings.Contains(err.Error(), "mode 0644") {
		t.Errorf("a key that everybody may read: %v", err)
	}
}
