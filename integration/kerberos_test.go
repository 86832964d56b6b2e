package integration_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/kdc"
	"github.com/holdfast-io/holdfast/integration/testpki"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/kerberos"
)

// Flags of TestHoldOutlivesTickets: the life of the tickets, and the number of logins before a
// ticket's end. The other logins follow cuts of the connection.
var (
	ticketLife = flag.Duration("ticket", 6*time.Second, "life of the tickets in TestHoldOutlivesTickets, in whole seconds, at least 6s")
	renewals   = flag.Int("renewals", 3, "logins in TestHoldOutlivesTickets that come by time; others follow cuts of the connection")
)

// kerberized is a server that authenticates clients by Kerberos, and its KDC. The principals of
// clients are svc and other. No ACL names other.
type kerberized struct {
	*secure
	*kdc.KDC
	keytabs map[string]string
	service string // the server's keytab
}

// startKerberized starts a KDC and a server. config has additional lines for zoo.cfg.
func startKerberized(t testing.TB, opts kdc.Options, config ...string) *kerberized {
	t.Helper()
	k := &kerberized{KDC: kdc.ForTest(t, opts)}
	k.AddPrincipal(t, "zookeeper/localhost", "svc", "other")
	k.keytabs = map[string]string{"svc": k.Keytab(t, "svc"), "other": k.Keytab(t, "other")}
	k.service = k.Keytab(t, "zookeeper/localhost")
	jaas := testpki.File(t, "jaas.conf", fmt.Appendf(nil, `Server {
  com.sun.security.auth.module.Krb5LoginModule required
  isInitiator=false useKeyTab=true storeKey=true doNotPrompt=true
  keyTab="%s" principal="zookeeper/localhost@%s";
};
`, k.service, k.Realm))
	k.secure = newSecure(t, zkserver.Options{
		Config:  append([]string{"authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider", "ssl.clientAuth=none"}, config...),
		JVMArgs: []string{"-Djava.security.auth.login.config=" + jaas, "-Djava.security.krb5.conf=" + k.Conf},
	})
	k.secure.secure = onLocalhost(k.secure.secure)
	k.client(k.as("svc")) // waits for the secure port
	return k
}

// onLocalhost returns the address with the host name of the server's principal.
func onLocalhost(address string) string { return strings.Replace(address, "127.0.0.1", "localhost", 1) }

// mechanism returns the mechanism with a principal's keytab.
func (k *kerberized) mechanism(principal string) lock.SASL {
	k.Helper()
	m, err := kerberos.New(kerberos.Config{Principal: principal, Keytab: k.keytabs[principal], Krb5Conf: k.Conf})
	iferr.Fatal(k.TB, err)
	return m
}

// as returns the option that authenticates with a principal's keytab.
func (k *kerberized) as(principal string) lock.Option { return lock.WithSASL(k.mechanism(principal)) }

// TestKerberosStranger: without a ticket, or with the ticket of another principal, a client cannot
// read, renew, break or reap a lock, nor queue, request its release, or change its ACLs.
func TestKerberosStranger(t *testing.T) {
	t.Parallel()
	k := startKerberized(t, kdc.Options{})
	administrator := k.raw(k.secure.ours, "admin:top secret")
	iferr.Fatal(t, administrator.Ensure("/kerberos", nil, []zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "svc@" + k.Realm}}))
	iferr.Fatal(t, administrator.Restrict("/", zk.DigestACL(zk.PermAll, "admin", "top secret")))
	k.unharmed(k.client(lock.WithRoot("/kerberos"), k.as("svc")), func(hold *lock.Hold) {
		k.denyRaw(k.raw(k.secure.ours), "/kerberos", hold.EntryPath())
		k.denyLibrary("/kerberos", hold)
		k.denyLibrary("/kerberos", hold, k.as("other"))
		k.denyReaper("/kerberos", k.secure.ours, k.as("other"))
	})
}

// TestKerberosRequired: a server that requires SASL refuses a client without it, and the error
// names zookeeper.sasl.
func TestKerberosRequired(t *testing.T) {
	t.Parallel()
	k := startKerberized(t, kdc.Options{}, "sessionRequireClientSASLAuth=true", "requireClientAuthScheme=sasl")
	hold, err := k.client(k.as("svc")).Mutex("orders/42").Lock(k.ctx)
	iferr.Fatal(t, err)
	c, err := lock.Dial(k.ctx, []string{k.secure.secure}, lock.WithTLS(k.tls(k.secure.ours)))
	if err == nil {
		defer c.Close()
		_, err = c.Mutex("orders/42").TryLock(k.ctx)
	}
	if !errors.Is(err, lock.ErrDenied) || !strings.Contains(err.Error(), "zookeeper.sasl") {
		t.Errorf("without SASL: %v", err)
	}
	iferr.Error(t, hold.Unlock())
}

// TestHoldOutlivesTickets: a hold survives ten logins or more with tickets that end soon, and
// another client finds the lock held all the time. In the first logins the client reconnects before
// its ticket ends; at least three logins follow a cut of the connection.
func TestHoldOutlivesTickets(t *testing.T) {
	t.Parallel()
	k := startKerberized(t, kdc.Options{TicketLife: *ticketLife})
	relay, err := zkserver.NewRelay(strings.Replace(k.secure.secure, "localhost", "127.0.0.1", 1), zkserver.RelayOptions{})
	iferr.Fatal(t, err)
	defer relay.Close()
	logins := &counted{SASL: k.mechanism("svc")}
	var byTime atomic.Int64 // connections that the client ended for a newer ticket
	hook := zerolog.HookFunc(func(_ *zerolog.Event, _ zerolog.Level, message string) {
		if message == "connecting anew with a newer credential" {
			byTime.Add(1)
		}
	})
	through := *k.secure
	through.secure = onLocalhost(relay.Addr())
	ours := through.client(lock.WithSASL(logins), lock.WithLogger(zerolog.New(zerolog.NewTestWriter(t)).Hook(hook)))
	hold, err := ours.Mutex("orders/42").Lock(k.ctx)
	iferr.Fatal(t, err)
	token := hold.Token()
	rival := k.client(k.as("svc")).Mutex("orders/42")
	begin := time.Now()
	for i := range *renewals {
		ended, tickets := byTime.Load(), logins.count()
		err := wait.Until(k.ctx, 10*(*ticketLife)+patience, "the client ends its connection for a new ticket, and logs in with that", func() (bool, error) {
			k.stillHeld(hold, rival) // the client checks its ticket before each request
			return byTime.Load() > ended && logins.count() > tickets, nil
		})
		if err != nil {
			t.Fatalf("%v\n%s", err, k.Log())
		}
		t.Logf("login %d by time, after %v", i+1, time.Since(begin).Round(time.Second))
	}
	cuts := max(3, 10-*renewals)
	for range cuts {
		for n := logins.count(); logins.count() == n; {
			relay.Cut()
			k.stillHeld(hold, rival)
		}
	}
	if n, want := logins.count(), 1+*renewals+cuts; n < want {
		t.Errorf("%d tickets, want %d", n, want)
	}
	if hold.Token() != token {
		t.Errorf("token %v, was %v", hold.Token(), token)
	}
	if err := hold.Unlock(); err != nil {
		t.Errorf("unlock: %v", err)
	}
}

// stillHeld checks that a hold can be extended, and that another client finds the lock held.
func (k *kerberized) stillHeld(hold *lock.Hold, rival *lock.Mutex) {
	k.Helper()
	if err := hold.Extend(k.ctx, long); err != nil {
		k.Fatalf("renewal: %v", err)
	}
	if _, err := rival.TryLock(k.ctx); !errors.Is(err, lock.ErrHeld) {
		k.Fatalf("another client's try: %v", err)
	}
}

// counted counts the different tickets that servers have accepted from a mechanism. Tickets with
// the same end count once.
type counted struct {
	lock.SASL
	mu   sync.Mutex
	ends map[int64]bool
}

func (c *counted) Start(ctx context.Context, server string) (lock.SASLExchange, error) {
	x, err := c.SASL.Start(ctx, server)
	if err != nil {
		return nil, err
	}
	return &countedExchange{x, c}, nil
}

type countedExchange struct {
	lock.SASLExchange
	by *counted
}

func (x *countedExchange) Next(challenge []byte) ([]byte, error) {
	token, err := x.SASLExchange.Next(challenge)
	if token == nil && err == nil { // the exchange is complete
		x.by.mu.Lock()
		defer x.by.mu.Unlock()
		if x.by.ends == nil {
			x.by.ends = map[int64]bool{}
		}
		x.by.ends[x.Expires().Unix()] = true
	}
	return token, err
}

func (c *counted) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ends)
}

// TestKerberosMistakes: the error of Dial says what to do if the server does not have the present key
// of its principal. Package kerberos tests the mistakes of clients.
func TestKerberosMistakes(t *testing.T) {
	t.Parallel()
	k := startKerberized(t, kdc.Options{})
	k.Admin(t, "cpw -randkey zookeeper/localhost")
	iferr.Fatal(t, os.Remove(k.service))
	ctx, cancel := context.WithTimeout(k.ctx, patience)
	defer cancel()
	_, err := lock.Dial(ctx, []string{k.secure.secure}, lock.WithTLS(k.tls(k.secure.ours)), k.as("svc"), lock.WithSessionTimeout(10*time.Second))
	if !errors.Is(err, lock.ErrSASL) || !strings.Contains(err.Error(), "its keytab must have the present key of zookeeper/localhost@EXAMPLE.COM") {
		t.Errorf("a server without the present key: %v", err)
	}
}

// TestKerberosAsDocumented: with the commands, server files and configuration of lock/KERBEROS.md,
// the principal can lock, and clients without Kerberos are refused.
func TestKerberosAsDocumented(t *testing.T) {
	t.Parallel()
	page := text(t, "../lock/KERBEROS.md")
	block := func(begin string) string {
		t.Helper()
		_, rest, ok := strings.Cut(page, "\n"+begin)
		content, _, closed := strings.Cut(rest, "\n```")
		if !ok || !closed {
			t.Fatalf("lock/KERBEROS.md has no block that begins with %q", begin)
		}
		return strings.TrimPrefix(begin, "```yaml\n") + content
	}
	commands := func(prompt string) (all []string) {
		for line := range strings.Lines(page) {
			if command, ok := strings.CutPrefix(line, prompt); ok {
				all = append(all, strings.TrimSpace(command))
			}
		}
		if len(all) == 0 {
			t.Fatalf("lock/KERBEROS.md has no commands after %q", prompt)
		}
		return all
	}
	k := &kerberized{KDC: kdc.ForTest(t, kdc.Options{})}
	dir := t.TempDir()
	here := strings.NewReplacer("zk1.example.com", "localhost", "/etc/zookeeper/", dir+"/", "/etc/holdfast/", dir+"/", "/etc/krb5.conf", k.Conf)
	for _, command := range commands("kadmin> ") {
		k.Admin(t, here.Replace(command))
	}
	writeFile(t, dir+"/jaas.conf", here.Replace(block("Server {")))
	flags := strings.Fields(strings.Trim(here.Replace(strings.TrimPrefix(block("SERVER_JVMFLAGS="), "SERVER_JVMFLAGS=")), `"`))
	start := func(settings ...string) *bench {
		k.secure = newSecure(t, zkserver.Options{JVMArgs: flags, Config: append([]string{block("authProvider."), "ssl.clientAuth=none"}, settings...)})
		ca := testpki.File(t, "ca.pem", k.authority.PEM)
		configuration := strings.NewReplacer(":2281", k.secure.secure[strings.LastIndex(k.secure.secure, ":"):], "ca.pem", ca).Replace(here.Replace(block("```yaml\n")))
		ours := configured(t, k.ctx, dir+"/config.yaml", configuration+"\n    krb5_conf: "+k.Conf, kerberos.FromConfig) // the configuration ends in the section sasl
		b := &bench{TB: t, ctx: k.ctx, servers: []string{k.plain}, root: "/locks"}
		if len(settings) == 0 {
			b.zkCli(strings.Join(commands("zk> "), "\n"))
		}
		b.unlock(b.lock(ours, "orders/42"))
		return b
	}
	if _, err := start().client().Mutex("orders/42").Lock(k.ctx); !errors.Is(err, lock.ErrDenied) {
		t.Errorf("without Kerberos: %v", err)
	}
	b := start(block("sessionRequireClientSASLAuth"))
	if _, err := lock.Dial(k.ctx, b.servers); !errors.Is(err, lock.ErrDenied) {
		t.Errorf("without Kerberos, which is required: %v", err)
	}
}

// TestKerberosErrorsAsDocumented: the messages in the table of lock/KERBEROS.md are in the code.
func TestKerberosErrorsAsDocumented(t *testing.T) {
	var code strings.Builder
	for _, dir := range []string{"../lock/kerberos", "../lock/internal/zkconn"} {
		files, err := filepath.Glob(dir + "/*.go")
		iferr.Fatal(t, err)
		for _, file := range files {
			code.WriteString(text(t, file))
		}
	}
	_, table, _ := strings.Cut(text(t, "../lock/KERBEROS.md"), "| message |")
	rows := 0
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "`"); strings.HasPrefix(line, "| `") {
			if rows++; !strings.Contains(code.String(), cells[1]) {
				t.Errorf("no code has the message %q", cells[1])
			}
		}
	}
	if rows < 10 {
		t.Errorf("the table has %d messages", rows)
	}
}
