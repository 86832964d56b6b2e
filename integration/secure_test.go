package integration_test

import (
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
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
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/reaper"
)

// secure is a server with a TLS port that requires client certificates.
type secure struct {
	testing.TB
	ctx           context.Context
	authority     *testpki.Authority
	ours          testpki.Pair // certificate of the client svc
	plain, secure string       // addresses
}

// startSecure starts the server, with the additional lines of zoo.cfg and arguments for java, and
// waits for the secure port.
func startSecure(t testing.TB, more ...zkserver.Options) *secure {
	t.Helper()
	s := newSecure(t, more...)
	s.client() // waits for the secure port, which the server opens last
	return s
}

// newSecure starts the server as startSecure does, but does not wait for the secure port.
func newSecure(t testing.TB, more ...zkserver.Options) *secure {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wholeTest)
	t.Cleanup(cancel)
	authority := testpki.New(t)
	ports, err := zkserver.FreePorts(1)
	iferr.Fatal(t, err)
	store := testpki.File(t, "server.pem", authority.Issue(t, "127.0.0.1", "localhost").Bundle(authority))
	trust := testpki.File(t, "ca.pem", authority.PEM)
	opts := zkserver.Options{Config: []string{
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		fmt.Sprintf("secureClientPort=%d", ports[0]), "secureClientPortAddress=127.0.0.1",
		"ssl.keyStore.location=" + store, "ssl.keyStore.type=PEM",
		"ssl.trustStore.location=" + trust, "ssl.trustStore.type=PEM",
	}}
	for _, o := range more {
		opts.Config, opts.JVMArgs = append(opts.Config, o.Config...), append(opts.JVMArgs, o.JVMArgs...)
	}
	server := zkserver.ForTest(t, opts)
	return &secure{
		TB: t, ctx: ctx, authority: authority, ours: authority.Issue(t, "svc"),
		plain: server.Addr(), secure: fmt.Sprintf("127.0.0.1:%d", ports[0]),
	}
}

// tls returns the TLS configuration of a client with the certificate.
func (s *secure) tls(pair testpki.Pair) *tls.Config {
	return &tls.Config{RootCAs: s.authority.Pool(), Certificates: []tls.Certificate{pair.TLS(s)}, ServerName: "127.0.0.1"}
}

// client returns a client at the TLS port, with the certificate of svc.
func (s *secure) client(opts ...lock.Option) *lock.Client {
	s.Helper()
	return dial(s, s.ctx, []string{s.secure}, append([]lock.Option{
		lock.WithTLS(s.tls(s.ours)), lock.WithTTL(long), lock.WithGrace(grace), lock.WithSessionTimeout(20 * time.Second),
		lock.WithLogger(zerolog.New(zerolog.NewTestWriter(s))),
	}, opts...)...)
}

// configured returns a client with a configuration, which need not stand in the file.
func configured(t *testing.T, ctx context.Context, file, configuration string, mechanisms ...config.Kerberos) *lock.Client {
	t.Helper()
	cfg := must(config.Parse(file, []byte(configuration)))(t)
	return dial(t, ctx, cfg.ZooKeeper.Servers, must(cfg.Options(ctx, mechanisms...))(t)...)
}

// raw returns a connection without package lock over TLS, with the certificate and the credentials.
func (s *secure) raw(pair testpki.Pair, digests ...string) steady {
	s.Helper()
	z, _, err := zk.Connect([]string{s.secure}, 20*time.Second, zk.WithLogInfo(false), zk.WithLogger(testLog{}),
		zk.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
			return tls.DialWithDialer(&net.Dialer{Timeout: timeout}, network, address, s.tls(pair))
		}))
	iferr.Fatal(s, err)
	s.Cleanup(z.Close)
	c := steady{z, s.ctx}
	for _, d := range digests {
		iferr.Fatal(s, c.AddAuth("digest", []byte(d)))
	}
	return c
}

// TestStrangerCanDoNothing: if / is closed and the locks have ACLs for a digest or a certificate, a
// client with other credentials cannot read, renew, break or reap them, nor queue, request their
// release, or change their ACLs. Another form of a certificate's subject denies access.
func TestStrangerCanDoNothing(t *testing.T) {
	t.Parallel()
	s := startSecure(t)
	s.literalSubject()
	stranger := s.authority.Issue(t, "stranger")
	byCertificate := []zk.ACL{{Perms: zk.PermAll, Scheme: "x509", ID: "CN=svc"}}
	administrator := s.raw(s.authority.Issue(t, "administrator"), "admin:top secret")
	for root, acl := range map[string][]zk.ACL{"/digest": zk.DigestACL(zk.PermAll, "svc", "secret"), "/certificate": byCertificate} {
		iferr.Fatal(t, administrator.Ensure(root, nil, acl))
	}
	iferr.Fatal(t, administrator.Restrict("/", zk.DigestACL(zk.PermAll, "admin", "top secret")))
	for root, option := range map[string]lock.Option{"/digest": lock.WithDigest("svc", "secret"), "/certificate": lock.WithACL(byCertificate...)} {
		t.Run(root[1:], func(t *testing.T) {
			s := &secure{t, s.ctx, s.authority, s.ours, s.plain, s.secure}
			s.unharmed(s.client(lock.WithRoot(root), option), func(hold *lock.Hold) {
				s.denyRaw(s.raw(stranger), root, hold.EntryPath())
				s.denyRaw(s.raw(stranger, "svc:guess"), root, hold.EntryPath())
				s.denyLibrary(root, hold, lock.WithTLS(s.tls(stranger)))
				s.denyLibrary(root, hold, lock.WithTLS(s.tls(stranger)), lock.WithDigest("svc", "guess"))
				s.denyReaper(root, stranger)
			})
		})
	}
}

// literalSubject checks that an ACL of the scheme x509 must name the subject to the letter as the server
// writes it.
func (s *secure) literalSubject() {
	s.Helper()
	svc := s.raw(s.authority.IssueTo(s, pkix.Name{CommonName: "svc", OrganizationalUnit: []string{"shop"}, Organization: []string{"Example"}}, "svc"))
	for path, id := range map[string]string{"/literal": "CN=svc,OU=shop,O=Example", "/spaces": "CN=svc, OU=shop, O=Example", "/order": "O=Example,OU=shop,CN=svc"} {
		iferr.Fatal(s, svc.Ensure(path, nil, []zk.ACL{{Perms: zk.PermAll, Scheme: "x509", ID: id}}))
		if _, _, err := svc.Get(path); path == "/literal" && err != nil || path != "/literal" && err != zk.ErrNoAuth {
			s.Errorf("%s: %v", id, err)
		}
	}
}

// unharmed makes the client check the server and take orders/42, and calls harm, which attacks the
// lock. Then the lock must have the same entry as before, and the client extends the hold and
// unlocks.
func (s *secure) unharmed(ours *lock.Client, harm func(hold *lock.Hold)) {
	s.Helper()
	if r, err := admin.CheckServer(s.ctx, ours); err != nil || r.Refused != nil || r.Unchecked != nil || len(r.Servers) != 1 || r.Servers[0].Release == "" || r.Servers[0].Err != nil {
		s.Errorf("CheckServer: %+v, %v", r, err)
	}
	hold, err := ours.Mutex("orders/42").Lock(s.ctx)
	iferr.Fatal(s, err)
	before := s.contender(ours)
	harm(hold)
	if after := s.contender(ours); after.Token != before.Token || after.Path != before.Path {
		s.Errorf("the entry is %+v, was %+v", after, before)
	}
	if err := hold.Extend(s.ctx, long); err != nil {
		s.Errorf("our own renewal: %v", err)
	}
	if err := hold.Unlock(); err != nil {
		s.Errorf("unlock: %v", err)
	}
}

// contender returns the only contender for orders/42, as the client sees it.
func (s *secure) contender(ours *lock.Client) admin.Contender {
	s.Helper()
	state, err := admin.New(ours).Inspect(s.ctx, "orders/42")
	if err != nil || len(state.Contenders) != 1 {
		s.Fatalf("contenders %+v, %v", state, err)
	}
	return state.Contenders[0]
}

// denyRaw checks that z, a client without rights, can neither read nor change the nodes of a lock,
// and that a transaction of z can neither write nor check them. If the server shows z an ACL, the
// digest must be hidden.
func (s *secure) denyRaw(z steady, root, entry string) {
	s.Helper()
	parent := entry[:strings.LastIndexByte(entry, '/')]
	world := zk.WorldACL(zk.PermAll)
	ops := map[string]func(path string) error{
		"get":        func(p string) error { _, _, err := z.Get(p); return err },
		"watch":      func(p string) error { _, _, _, err := z.GetW(p); return err },
		"list":       func(p string) error { _, _, err := z.Children(p); return err },
		"set":        func(p string) error { _, err := z.Set(p, []byte("x"), -1); return err },
		"create":     func(p string) error { _, err := z.Create(p+"/x", nil, 0, world); return err },
		"sequential": func(p string) error { _, err := z.Create(p+"/x", nil, zk.FlagSequence, world); return err },
		"ephemeral":  func(p string) error { _, err := z.Create(p+"/x", nil, zk.FlagEphemeral, world); return err },
		"set ACL":    func(p string) error { _, err := z.SetACL(p, world, -1); return err },
		"delete":     func(p string) error { return z.Delete(p, -1) },
		"set in a transaction": func(p string) error {
			_, err := z.Multi(&zk.SetDataRequest{Path: p, Data: []byte("x"), Version: -1})
			return err
		},
		"check in a transaction": func(p string) error {
			_, err := z.Multi(&zk.CheckVersionRequest{Path: p, Version: -1})
			return err
		},
		"create in a transaction": func(p string) error {
			_, err := z.Multi(&zk.CreateRequest{Path: p + "/x", Acl: world})
			return err
		},
		"delete in a transaction": func(p string) error {
			_, err := z.Multi(&zk.DeleteRequest{Path: p, Version: -1})
			return err
		},
	}
	for what, op := range ops {
		for _, path := range []string{entry, parent, root + "/orders", root} {
			var err error
			if z.again(func() error { err = op(path); return err }); !errors.Is(err, zk.ErrNoAuth) {
				s.Errorf("a stranger's %s of %s: %v", what, path, err)
			}
		}
	}
	var acl []zk.ACL
	var err error
	z.again(func() error { acl, _, err = z.GetACL(entry); return err })
	for _, a := range acl { // from 3.6 on the server hides the digest, and may hide the whole list
		if !strings.HasSuffix(a.ID, ":x") && a.Scheme == "digest" {
			s.Errorf("a stranger sees the ACL %+v", a)
		}
	}
	if err != nil && !errors.Is(err, zk.ErrNoAuth) {
		s.Errorf("a stranger's look at the ACL: %v", err)
	}
}

// denyLibrary checks that every operation that it tries as a client with the options is denied.
func (s *secure) denyLibrary(root string, hold *lock.Hold, opts ...lock.Option) {
	s.Helper()
	const name = "orders/42"
	c := s.client(append([]lock.Option{lock.WithRoot(root)}, opts...)...)
	nothing := func(h *lock.Hold, err error) error {
		if h != nil {
			s.Errorf("a stranger has %s", h.EntryPath())
		}
		return err
	}
	tree := admin.New(c)
	for what, op := range map[string]func() error{
		"Lock":          func() error { return nothing(c.Mutex(name).Lock(s.ctx)) },
		"TryLock":       func() error { return nothing(c.Mutex(name).TryLock(s.ctx)) },
		"barging":       func() error { return nothing(c.Mutex(name).WithBarging().Lock(s.ctx)) },
		"Lock to write": func() error { return nothing(c.RWMutex(name).Lock(s.ctx)) },
		"Lock to read":  func() error { return nothing(c.RWMutex(name).RLock(s.ctx)) },
		"Acquire":       func() error { return nothing(c.Semaphore(name, 3).Acquire(s.ctx, 1)) },
		"Lock new":      func() error { return nothing(c.Mutex("orders/43").Lock(s.ctx)) },
		"Campaign": func() error {
			l, err := c.Election(name).Campaign(s.ctx, "me")
			if l != nil {
				s.Error("a stranger leads")
			}
			return err
		},
		"Revoke":       func() error { return c.Revoke(s.ctx, name, "give it to me") },
		"Inspect":      func() error { _, err := tree.Inspect(s.ctx, name); return err },
		"Inspect root": func() error { _, err := tree.Inspect(s.ctx, ""); return err },
		"Now":          func() error { _, err := tree.Now(s.ctx); return err },
		"Delete": func() error {
			return tree.Delete(s.ctx, []admin.Deletion{{Path: hold.EntryPath(), Version: -1}})
		},
	} {
		if err := op(); !errors.Is(err, lock.ErrDenied) && !errors.Is(err, zk.ErrNoAuth) {
			s.Errorf("a stranger's %s: %v", what, err)
		}
	}
	if r, err := admin.CheckServer(s.ctx, c); err != nil || !errors.Is(r.Unchecked, lock.ErrDenied) {
		s.Errorf("a stranger's CheckServer: %+v, %v", r, err)
	}
}

// denyReaper checks that the reaper of a user without rights deletes nothing, and reports that it
// was denied.
func (s *secure) denyReaper(root string, stranger testpki.Pair, opts ...lock.Option) {
	s.Helper()
	r, err := reaper.New(s.client(append(opts, lock.WithRoot(root), lock.WithTLS(s.tls(stranger)))...), reaper.Options{})
	iferr.Fatal(s, err)
	report, err := r.Sweep(s.ctx)
	deleted := report.Total.Deleted > 0
	if denied := errors.Is(err, lock.ErrDenied) || report.Total.Denied > 0; !denied || deleted {
		s.Errorf("a stranger's sweep: %+v, %v", report, err)
	}
}
