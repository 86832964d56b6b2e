package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/integration/localhost"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/config"
)

const planted = "hunter2"

// TestSecretsAreNotShown: wherever a user puts a password, correctly or by mistake, no output of a
// command contains it, even at the most verbose log level.
func TestSecretsAreNotShown(t *testing.T) {
	server := localhost.Silent(t)
	folder := t.TempDir()
	password := filepath.Join(folder, "password")
	if err := os.WriteFile(password, []byte(planted+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(folder, "open")
	if err := os.WriteFile(open, []byte(planted+"\n"), 0o600); err != nil || os.Chmod(open, 0o644) != nil {
		t.Fatal(err)
	}
	zookeeper := func(keys string) string {
		return fmt.Sprintf("log: {level: trace}\nzookeeper: {servers: ['%s'], session_timeout: 200ms, %s}\n", server, keys)
	}
	for _, text := range []string{
		zookeeper("auth: {user: u, password_file: " + password + "}"), // correct
		zookeeper("auth: {user: u, password_env: HOLDFAST_TEST_PLANTED}"),
		zookeeper("auth: {user: u, password_file: " + open + "}"),
		zookeeper("auth: {user: u, password_env: hunter2}"),
		zookeeper("auth: {user: u, password_file: hunter2}"),
		zookeeper("auth: {user: u, password: hunter2}"),
		zookeeper("auth: {user: u, hunter2}"),
		zookeeper("auth: {user: 'u:hunter2', password_env: P}"),
		zookeeper("auth: {scheme: digest, user: u:hunter2}"),
		zookeeper("auth: 'digest:u:hunter2'"),
		zookeeper("auth: [u, hunter2]"),
		zookeeper("auth: {user: u, password_env: [hunter2]}"),
		zookeeper("auth: {user: u, password_env: 'hunter2' hunter2}"),
		zookeeper("auth: {user: u, password_env: \"hunter2}"),
		zookeeper("auth: {user: u, password_env: @hunter2}"),
		zookeeper("auth: {user: u, password_env: *hunter2}"),
		zookeeper("auth: {user: u, password_env: !hunter2}"),
		zookeeper("auth: {user: u, password_env: hunter2: x}"),
		zookeeper("sasl: {mechanism: digest-md5, user: u, password_file: " + password + "}"), // correct
		zookeeper("sasl: {mechanism: digest-md5, user: u, password_env: HOLDFAST_TEST_PLANTED}"),
		zookeeper("sasl: {mechanism: digest-md5, user: u, password_file: " + open + "}"),
		zookeeper("sasl: {mechanism: digest-md5, user: u, password_env: hunter2}"),
		zookeeper("sasl: {mechanism: digest-md5, user: u, password_file: hunter2}"),
		zookeeper("sasl: {mechanism: digest-md5, user: u, password: hunter2}"),
		zookeeper("sasl: {mechanism: digest-md5, user: u, hunter2}"),
		zookeeper("sasl: {mechanism: gssapi, principal: u, keytab: hunter2}"),
		zookeeper("sasl: {mechanism: gssapi, principal: u, keytab: " + open + "}"),
		zookeeper("sasl: {mechanism: gssapi, user: u, password_env: hunter2}"),
		zookeeper("sasl: 'digest-md5:u:hunter2'"),
		zookeeper("sasl: [u, hunter2]"),
		zookeeper("tls: {cert_file: " + password + ", key_file: " + password + "}"),
		zookeeper("tls: {ca_file: " + password + "}"),
		zookeeper("tls: {cert_file: " + password + ", key_file: hunter2}"),
		zookeeper("tls: {cert_file: c, key_file: '-----BEGIN PRIVATE KEY----- hunter2'}"),
		zookeeper("tls: {password: hunter2}"),
		"zookeeper:\n  servers: ['u:hunter2@zk1']\n",
		"zookeeper:\n  servers: 'zk://u:hunter2@zk1/locks'\n",
		"zookeeper:\n  auth:\n    user: u\n   password: hunter2\n",
		"zookeeper:\n  auth:\n    hunter2\n    user: u\n",
		"zookeeper:\n  auth: |\n    hunter2\n",
		"hunter2\n", "zookeeper: hunter2\n", "u:hunter2\n",
	} {
		for _, servers := range []string{"", "u:hunter2@zk1:2181", "zk://u:hunter2@zk1,zk2/x"} {
			t.Setenv(EnvConfig, "")
			t.Setenv(EnvServers, servers)
			t.Setenv("HOLDFAST_TEST_PLANTED", planted)
			var out, errs bytes.Buffer
			status := Run(t.Context(), dials(Flags{Config: write(t, text)}), nil, nil, &out, &errs)
			if status == 0 || errs.Len() == 0 {
				t.Errorf("%s: status %d, no error", text, status)
			}
			if shown := out.String() + errs.String(); strings.Contains(shown, planted) {
				t.Errorf("with the configuration\n%sand servers %q it prints\n%s", text, servers, shown)
			}
		}
	}
}

// dials returns a command that logs the configuration of the flags, and dials with it.
func dials(flags Flags) *cobra.Command {
	cmd := &cobra.Command{Use: "prog", SilenceUsage: true}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := flags.Load(cmd.Context())
		if err != nil {
			return err
		}
		log := Logger(cfg.Log, cmd.ErrOrStderr())
		log.Info().Str("configuration", fmt.Sprintf("%+v", cfg)).Any("zookeeper", cfg.ZooKeeper).Str("auth", fmt.Sprintf("%+v %+v %+v", cfg.ZooKeeper.Auth, cfg.ZooKeeper.SASL, cfg.ZooKeeper.TLS)).Msg("starting")
		client, err := Dial(cmd.Context(), cfg, log)
		if err == nil {
			err = errors.Join(errors.New("there was a session"), client.Close())
		}
		return err
	}
	return cmd
}

// TestLibraryShowsNoSecret: neither the error of a refused option nor a log shows the password.
func TestLibraryShowsNoSecret(t *testing.T) {
	var log bytes.Buffer
	for _, o := range []lock.Option{lock.WithDigest("", planted), lock.WithDigest("u:x", planted), lock.WithDigest("u", planted),
		lock.WithSASLDigest("", planted), lock.WithSASLDigest("u", planted)} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // wall clock: the server is silent
		_, err := lock.Dial(ctx, []string{localhost.Silent(t)}, o, lock.WithLogger(Logger(config.Log{Level: "trace", Format: "json"}, &log)))
		cancel()
		if err == nil || strings.Contains(err.Error()+log.String(), planted) {
			t.Errorf("error %v, log %s", err, &log)
		}
	}
	_, err := lock.Dial(t.Context(), []string{"u:" + planted + "@zk1"})
	if err == nil || strings.Contains(err.Error(), planted) {
		t.Errorf("error %v", err)
	}
}
