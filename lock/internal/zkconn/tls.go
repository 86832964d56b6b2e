package zkconn

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
)

// secure makes the TLS handshake on a connection, and fails when ctx ends. Without TLS in the
// configuration it returns nc. name is the host name given to Dial: the server's certificate must
// be for it, not for the address.
func (c *Conn) secure(ctx context.Context, nc net.Conn, name string) (net.Conn, error) {
	if c.cfg.TLS == nil {
		return nc, nil
	}
	cfg, outdated := c.cfg.TLS()
	if cfg == nil {
		return nil, cmp.Or(outdated, errors.New("there is no TLS configuration"))
	}
	if cfg.ServerName == "" {
		cfg = cfg.Clone()
		cfg.ServerName = name
	}
	secured := tls.Client(nc, cfg)
	err := secured.HandshakeContext(ctx)
	switch {
	case err == nil:
		return secured, nil
	case outdated != nil:
		return nil, fmt.Errorf("%w; the last good files are in use, because: %w", c.explain(err), outdated)
	}
	return nil, c.explain(err)
}

// hostOf returns the host of host:port, without the zone of an IPv6 address. It returns any other
// text as it is.
func hostOf(server string) string {
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		return server
	}
	host, _, _ = strings.Cut(host, "%") // the zone of an IPv6 address
	return host
}

// explain adds a remedy to an error from the beginning of a connection.
func (c *Conn) explain(err error) error {
	hint := c.hint(err)
	if hint == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, hint)
}

func (c *Conn) hint(err error) string {
	is := func(target error) bool { return errors.Is(err, target) }
	broke := is(io.EOF) || is(io.ErrUnexpectedEOF) || is(syscall.ECONNRESET) || is(syscall.EPIPE)
	switch {
	case errors.As(err, new(tls.RecordHeaderError)), broke:
		return "no TLS: name the server's port for TLS (secureClientPort), or do without zookeeper.tls and lock.WithTLS"
	case is(context.DeadlineExceeded):
		return "no answer to the TLS handshake in time"
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "name the authority that has signed the server's certificate in zookeeper.tls.ca_file, or in RootCAs"
	case errors.As(err, new(x509.HostnameError)):
		return "name the server as its certificate does, or give that name in zookeeper.tls.server_name, or in ServerName"
	case strings.Contains(err.Error(), "protocol version"), strings.Contains(err.Error(), "handshake failure"), strings.Contains(err.Error(), "unsupported protocol"):
		return "the server and this client have no version or cipher of TLS in common, see ssl.enabledProtocols and ssl.ciphersuites in zoo.cfg"
	case strings.Contains(err.Error(), "remote error: tls:"):
		return "the server has refused the TLS handshake; if it wants a certificate that it trusts, give zookeeper.tls.cert_file and key_file, or Certificates"
	}
	return ""
}

// isAlert reports whether a server's first bytes are a TLS alert, the answer of a TLS port to plain
// text.
func isAlert(head []byte) bool { return head[0] == 0x15 && head[1] == 0x03 }
