// Package kerberos authenticates clients to ZooKeeper with Kerberos: by the mechanism GSSAPI of
// SASL. It is a package of its own so that package lock does not import a Kerberos library.
//
//	m, err := kerberos.New(kerberos.Config{Principal: "orders@EXAMPLE.COM", Keytab: "/etc/orders.keytab"})
//	if err != nil {
//		return err
//	}
//	locks, err := lock.Dial(start, servers, lock.WithSASL(m))
//
// The client logs in with a keytab, or uses a credential cache that kinit or another program keeps
// fresh. It proves its name to the server and requires the server's proof, as ZooKeeper's Java
// client does. Then it asks for no security layer. So use TLS: otherwise the requests can be read
// and changed on the network.
//
// # Service principal
//
// The server's principal is zookeeper/HOST@REALM. HOST is the host from the list of servers, in
// lower case: name the servers there as their principals do. The client does not ask DNS for
// another name, because a forged answer could choose the server. REALM is the realm that
// [domain_realm] in krb5.conf has for the host, or else the client's realm.
//
// # Tickets
//
// New connections use a ticket until half of its time is over. Then the next connection gets a new
// ticket, with a new login if necessary. While the client cannot get a new ticket, it uses the old
// one until the old one expires. The client reads krb5.conf and the credential cache again for each
// connection, and the keytab for each login. So changes of these files need no restart.
//
// The client sends requests to the KDC by TCP, and then by UDP. If [realms] has no KDC of the
// realm, the client asks DNS for a KDC. Session keys are of AES: RC4 and DES are not supported.
package kerberos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/config"
)

// Config has the settings of a [Mechanism]. The zero value uses the credential cache of this user.
type Config struct {
	// Principal is the client's principal, name@REALM or name/host@REALM. Without a realm,
	// default_realm of krb5.conf applies. Principal is required with Keytab. Without Keytab the
	// default is the credential cache's principal, and Start refuses a different one.
	Principal string
	// Keytab is the file with the principal's keys. If it is empty, CCache is used.
	Keytab string
	// CCache is the credential cache, as FILE:path or path. The default is KRB5CCNAME in the
	// environment, or else /tmp/krb5cc_UID. Other kinds of caches are not supported.
	CCache string
	// Krb5Conf is the Kerberos configuration. The default is KRB5_CONFIG in the environment, or else
	// /etc/krb5.conf.
	Krb5Conf string
	// Service is the first part of the servers' principals; default "zookeeper".
	Service string
}

// Mechanism authenticates clients with Kerberos. It is safe for concurrent use. If several clients
// share it, they share its tickets. It needs no Close: it has no goroutines, and no connections
// after a request to the KDC.
type Mechanism struct {
	cfg  Config
	turn chan struct{} // held by the goroutine that uses the fields below

	login    *ticket            // ticket of the last login with the keytab
	services map[string]*ticket // tickets for the servers, by host
	known    map[string]string  // KDC that answered last, by realm
}

var _ lock.SASL = (*Mechanism)(nil)

// New returns a mechanism. It checks the settings, but reads no file and asks no KDC: each
// connection does. An error matches [lock.ErrInvalid].
func New(cfg Config) (*Mechanism, error) {
	cfg.Service = cmp.Or(cfg.Service, "zookeeper")
	switch _, err := parsePrincipal(cfg.Principal, "DEFAULT.REALM"); {
	case cfg.Principal != "" && err != nil:
		return nil, invalid("principal", cfg.Principal, err.Error())
	case cfg.Principal == "" && cfg.Keytab != "":
		return nil, invalid("principal", cfg.Principal, "must name the client, as name@REALM: a keytab may have the keys of several")
	case cfg.Keytab != "" && cfg.CCache != "":
		return nil, invalid("credential cache", cfg.CCache, "must be empty if there is a keytab: only one of them is used")
	case strings.ContainsAny(cfg.Service, "/@ "):
		return nil, invalid("service", cfg.Service, "must be the first part of the servers' principals, such as zookeeper")
	}
	return &Mechanism{cfg: cfg, turn: make(chan struct{}, 1), services: map[string]*ticket{}, known: map[string]string{}}, nil
}

// FromConfig returns the mechanism with the settings of zookeeper.sasl in a configuration file. Pass
// it to [config.Config.Options].
func FromConfig(s config.SASL) (lock.SASL, error) {
	return New(Config{Principal: s.Principal, Keytab: s.Keytab, CCache: s.CCache, Krb5Conf: s.Krb5Conf, Service: s.Service})
}

var _ config.Kerberos = FromConfig

func invalid(what, value, rule string) error {
	return fmt.Errorf("kerberos: %s %q: %s: %w", what, value, rule, lock.ErrInvalid)
}

// Start gets a ticket for the server, and begins the exchange that authenticates a connection.
// Errors say what to do. They match [lock.ErrDenied] unless another try, or another server, may
// succeed: for example if no KDC answers, or if the KDC does not know this server.
func (m *Mechanism) Start(ctx context.Context, server string) (lock.SASLExchange, error) {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("kerberos: waiting for the login of another connection: %w", context.Cause(ctx))
	}
	t, stale, err := m.ticketFor(ctx, hostOf(server))
	if err != nil {
		return nil, fmt.Errorf("kerberos: %w", err)
	}
	e, err := newExchange(t)
	if err != nil {
		return nil, fmt.Errorf("kerberos: %s: %w", t.service, err)
	}
	e.stale = stale
	return e, nil
}

// hostOf returns the host of host:port, as it stands in a service principal.
func hostOf(server string) string {
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		host = server
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// ticketFor returns a ticket for the service on the host. If the ticket is not fresh, stale is
// the error of the request for a new one.
func (m *Mechanism) ticketFor(ctx context.Context, host string) (t *ticket, stale, err error) {
	t, err = m.freshTicket(ctx, host)
	if old := m.services[host]; err != nil && old.valid(time.Now()) {
		return old, err, nil
	}
	return t, nil, err
}

// freshTicket returns the present ticket for the host, if it is fresh, or a new one.
func (m *Mechanism) freshTicket(ctx context.Context, host string) (*ticket, error) {
	env, err := readConf(m.cfg.Krb5Conf)
	if err != nil {
		return nil, denied(err)
	}
	env.known = m.known
	var cached *ticket
	if m.cfg.Keytab == "" {
		if cached, err = readCache(m.cfg.CCache, m.cfg.Principal, env.realm()); err != nil {
			return nil, denied(err)
		}
	}
	client, err := m.client(env, cached)
	if err != nil {
		return nil, denied(err)
	}
	old := m.services[host]
	if old != nil && old.client.String() != client.String() { // the cache is of another user now
		old, m.services = nil, map[string]*ticket{}
	}
	if old.fresh(time.Now()) {
		return old, nil
	}
	t, err := m.request(ctx, env, client, env.service(m.cfg.Service, host, client.realm), cached)
	if err == nil {
		m.services[host] = t
	}
	return t, err
}

// client returns the client's principal: that of the cached ticket, or else the configured one.
func (m *Mechanism) client(env *environment, cached *ticket) (principal, error) {
	if cached != nil {
		return cached.client, nil
	}
	return parsePrincipal(m.cfg.Principal, env.realm())
}

// request asks the KDC for a ticket for the service, after a login if that is necessary.
func (m *Mechanism) request(ctx context.Context, env *environment, client, service principal, cached *ticket) (*ticket, error) {
	login := cached
	if cached == nil {
		if old := m.login; !old.fresh(time.Now()) || old.client.String() != client.String() {
			keys, err := readKeytab(m.cfg.Keytab, client)
			if err != nil {
				return nil, denied(err)
			}
			if m.login, err = logIn(ctx, env, client, keys); err != nil {
				m.login = old
				return nil, err
			}
		}
		login = m.login
	} else if !cached.valid(time.Now()) {
		return nil, denied(fmt.Errorf("the ticket of %s in the credential cache %s expired at %s: run kinit, or configure a keytab, which renews tickets by itself",
			cached.client, cached.from, cached.end.Format(time.RFC3339)))
	}
	return requestService(ctx, env, login, service)
}

// denied makes an error match lock.ErrDenied: another try would fail too.
func denied(err error) error { return &deniedError{err} }

type deniedError struct{ error }

func (e *deniedError) Unwrap() []error { return []error{e.error, lock.ErrDenied} }

// path returns the setting, the environment variable's value, or the default: the first that is not
// empty.
func path(setting, variable, otherwise string) string {
	return cmp.Or(setting, os.Getenv(variable), otherwise)
}

// recovered turns a panic of the Kerberos library into an error. The library does not check all
// lengths in files, and in the messages of KDCs and servers.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = errors.Join(*err, fmt.Errorf("undecodable: %v", r))
	}
}
