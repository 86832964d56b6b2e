package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/testpki"
)

// files writes the files and a configuration into a temporary folder, and parses the configuration.
func files(t *testing.T, config string, files map[string][]byte) *Config {
	t.Helper()
	folder := t.TempDir()
	for name, content := range files {
		iferr.Fatal(t, os.WriteFile(filepath.Join(folder, name), content, 0o600))
	}
	path := filepath.Join(folder, "config.yaml")
	iferr.Fatal(t, os.WriteFile(path, []byte(config), 0o600))
	c, err := Load(path)
	iferr.Fatal(t, err)
	return c
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
	iferr.Fatal(t, os.Chmod(c.ZooKeeper.TLS.KeyFile, 0o644))
	if _, err := c.Options(t.Context()); err == nil || !strings.Contains(err.Error(), "key_file: ") || !strings.Contains(err.Error(), "mode 0644") {
		t.Errorf("a key that everybody may read: %v", err)
	}
}
