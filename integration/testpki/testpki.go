// Package testpki creates certificates for tests of TLS.
package testpki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	PEM  []byte // the authority's certificate
}

// Pair is a certificate and its private key.
type Pair struct {
	Cert, Key []byte // in PEM; the key in PKCS #8
}

var serial atomic.Int64

// New returns a new authority, with a certificate that it has signed itself.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{}
	a.cert, a.key, a.PEM = sign(t, nil, &x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

// Issue returns a certificate for a server or a client, for the DNS names and IP addresses. There
// must be at least one name; the first is also the common name.
func (a *Authority) Issue(t testing.TB, names ...string) Pair {
	t.Helper()
	return a.IssueTo(t, pkix.Name{CommonName: names[0]}, names...)
}

// IssueTo returns a certificate for the subject, the DNS names and the IP addresses.
func (a *Authority) IssueTo(t testing.TB, subject pkix.Name, names ...string) Pair {
	t.Helper()
	template := &x509.Certificate{
		Subject:     subject,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	_, key, cert := sign(t, a, template)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return Pair{cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})}
}

// sign creates a certificate and its key, and returns both, and the certificate in PEM. by signs
// the certificate; if by is nil, the certificate signs itself.
func sign(t testing.TB, by *Authority, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(serial.Add(1))
	// A bubble of testing/synctest begins in the year 2000.
	template.NotBefore, template.NotAfter = time.Unix(0, 0), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	parent, parentKey := template, key
	if by != nil {
		parent, parentKey = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// Pool returns a pool that has only the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// TLS returns the pair for a tls.Config.
func (p Pair) TLS(t testing.TB) tls.Certificate {
	t.Helper()
	c, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Bundle returns the key, the certificate and the authority's certificate as one PEM file, as for
// Java's PEM key stores.
func (p Pair) Bundle(authority *Authority) []byte {
	return bytes.Join([][]byte{p.Key, p.Cert, authority.PEM}, nil)
}

// File writes a file to a temporary folder, readable only by its owner, and returns its path. The
// file is deleted at the end of the test.
func File(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
