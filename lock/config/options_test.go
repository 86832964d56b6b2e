package config_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestOptions: a client with the options has the file's root, times and credentials, so its nodes
// are open to no other user.
func TestOptions(t *testing.T) {
	t.Setenv("HOLDFAST_TEST_PASSWORD", "secret")
	for file, scheme := range map[string]string{
		"root: /shop\npolicies: [{name: p, match: '*', ttl: 3s}]\nzookeeper: {session_timeout: 4s, auth: {user: u, password_env: HOLDFAST_TEST_PASSWORD}}": "digest",
		"root: /shop\npolicies: [{name: p, match: '*', ttl: 3s}]\nzookeeper: {session_timeout: 4s}":                                                        "world",
	} {
		cfg, err := config.Parse("config.yaml", []byte(file))
		iferr.Fatal(t, err)
		opts, err := cfg.Options(t.Context())
		iferr.Fatal(t, err)
		var log strings.Builder
		ensemble := locktest.Start(t, locktest.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		locks, err := lock.Dial(ctx, ensemble.Servers(), append(opts, lock.WithDialer(ensemble.Dial), lock.WithLogger(zerolog.New(&log).Level(zerolog.WarnLevel)))...)
		iferr.Fatal(t, err)
		hold, err := locks.Mutex("x").Lock(ctx)
		iferr.Fatal(t, err)
		if left := hold.Remaining(); left > 3*time.Second || !strings.HasPrefix(hold.EntryPath(), "/shop/x/") {
			t.Errorf("%s has %v left", hold.EntryPath(), left)
		}
		for _, n := range ensemble.Dump("/shop") {
			if len(n.ACL) == 0 || n.ACL[0].Scheme != scheme || scheme == "digest" && !strings.HasPrefix(n.ACL[0].ID, "u:") {
				t.Errorf("ACL of %s: %+v, want one of scheme %s", n.Path, n.ACL, scheme)
			}
		}
		iferr.Error(t, locks.Close())
		if !strings.Contains(log.String(), `"session_timeout":"4s"`) { // a warning, because it exceeds the TTL
			t.Errorf("session timeout: %s", &log)
		}
	}
}

// TestFollowReconfiguration: follow_reconfiguration sets the option WithReconfiguration, which lock.New
// refuses. A root with its own servers does not inherit the key.
func TestFollowReconfiguration(t *testing.T) {
	cfg, err := config.Parse("config.yaml", []byte(`zookeeper: {follow_reconfiguration: true}
roots:
  - {name: a, root: /a}
  - {name: b, root: /b, zookeeper: {servers: [b]}}
  - {name: c, root: /c, zookeeper: {servers: [c], follow_reconfiguration: true}}`))
	iferr.Fatal(t, err)
	for i, follows := range []bool{true, false, true} {
		opts, err := cfg.Each()[i].Options(t.Context())
		iferr.Fatal(t, err)
		locks, err := lock.New(new(zk.Conn), opts...)
		if err == nil {
			err = locks.Close()
		}
		if got := err != nil && strings.Contains(err.Error(), "WithReconfiguration"); got != follows {
			t.Errorf("root %d: %v, want %v", i, err, follows)
		}
	}
}
