package config_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestSASLDigest: a client with the options authenticates by SASL. The ensemble in memory lacks SASL,
// so Dial fails with lock.ErrSASL.
func TestSASLDigest(t *testing.T) {
	t.Setenv("HOLDFAST_TEST_PASSWORD", "secret")
	cfg, err := config.Parse("config.yaml", []byte("zookeeper: {sasl: {mechanism: digest-md5, user: u, password_env: HOLDFAST_TEST_PASSWORD}}"))
	iferr.Fatal(t, err)
	opts, err := cfg.Options(context.Background())
	iferr.Fatal(t, err)
	ensemble := locktest.Start(t, locktest.Options{})
	if _, err := lock.Dial(t.Context(), ensemble.Servers(), append(opts, lock.WithDialer(ensemble.Dial))...); !errors.Is(err, lock.ErrSASL) {
		t.Error(err)
	}
	if got := cfg.PasswordVariables(); len(got) != 1 || got[0] != "HOLDFAST_TEST_PASSWORD" {
		t.Errorf("password variables %q", got)
	}
}

// mechanism is a lock.SASL whose Start fails with the error.
type mechanism struct{ error }

func (m mechanism) Start(context.Context, string) (lock.SASLExchange, error) { return nil, m.error }

// TestGSSAPI: the Kerberos implementation that is passed to Options gets the settings, with absolute
// paths. If none is passed, or it or the keytab's file fails, Options returns an error that names the
// key.
func TestGSSAPI(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	parse := func(keys string) *config.Config {
		t.Helper()
		cfg, err := config.Parse(file, []byte("zookeeper:\n  sasl: {mechanism: gssapi, "+keys+"}\n"))
		iferr.Fatal(t, err)
		return cfg
	}
	for name, mode := range map[string]os.FileMode{"keytab": 0o600, "open": 0o644} {
		iferr.Fatal(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
		iferr.Fatal(t, os.Chmod(filepath.Join(dir, name), mode))
	}
	for keys, want := range map[string]config.SASL{
		"principal: svc@EXAMPLE.COM, keytab: keytab, krb5_conf: krb5.conf": {
			Principal: "svc@EXAMPLE.COM", Keytab: filepath.Join(dir, "keytab"), Krb5Conf: filepath.Join(dir, "krb5.conf"), Service: "zookeeper"},
		"ccache: 'FILE:/run/cc', service: zk": {CCache: "/run/cc", Service: "zk"},
		"ccache: cc":                          {CCache: filepath.Join(dir, "cc"), Service: "zookeeper"},
		"service: zookeeper":                  {Service: "zookeeper"},
	} {
		broken := errors.New("no ticket")
		var got config.SASL
		opts, err := parse(keys).Options(context.Background(), func(s config.SASL) (lock.SASL, error) {
			got = s
			return mechanism{errors.Join(lock.ErrDenied, broken)}, nil
		})
		iferr.Fatal(t, err)
		if got.Mechanism != config.GSSAPI || got.Principal != want.Principal || got.Keytab != want.Keytab || got.CCache != want.CCache || got.Service != want.Service || got.Krb5Conf != want.Krb5Conf {
			t.Errorf("%s: Kerberos gets %#v, want %#v", keys, got, want)
		}
		if _, err := lock.Dial(t.Context(), []string{"127.0.0.1:1"}, opts...); !errors.Is(err, broken) {
			t.Errorf("%s: %v", keys, err)
		}
	}
	fails := func(config.SASL) (lock.SASL, error) { return nil, errors.New("no realm") }
	for _, test := range []struct {
		keys string
		with []config.Kerberos
		says string
	}{
		{"service: zk", nil, ":2:21: zookeeper.sasl.mechanism: gssapi needs a Kerberos library"},
		{"service: zk", []config.Kerberos{nil}, "needs a Kerberos library"},
		{"service: zk", []config.Kerberos{fails}, ":2:21: zookeeper.sasl.mechanism: no realm"},
		{"principal: u, keytab: none", []config.Kerberos{fails}, "zookeeper.sasl.keytab: the file that stands there"},
		{"principal: u, keytab: open", []config.Kerberos{fails}, "zookeeper.sasl.keytab: " + filepath.Join(dir, "open") + " has mode 0644"},
	} {
		opts, err := parse(test.keys).Options(context.Background(), test.with...)
		if opts != nil || err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %d options, %v, want %q", test.keys, len(opts), err, test.says)
		}
	}
}
