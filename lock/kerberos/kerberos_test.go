//go:build unix

package kerberos

// Tests of logins and tickets, on a real KDC.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/kdc"
	"github.com/holdfast-io/holdfast/integration/localhost"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/lock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const server = "localhost:2181"

// realm is a KDC with a client and a service.
type realm struct {
	*kdc.KDC
	t       *testing.T
	keytab  string // of svc
	service string // keytab of the service
}

func newRealm(t *testing.T, opts kdc.Options) *realm {
	t.Helper()
	k := kdc.ForTest(t, opts)
	k.AddPrincipal(t, "svc", "zookeeper/localhost")
	return &realm{k, t, k.Keytab(t, "svc"), k.Keytab(t, "zookeeper/localhost")}
}

// config returns the settings of the client with the keytab.
func (r *realm) config() Config { return Config{Principal: "svc", Keytab: r.keytab, Krb5Conf: r.Conf} }

func mechanism(t *testing.T, cfg Config) *Mechanism {
	t.Helper()
	m, err := New(cfg)
	iferr.Fatal(t, err)
	return m
}

// authenticate runs a whole exchange, and returns the name under which the service knows the client
// and the ticket's end.
func (r *realm) authenticate(m *Mechanism) (client string, end time.Time) {
	r.t.Helper()
	e, err := m.Start(r.t.Context(), server)
	if err != nil {
		r.t.Fatalf("%v\n%s", err, r.Log())
	}
	a := newAcceptor(r.t, r.service)
	iferr.Fatal(r.t, a.run(e))
	return a.client, e.Expires()
}

// issued returns how many tickets of the kind the KDC has issued: AS_REQ for logins, TGS_REQ for
// services.
func (r *realm) issued(kind string) (n int) {
	for line := range strings.Lines(r.Log()) {
		if strings.Contains(line, kind) && strings.Contains(line, "ISSUE") {
			n++
		}
	}
	return n
}

// age makes all tickets of a mechanism older.
func age(m *Mechanism, by time.Duration) {
	for _, t := range m.services {
		t.start, t.end = t.start.Add(-by), t.end.Add(-by)
	}
	if m.login != nil {
		m.login.start, m.login.end = m.login.start.Add(-by), m.login.end.Add(-by)
	}
}

// TestKeytab: a client authenticates with a keytab. It uses the ticket until half of the ticket's
// time is over, and then logs in again. While the KDC is down, it uses the ticket until the ticket
// expires.
func TestKeytab(t *testing.T) {
	r := newRealm(t, kdc.Options{})
	m := mechanism(t, r.config())
	client, first := r.authenticate(m)
	if client != "svc@"+r.Realm || time.Until(first) < 23*time.Hour {
		t.Errorf("authenticated as %s until %v", client, first)
	}
	count := func(want int) {
		t.Helper()
		if as, tgs := r.issued("AS_REQ"), r.issued("TGS_REQ"); as != want || tgs != want {
			t.Errorf("%d logins and %d tickets for the service, want %d\n%s", as, tgs, want, r.Log())
		}
	}
	r.authenticate(m)
	age(m, 11*time.Hour)
	r.authenticate(m)
	count(1)
	age(m, 2*time.Hour)
	if _, end := r.authenticate(m); end.Before(first) {
		t.Errorf("a new ticket until %v, after one until %v", end, first)
	}
	count(2)
	r.Stop()
	age(m, 23*time.Hour)
	if _, end := r.authenticate(m); time.Until(end) > time.Hour+time.Minute {
		t.Errorf("while the KDC is down: a ticket until %v", end)
	}
	if e, err := m.Start(t.Context(), server); err != nil {
		t.Error(err)
	} else if why := e.(interface{ Stale() error }).Stale(); why == nil || !strings.Contains(why.Error(), "no KDC of EXAMPLE.COM answers") {
		t.Errorf("the reason for an old ticket: %v", why)
	}
	age(m, time.Hour)
	if _, err := m.Start(t.Context(), server); err == nil || errors.Is(err, lock.ErrDenied) {
		t.Errorf("with an expired ticket, while the KDC is down: %v", err)
	}
	iferr.Fatal(t, r.Start(t.Context()))
	r.authenticate(m)
	count(3)
}

// TestNewKeytab: after a change of the password, a new keytab at the same path is used without a
// restart.
func TestNewKeytab(t *testing.T) {
	r := newRealm(t, kdc.Options{})
	m := mechanism(t, r.config())
	r.authenticate(m)
	r.Admin(t, "cpw -randkey svc")
	age(m, 13*time.Hour)
	iferr.Fatal(t, os.Rename(r.Keytab(t, "svc"), r.keytab))
	_, end := r.authenticate(m)
	if time.Until(end) < 20*time.Hour {
		t.Errorf("a ticket until %v", end)
	}
}

// TestCache: a client uses the credential cache of kinit. It notices when the cache is renewed, or
// when another principal is in it.
func TestCache(t *testing.T) {
	r := newRealm(t, kdc.Options{})
	r.AddPrincipal(t, "other")
	cache := filepath.Join(t.TempDir(), "cache")
	r.Kinit(t, "svc", r.keytab, cache, "-l", "10m")
	for name, cfg := range map[string]Config{
		"path": {CCache: cache, Krb5Conf: r.Conf},
		"FILE": {CCache: "FILE:" + cache, Krb5Conf: r.Conf, Principal: "svc"},
	} {
		if client, end := r.authenticate(mechanism(t, cfg)); client != "svc@"+r.Realm || time.Until(end) > 10*time.Minute {
			t.Errorf("%s: authenticated as %s until %v", name, client, end)
		}
	}
	t.Setenv("KRB5CCNAME", "FILE:"+cache)
	t.Setenv("KRB5_CONFIG", filepath.Join(t.TempDir(), "missing")+":"+r.Conf)
	m := mechanism(t, Config{})
	r.authenticate(m)
	r.Kinit(t, "svc", r.keytab, cache, "-l", "1h")
	r.authenticate(m)
	age(m, 6*time.Minute)
	if _, end := r.authenticate(m); time.Until(end) < 50*time.Minute {
		t.Errorf("after kinit: a ticket until %v", end)
	}
	iferr.Fatal(t, os.Truncate(cache, 40)) // while kinit writes it
	r.authenticate(m)
	r.Kinit(t, "other", r.Keytab(t, "other"), cache)
	if client, _ := r.authenticate(m); client != "other@"+r.Realm {
		t.Errorf("after kinit by another user: authenticated as %s", client)
	}
}

// TestShortTickets: with tickets of two seconds, each exchange uses a ticket that has not expired,
// over five logins.
func TestShortTickets(t *testing.T) {
	r := newRealm(t, kdc.Options{TicketLife: 2 * time.Second})
	m := mechanism(t, r.config())
	end := time.Time{}
	err := wait.Until(t.Context(), time.Minute, "there were five logins", func() (bool, error) {
		begin := time.Now()
		_, next := r.authenticate(m)
		if !next.After(begin) {
			return false, fmt.Errorf("at %v a ticket that ended at %v", begin, next)
		}
		if next.Before(end) {
			return false, fmt.Errorf("a ticket until %v after one until %v", next, end)
		}
		end = next
		return r.issued("AS_REQ") >= 5, nil
	})
	iferr.Error(t, err)
}

// TestSharedMechanism: clients that use a mechanism at the same time log in once. A Start that
// waits for another login returns when its context ends.
func TestSharedMechanism(t *testing.T) {
	r := newRealm(t, kdc.Options{})
	m := mechanism(t, r.config())
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			e, err := m.Start(t.Context(), server)
			if err == nil {
				err = newAcceptor(t, r.service).run(e)
			}
			iferr.Error(t, err)
		})
	}
	all.Wait()
	if as, tgs := r.issued("AS_REQ"), r.issued("TGS_REQ"); as != 1 || tgs != 1 {
		t.Errorf("%d logins and %d tickets", as, tgs)
	}
	m.turn <- struct{}{}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Start(gone, server); !errors.Is(err, context.Canceled) || errors.Is(err, lock.ErrDenied) {
		t.Errorf("while another one logs in: %v", err)
	}
}

// TestOtherRealm: a client authenticates to a service in a realm that its own realm trusts, whether
// krb5.conf or the client's KDC names the realm.
func TestOtherRealm(t *testing.T) {
	home := newRealm(t, kdc.Options{Realm: "HOME.ORG"})
	away := kdc.ForTest(t, kdc.Options{Realm: "AWAY.ORG"})
	for _, k := range []*kdc.KDC{home.KDC, away} {
		k.Admin(t, "addprinc -pw trust krbtgt/AWAY.ORG@HOME.ORG")
	}
	away.AddPrincipal(t, "zookeeper/zk.away.org")
	conf := func(mapping string) string {
		return fmt.Sprintf("[libdefaults]\ndefault_realm = HOME.ORG\n[realms]\nHOME.ORG = {\nkdc = %s\n}\n[domain_realm]\n%s\n[realms]\nAWAY.ORG = {\nkdc = %s\n}\n",
			home.Addr, mapping, away.Addr)
	}
	authenticate := func(conf string) {
		t.Helper()
		cfg := home.config()
		cfg.Krb5Conf = file(t, "krb5.conf", conf)
		e, err := mechanism(t, cfg).Start(t.Context(), "ZK.away.org:2181")
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, home.Log(), away.Log())
		}
		a := newAcceptor(t, away.Keytab(t, "zookeeper/zk.away.org"))
		if err := a.run(e); err != nil || a.client != "svc@HOME.ORG" {
			t.Errorf("authenticated as %s, %v", a.client, err)
		}
	}
	authenticate(conf(".away.org = AWAY.ORG"))
	home.Stop()
	iferr.Fatal(t, os.WriteFile(home.Conf, []byte(conf(".away.org = AWAY.ORG")), 0o600))
	iferr.Fatal(t, home.Start(t.Context()))
	authenticate(conf(""))
}

// TestErrors: the error for each mistake says what to do. If trying again is useless, the error is
// ErrDenied.
func TestErrors(t *testing.T) {
	r := newRealm(t, kdc.Options{})
	dir := t.TempDir()
	r.AddPrincipal(t, "gone", "changed", "locked", "late", "easy", "rc4")
	keytabs := map[string]string{}
	for _, name := range []string{"gone", "changed", "locked", "late", "easy"} {
		keytabs[name] = r.Keytab(t, name)
	}
	for _, request := range []string{
		"delprinc -force gone", "cpw -randkey changed", "modprinc -allow_tix locked", "modprinc -pwexpire yesterday late",
		"modprinc -requires_preauth easy", "cpw -randkey easy",
	} {
		r.Admin(t, request)
	}
	cache := filepath.Join(dir, "cache")
	r.Kinit(t, "svc", r.keytab, cache)
	torn, err := os.ReadFile(cache)
	iferr.Fatal(t, err)
	expired := filepath.Join(dir, "expired")
	r.Kinit(t, "svc", r.keytab, expired, "-l", "1s")
	iferr.Fatal(t, wait.Sleep(t.Context(), time.Second)) // the ticket expires after a second
	silent := localhost.Silent(t)
	conf := func(text string) string { return file(t, "krb5.conf", text) }
	realmAt := func(kdc string) string {
		return conf(fmt.Sprintf("[libdefaults]\ndefault_realm = %s\n[realms]\n%[1]s = {\nkdc = %s\n}\n", r.Realm, kdc))
	}
	for name, test := range map[string]struct {
		cfg    Config
		server string
		denied bool
		says   []string
	}{
		"unknown principal": {cfg: Config{Principal: "gone", Keytab: keytabs["gone"]}, denied: true,
			says: []string{"does not know the client gone@EXAMPLE.COM", "zookeeper.sasl.principal", "addprinc"}},
		"outdated keytab": {cfg: Config{Principal: "changed", Keytab: keytabs["changed"]}, denied: true,
			says: []string{"refuses the key of changed@EXAMPLE.COM", "the keytab is outdated", "ktadd"}},
		"outdated keytab, without preauthentication": {cfg: Config{Principal: "easy", Keytab: keytabs["easy"]}, denied: true,
			says: []string{"easy@EXAMPLE.COM", "the keytab is outdated", "ktadd"}},
		"locked": {cfg: Config{Principal: "locked", Keytab: keytabs["locked"]}, denied: true,
			says: []string{"locked@EXAMPLE.COM is locked", "modprinc"}},
		"expired password": {cfg: Config{Principal: "late", Keytab: keytabs["late"]}, denied: true,
			says: []string{"late@EXAMPLE.COM or its password has expired"}},
		"keytab of another": {cfg: Config{Principal: "svc", Keytab: keytabs["gone"]}, denied: true,
			says: []string{"has no key of svc@EXAMPLE.COM, but of gone@EXAMPLE.COM", "ktadd"}},
		"no keytab": {cfg: Config{Principal: "svc", Keytab: filepath.Join(dir, "missing")}, denied: true,
			says: []string{"missing: no such file", "zookeeper.sasl.keytab"}},
		"keytab that is none": {cfg: Config{Principal: "svc", Keytab: file(t, "keytab", "\x05\x02\x00\x00\x10\x00secret")}, denied: true,
			says: []string{"is no keytab", "ktadd"}},
		"unknown service": {cfg: r.config(), server: "127.0.0.1:2181",
			says: []string{"does not know the service zookeeper/127.0.0.1@EXAMPLE.COM", "zookeeper.servers", "zookeeper.sasl.service"}},
		"no KDC": {cfg: Config{Principal: "svc", Keytab: r.keytab, Krb5Conf: realmAt("127.0.0.1:1")},
			says: []string{"no KDC of EXAMPLE.COM answers", "tcp 127.0.0.1:1: connect: connection refused; udp 127.0.0.1:1", "[realms]", "firewall"}},
		"silent KDC": {cfg: Config{Principal: "svc", Keytab: r.keytab, Krb5Conf: realmAt(silent)},
			says: []string{"no KDC of EXAMPLE.COM answers", "timeout"}},
		"no krb5.conf": {cfg: Config{Principal: "svc", Keytab: r.keytab, Krb5Conf: filepath.Join(dir, "missing.conf")}, denied: true,
			says: []string{"krb5.conf: ", "missing.conf: no such file", "zookeeper.sasl.krb5_conf", "KRB5_CONFIG"}},
		"krb5.conf that is none": {cfg: Config{Principal: "svc", Keytab: r.keytab, Krb5Conf: conf("[libdefaults]\nrdns = perhaps\n")}, denied: true,
			says: []string{"krb5.conf: ", "rdns = perhaps"}},
		"krb5.conf without this realm": {cfg: Config{Principal: "svc@OTHER.ORG", Keytab: otherKeytab(t)}, denied: true,
			says: []string{"the KDCs of the realm OTHER.ORG", "[realms]", "dns_lookup_kdc", "default_realm"}},
		"krb5.conf without a default realm": {cfg: Config{Principal: "svc", Keytab: r.keytab, Krb5Conf: conf("[libdefaults]\nrdns = false\n")}, denied: true,
			says: []string{"name@REALM", "default_realm"}},
		"another realm's KDC": {cfg: Config{Principal: "svc@OTHER.ORG", Keytab: otherKeytab(t), Krb5Conf: conf("[realms]\nOTHER.ORG = {\nkdc = " + r.Addr + "\n}\n")}, denied: true,
			says: []string{"svc@OTHER.ORG"}},
		"expired cache": {cfg: Config{CCache: expired}, denied: true,
			says: []string{"the ticket of svc@EXAMPLE.COM in the credential cache " + expired + " expired at 20", "kinit", "keytab"}},
		"no cache": {cfg: Config{CCache: filepath.Join(dir, "missing")}, denied: true,
			says: []string{"missing: no such file", "kinit", "KRB5CCNAME", "keytab"}},
		"cache of another": {cfg: Config{CCache: cache, Principal: "other"}, denied: true,
			says: []string{"is of svc@EXAMPLE.COM, not of other@EXAMPLE.COM", "kinit"}},
		"cache of another kind": {cfg: Config{CCache: "KEYRING:persistent:0"}, denied: true,
			says: []string{"only those of kind FILE", "kinit -c"}},
		"torn cache": {cfg: Config{CCache: file(t, "torn", string(torn[:len(torn)/2]))}, denied: true,
			says: []string{"incomplete", "kinit"}},
		"cache that is none": {cfg: Config{CCache: file(t, "none", "secret")}, denied: true,
			says: []string{"is no credential cache", "kinit"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := test.cfg
			if cfg.Krb5Conf == "" {
				cfg.Krb5Conf = r.Conf
			}
			at := server
			if test.server != "" {
				at = test.server
			}
			ctx := t.Context()
			if name == "silent KDC" {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Second) // wall clock: the KDC is silent
				defer cancel()
			}
			_, err := mechanism(t, cfg).Start(ctx, at)
			checkError(t, err, test.denied, test.says...)
		})
	}
}

// otherKeytab returns a keytab of svc in another realm.
func otherKeytab(t *testing.T) string {
	t.Helper()
	k := kdc.ForTest(t, kdc.Options{Realm: "OTHER.ORG"})
	k.AddPrincipal(t, "svc")
	return k.Keytab(t, "svc")
}

// TestSkew: if the clocks differ by more than Kerberos permits, the error says whether this
// machine's clock is ahead or behind, and how much is permitted.
func TestSkew(t *testing.T) {
	for ahead, says := range map[time.Duration]string{10 * time.Minute: "behind the KDC's", -10 * time.Minute: "ahead of the KDC's"} {
		r := newRealm(t, kdc.Options{Ahead: ahead})
		for _, preauth := range []string{"+", "-"} {
			r.Admin(t, "modprinc "+preauth+"requires_preauth svc")
			_, err := mechanism(t, r.config()).Start(t.Context(), server)
			checkError(t, err, true, "this machine's clock is", says, "Kerberos permits 5m0s", "NTP")
		}
	}
}

// TestKDCByDNS: if krb5.conf has no KDC of the realm, the client asks DNS, unless dns_lookup_kdc is
// false.
func TestKDCByDNS(t *testing.T) {
	r := newRealm(t, kdc.Options{})
	_, port, err := net.SplitHostPort(r.Addr)
	iferr.Fatal(t, err)
	number, err := strconv.ParseUint(port, 10, 16)
	iferr.Fatal(t, err)
	defer func(old func(context.Context, string, string, string) (string, []*net.SRV, error)) { lookupSRV = old }(lookupSRV)
	lookupSRV = func(_ context.Context, service, proto, name string) (string, []*net.SRV, error) {
		if service != "kerberos" || proto != "tcp" || name != r.Realm {
			t.Errorf("asked for _%s._%s.%s", service, proto, name)
		}
		return "", []*net.SRV{{Target: "127.0.0.1.", Port: uint16(number)}}, nil
	}
	cfg := r.config()
	cfg.Krb5Conf = file(t, "krb5.conf", "[libdefaults]\ndefault_realm = "+r.Realm+"\n")
	r.authenticate(mechanism(t, cfg))
	cfg.Krb5Conf = file(t, "krb5.conf", "[libdefaults]\ndns_lookup_kdc = false\ndefault_realm = "+r.Realm+"\n")
	_, err = mechanism(t, cfg).Start(t.Context(), server)
	checkError(t, err, true, "dns_lookup_kdc = false")
}

// TestSecondKDC: a KDC that is down, and one that does not answer, leave time for the next KDC.
func TestSecondKDC(t *testing.T) {
	r := newRealm(t, kdc.Options{})
	cfg := r.config()
	cfg.Krb5Conf = file(t, "krb5.conf", fmt.Sprintf("[libdefaults]\ndefault_realm = %s\n[realms]\n%[1]s = {\nkdc = 127.0.0.1:1\nkdc = %s\nkdc = %s\n}\n", r.Realm, localhost.Silent(t), r.Addr))
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second) // wall clock: the KDC is silent
	defer cancel()
	iferr.Error(t, iferr.Of(mechanism(t, cfg).Start(ctx, server)))
}

// TestContext: a login ends with its context, although the KDC does not answer.
func TestContext(t *testing.T) {
	r := newRealm(t, kdc.Options{})
	cfg := r.config()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	iferr.Fatal(t, err)
	defer l.Close()
	cfg.Krb5Conf = file(t, "krb5.conf", fmt.Sprintf("[libdefaults]\ndefault_realm = %s\n[realms]\n%[1]s = {\nkdc = %s\n}\n", r.Realm, l.Addr()))
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		c, err := l.Accept()
		cancel()
		if err == nil {
			c.Read(make([]byte, 1))
			c.Close()
		}
	}()
	if _, err := mechanism(t, cfg).Start(ctx, server); !errors.Is(err, context.Canceled) || errors.Is(err, lock.ErrDenied) {
		t.Error(err)
	}
	<-asked
}

// TestInvalid: New refuses wrong settings, with their name and the rule.
func TestInvalid(t *testing.T) {
	for name, cfg := range map[string]Config{
		`principal "a b": must be name@REALM`:                            {Principal: "a b"},
		`principal "@REALM": must be name@REALM`:                         {Principal: "@REALM"},
		`principal "a@": must be name@REALM`:                             {Principal: "a@"},
		`principal "": must name the client`:                             {Keytab: "file"},
		`credential cache "cache": must be empty if there is a keytab`:   {Principal: "a", Keytab: "file", CCache: "cache"},
		`service "zookeeper/host": must be the first part`:               {Service: "zookeeper/host"},
		`principal "a/b@c@REALM": must be name@REALM or name/host@REALM`: {Principal: "a/b@c@REALM"},
	} {
		if _, err := New(cfg); !errors.Is(err, lock.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v, want %s", cfg, err, name)
		}
	}
	iferr.Error(t, iferr.Of(New(Config{Principal: "a/b", Keytab: "file"})))
}

// TestIncludes: krb5.conf may include files and folders, as those of Linux distributions do, and may
// have settings that the library does not know.
func TestIncludes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		iferr.Fatal(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("10-realms", "[realms]\n A.ORG = {\n  kdc = a:88\n }\n")
	write("20.conf", "[domain_realm]\n .b.org = B.ORG\n[realms]\n B.ORG = {\n  kdc = b\n  kdc = [::1]\n  kdc = [::1]:89\n  auth_to_local = DEFAULT\n }\n")
	write(".hidden.conf", "[realms]\n broken")
	write("README.txt", "[realms]\n broken")
	conf := file(t, "krb5.conf", "# comment\nincludedir "+dir+"\nincludedir "+dir+"/missing\n[libdefaults]\n dns_canonicalize_hostname = fallback\n default_realm = A.ORG\n[logging]\n default = FILE:/x\n[realms]\n C.ORG = {\n  kdc = c\n }\n")
	env, err := readConf(conf)
	iferr.Fatal(t, err)
	if env.realm() != "A.ORG" || len(env.Realms) != 3 || env.service("zookeeper", "zk.b.org", "A.ORG").String() != "zookeeper/zk.b.org@B.ORG" || !env.LibDefaults.DNSLookupKDC {
		t.Errorf("%+v", env.Config)
	}
	if servers, err := kdcs(t.Context(), env, "B.ORG"); err != nil || !slices.Equal(servers, []string{"b:88", "[::1]:88", "[::1]:89"}) {
		t.Errorf("KDCs %q, %v", servers, err)
	}
	loop := filepath.Join(dir, "30-loop")
	write("30-loop", "include "+loop+"\n")
	iferr.Error(t, iferr.Of(readConf(conf))) // the loop of includes ends
}
