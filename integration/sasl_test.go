package integration_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/testpki"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/shard"
)

// saslUsers has the passwords of the tests' servers, by user.
var saslUsers = map[string]string{"svc": "tr0ub4dor", "other": "secret", "пользователь": "pässwörd"}

// withSASL returns the options of a server that authenticates saslUsers by DIGEST-MD5.
func withSASL(t testing.TB) zkserver.Options {
	t.Helper()
	jaas := "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required"
	for user, password := range saslUsers {
		jaas += fmt.Sprintf("\n  user_%s=%q", user, password)
	}
	return withJAAS(t, jaas+";\n};\n")
}

// withJAAS returns the options of a server with SASL, whose JAAS configuration is text.
func withJAAS(t testing.TB, text string) zkserver.Options {
	t.Helper()
	return zkserver.Options{
		Config:  []string{"authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider", "fips-mode=false"},
		JVMArgs: []string{"-Djava.security.auth.login.config=" + testpki.File(t, "jaas.conf", []byte(text)), "-Dfile.encoding=UTF-8"},
	}
}

func saslACL(user string) []zk.ACL { return []zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: user}} }

// dialSASL returns a client that authenticates as one of saslUsers.
func dialSASL(t testing.TB, server, user string, opts ...lock.Option) *lock.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return dial(t, ctx, []string{server}, append([]lock.Option{
		lock.WithSASLDigest(user, saslUsers[user]), lock.WithTTL(long), lock.WithGrace(grace), lock.WithSessionTimeout(20 * time.Second),
		lock.WithLogger(zerolog.New(zerolog.NewTestWriter(t))),
	}, opts...)...)
}

// TestStrangerWithoutSASL: if / is closed and the locks belong to a SASL user, a client without
// SASL, or of another user, cannot read, renew, break or reap them, nor queue, request their
// release, or change their ACLs.
func TestStrangerWithoutSASL(t *testing.T) {
	t.Parallel()
	s := startSecure(t, withSASL(t))
	const root = "/sasl"
	administrator := s.raw(s.authority.Issue(t, "administrator"), "admin:top secret")
	iferr.Fatal(t, administrator.Ensure(root, nil, saslACL("svc")))
	iferr.Fatal(t, administrator.Restrict("/", zk.DigestACL(zk.PermAll, "admin", "top secret")))
	ours := s.client(lock.WithRoot(root), lock.WithSASLDigest("svc", saslUsers["svc"]))
	s.unharmed(ours, func(hold *lock.Hold) {
		stranger := s.authority.Issue(t, "stranger")
		s.denyRaw(s.raw(stranger), root, hold.EntryPath())
		s.denyRaw(s.raw(stranger, "svc:"+saslUsers["svc"]), root, hold.EntryPath()) // by the scheme digest instead of SASL
		s.denyLibrary(root, hold)
		s.denyLibrary(root, hold, lock.WithSASLDigest("other", saslUsers["other"]))
		s.denyReaper(root, stranger)
		for _, a := range must(admin.New(ours).ACL(s.ctx, hold.EntryPath()))(t) {
			if a != saslACL("svc")[0] {
				t.Errorf("the entry's ACL has %+v", a)
			}
		}
	})
}

// must returns a function that fails the test if err is not nil, and otherwise returns the value.
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		iferr.Fatal(t, err)
		return value
	}
}

// TestSASLMistakes: each mistake has an error that says what to do, and no error or log line shows
// a password. Dial fails at once. With servers before 3.5 Dial tries until its context ends, as
// during an outage.
func TestSASLMistakes(t *testing.T) {
	t.Parallel()
	users := withSASL(t)
	required, kept, noProvider := withSASL(t), withSASL(t), withSASL(t)
	required.JVMArgs = append(required.JVMArgs, "-Dzookeeper.sessionRequireClientSASLAuth=true")
	kept.JVMArgs = append(kept.JVMArgs, "-Dzookeeper.allowSaslFailedClients=true")
	noProvider.Config = noProvider.Config[1:]
	start := func(opts zkserver.Options) string { return zkserver.ForTest(t, opts).Addr() }
	first := zkserver.ForTest(t, users)
	version := must(first.Version(t.Context()))(t)
	// A server before 3.5 cannot require SASL. If it does not accept a client, it closes the
	// connection without an answer.
	old := version.Number[0] == 3 && version.Number[1] < 5
	plain, requires := first.Addr(), start(required)
	ours := lock.WithSASLDigest("svc", saslUsers["svc"])
	wrong := lock.WithSASLDigest("svc", "wr0ng")
	for _, test := range []struct {
		name, server string
		option       lock.Option
		says         []string
	}{
		{"wrong password", plain, wrong, []string{"user_svc", "JAAS"}},
		{"unknown user", plain, lock.WithSASLDigest("nobody", "wr0ng"), []string{"user_nobody", "JAAS"}},
		{"wrong password, required", requires, wrong, []string{"user_svc", "JAAS"}},
		{"wrong password, client kept", start(kept), wrong, []string{"user_svc", "keeps the connection"}},
		{"no SASL at the server", zkserver.External()[0], ours, []string{"has no SASL", "section Server"}},
		{"another mechanism", start(withKerberos(t)), ours, []string{"does not offer DIGEST-MD5", "gssapi"}},
		{"required", requires, nil, []string{"zookeeper.sasl", "lock.WithSASL"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var log strings.Builder
			hook := zerolog.HookFunc(func(_ *zerolog.Event, _ zerolog.Level, message string) {
				if strings.Contains(message, "cannot connect to a server") && old {
					cancel()
				}
			})
			c, err := lock.Dial(ctx, []string{test.server}, test.option, lock.WithLogger(zerolog.New(zerolog.SyncWriter(&log)).Hook(hook)))
			if err == nil {
				c.Close()
				if test.option == nil && old {
					return // the server cannot require SASL
				}
				t.Fatal("connected")
			}
			if !errors.Is(err, lock.ErrSASL) || !errors.Is(err, lock.ErrDenied) && !old {
				t.Errorf("%v", err)
			}
			for _, want := range test.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nwant %q in it", err, want)
				}
			}
			if shown := err.Error() + log.String(); strings.Contains(shown, "wr0ng") || strings.Contains(shown, saslUsers["svc"]) {
				t.Errorf("shown: %s", shown)
			}
		})
	}
	t.Run("no provider", func(t *testing.T) {
		c := dialSASL(t, start(noProvider), "svc")
		_, err := c.Mutex("x").Lock(t.Context())
		if !errors.Is(err, zk.ErrInvalidACL) || !strings.Contains(err.Error(), "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider") {
			t.Error(err)
		}
	})
	t.Run("characters", func(t *testing.T) { // names and passwords beyond ASCII
		c := dialSASL(t, plain, "пользователь", lock.WithRoot("/other"))
		iferr.Error(t, c.Mutex("x").Do(t.Context(), func(context.Context) error { return nil }))
	})
	t.Run("shards", func(t *testing.T) {
		c := dialSASL(t, plain, "svc", lock.WithRoot("/shards"))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err := shard.Run(ctx, c, "group", 1, func(ctx context.Context, _ shard.Owned) error {
			state, err := shard.Read(ctx, c, "group", false)
			if err != nil || len(state.Members) != 1 || state.Unowned() != 0 {
				t.Errorf("%+v: %v", state, err)
			}
			cancel()
			<-ctx.Done()
			return nil
		}, shard.Options{})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestSASLInFIPSMode: without fips-mode=false, servers from 3.9.6 on refuse DIGEST-MD5, and the error
// says what to do; the others accept it.
func TestSASLInFIPSMode(t *testing.T) {
	t.Parallel()
	opts := withSASL(t)
	opts.Config = opts.Config[:1]
	s := zkserver.ForTest(t, opts)
	v := must(s.Version(t.Context()))(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := lock.Dial(ctx, []string{s.Addr()}, lock.WithSASLDigest("svc", saslUsers["svc"]))
	if err == nil {
		c.Close()
	}
	refuses := slices.Compare(v.Number[:], []int{3, 9, 6}) >= 0
	switch {
	case refuses && (!errors.Is(err, lock.ErrSASL) || !strings.Contains(err.Error(), "fips-mode=false")):
		t.Errorf("%s: %v", v, err)
	case !refuses && err != nil:
		t.Errorf("%s: %v", v, err)
	}
}

// withKerberos returns the options of a server with the mechanism GSSAPI. The server needs no KDC,
// because no client asks for a ticket.
func withKerberos(t testing.TB) zkserver.Options {
	t.Helper()
	text := func(s string) []byte { return append(binary.BigEndian.AppendUint16(nil, uint16(len(s))), s...) }
	entry := binary.BigEndian.AppendUint16(nil, 2) // number of the parts of the name zookeeper/127.0.0.1@EXAMPLE.COM
	for _, part := range []string{"EXAMPLE.COM", "zookeeper", "127.0.0.1"} {
		entry = append(entry, text(part)...)
	}
	entry = append(binary.BigEndian.AppendUint32(entry, 1), 0, 0, 0, 0, 1) // kind of the name, time, version of the key
	entry = append(binary.BigEndian.AppendUint16(entry, 17), text("0123456789abcdef")...)
	keytab := append(binary.BigEndian.AppendUint32([]byte{5, 2}, uint32(len(entry))), entry...)
	opts := withJAAS(t, fmt.Sprintf("Server {\n  com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab=%q storeKey=true useTicketCache=false isInitiator=false principal=\"zookeeper/127.0.0.1@EXAMPLE.COM\";\n};\n",
		testpki.File(t, "zookeeper.keytab", keytab)))
	opts.JVMArgs = append(opts.JVMArgs, "-Djava.security.krb5.realm=EXAMPLE.COM", "-Djava.security.krb5.kdc=127.0.0.1:1")
	return opts
}

// TestSASLAsDocumented: a client with the configuration of lock/SECURING.md can lock on a server
// with the page's lines for zoo.cfg and its JAAS configuration.
func TestSASLAsDocumented(t *testing.T) {
	t.Parallel()
	page := text(t, "../lock/SECURING.md")
	zoo := regexp.MustCompile("(?s)```text\n(authProvider.*?)\n```").FindStringSubmatch(page)
	jaas := regexp.MustCompile("(?s)```text\n(Server {.*?)```").FindStringSubmatch(page)
	client := regexp.MustCompile("(?s)```yaml\n(zookeeper:\n[^`]*?  sasl:\n    mechanism: digest-md5.*?)```").FindStringSubmatch(page)
	if zoo == nil || jaas == nil || client == nil {
		t.Fatal("lock/SECURING.md shows no zoo.cfg, no JAAS configuration, or no configuration of a client")
	}
	opts := withJAAS(t, jaas[1])
	opts.Config = strings.Split(zoo[1], "\n")
	s := startSecure(t, opts)
	dir := t.TempDir()
	for name, content := range map[string][]byte{"ca.pem": s.authority.PEM, "svc.pem": s.ours.Cert, "svc.key": s.ours.Key, "zookeeper.password": []byte("PASSWORD\n")} {
		writeFile(t, filepath.Join(dir, name), string(content))
	}
	text := strings.NewReplacer(`"zk1:2281", "zk2:2281", "zk3:2281"`, fmt.Sprintf("%q", s.secure),
		"ca_file: ca.pem", "ca_file: ca.pem\n    cert_file: svc.pem\n    key_file: svc.key").Replace(client[1])
	locks := configured(t, s.ctx, filepath.Join(dir, "config.yaml"), text)
	iferr.Error(t, locks.Mutex("orders/42").Do(s.ctx, func(context.Context) error { return nil }))
	if acl := must(admin.New(locks).ACL(s.ctx, "/locks"))(t); len(acl) != 1 || acl[0] != saslACL("holdfast")[0] {
		t.Errorf("the root's ACL is %+v", acl)
	}
}
