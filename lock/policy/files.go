package policy

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// TLS has the settings of encrypted connections to the servers. The zero value trusts the machine's
// certificate authorities and presents no certificate.
type TLS struct {
	CAFile     string // certificates of the authorities to trust
	CertFile   string // our certificate, for servers that want one
	KeyFile    string // its private key
	ServerName string // name in the servers' certificates; default each server's own

	path string // of its key in the file; "" is zookeeper.tls
}

// The methods below hide the names of a password's file and variable, and of a key's file. A user
// may have put the secret itself there by mistake. Logs and marshalled configurations must not show
// it.

// String returns the scheme and the user. It hides the password's file and variable.
func (a Auth) String() string { return fmt.Sprintf("%s:%s:%s", a.Scheme, a.User, redacted) }

// MarshalText is String, for JSON and YAML.
func (a Auth) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// String returns the files and the server name. It hides the key's file.
func (t TLS) String() string {
	key := ""
	if t.KeyFile != "" {
		key = redacted
	}
	return fmt.Sprintf("{ca_file: %s, cert_file: %s, key_file: %s, server_name: %s}", t.CAFile, t.CertFile, key, t.ServerName)
}

// MarshalText is String, for JSON and YAML.
func (t TLS) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// keyError is an error about the value of a configuration key.
type keyError struct {
	key string
	err error
}

func (e *keyError) Error() string { return e.key + ": " + e.err.Error() }
func (e *keyError) Unwrap() error { return e.err }

func (a *Auth) wrong(key string, err error) error {
	return &keyError{cmp.Or(a.path, "zookeeper.auth") + "." + key, err}
}

func (t *TLS) wrong(key string, err error) error {
	return &keyError{cmp.Or(t.path, "zookeeper.tls") + "." + key, err}
}

// at adds the key's position in the file to a keyError.
func (c *Config) at(err error) error {
	var e *keyError
	if errors.As(err, &e) && c.file != "" {
		if p, ok := c.places[e.key]; ok {
			return fmt.Errorf("%s:%d:%d: %w", c.file, p.line, p.column, err)
		}
	}
	return err
}

// checkTLS checks that the keys of a zookeeper.tls fit together. It makes the paths absolute and
// returns t.
func (d *decoder) checkTLS(path string, t *TLS) *TLS {
	if d.given(path+".cert_file") != d.given(path+".key_file") {
		d.add(path, "", "must have cert_file and key_file together, or neither")
	}
	t.CAFile, t.CertFile, t.KeyFile, t.path = d.absolute(t.CAFile), d.absolute(t.CertFile), d.absolute(t.KeyFile), path
	return t
}

// checkAuth checks that the keys of a zookeeper.auth fit together. It fills in the defaults and
// returns a.
func (d *decoder) checkAuth(path string, a *Auth) *Auth {
	if !d.given(path + ".user") {
		d.add(path+".user", "", "must be given")
	}
	if d.given(path+".password_file") == d.given(path+".password_env") {
		d.add(path, "", "must have exactly one of password_file and password_env")
	}
	a.Scheme, a.PasswordFile, a.path = cmp.Or(a.Scheme, "digest"), d.absolute(a.PasswordFile), path
	return a
}

// absolute returns the path of a file. Relative paths begin at the configuration's folder.
func (d *decoder) absolute(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(d.folder, path)
}

// Config reads the files and returns the TLS configuration for [lock.WithTLS]. Each connection
// reads the certificate and its key again, so you can replace them. If they cannot be read, the
// connection uses the last ones.
//
// It is an error if every user of the machine can read or write the key, as with [Auth.Password].
func (t *TLS) Config() (*tls.Config, error) {
	if t == nil {
		return nil, errors.New("zookeeper.tls is not configured")
	}
	cfg := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		text, err := readFile(t.CAFile, false)
		if err != nil {
			return nil, t.wrong("ca_file", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(text) {
			return nil, t.wrong("ca_file", noCertificate(t.CAFile))
		}
	}
	if t.CertFile == "" {
		return cfg, nil
	}
	last, err := t.pair()
	if err != nil {
		return nil, err
	}
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if pair, err := t.pair(); err == nil {
			return pair, nil
		}
		return last, nil
	}
	return cfg, nil
}

// pair reads the certificate and its key.
func (t *TLS) pair() (*tls.Certificate, error) {
	cert, err := readFile(t.CertFile, false)
	if err != nil {
		return nil, t.wrong("cert_file", err)
	}
	private, err := readFile(t.KeyFile, true)
	if err != nil {
		return nil, t.wrong("key_file", err)
	}
	if strings.Contains(string(private), "ENCRYPTED") {
		return nil, t.wrong("key_file", fmt.Errorf("%s is encrypted: must be without a passphrase", t.KeyFile))
	}
	if !strings.Contains(string(cert), "-----BEGIN CERTIFICATE-----") {
		return nil, t.wrong("cert_file", noCertificate(t.CertFile))
	}
	pair, err := tls.X509KeyPair(cert, private)
	if err != nil {
		return nil, t.wrong("key_file", fmt.Errorf("%s: %w", t.KeyFile, err))
	}
	return &pair, nil
}

func noCertificate(file string) error {
	return fmt.Errorf("%s has no certificate: must be PEM, with lines like -----BEGIN CERTIFICATE-----", file)
}

// Password reads the password from the file, without the final line break, or from the environment
// variable. It reads at each call, so a changed password applies to the next connection.
//
// A missing or empty password is an error. The error shows neither the variable's name nor the name
// of a missing file: either may be the password itself, put there by mistake.
//
// It is also an error if every user of the machine can read or write the file. The file's group may
// have access: Kubernetes (fsGroup) and systemd pass secrets to unprivileged services in that way.
func (a *Auth) Password() (Secret, error) {
	if a == nil {
		return Secret{}, errors.New("zookeeper.auth is not configured")
	}
	if a.PasswordFile == "" {
		password := os.Getenv(a.PasswordEnv)
		if password == "" {
			return Secret{}, a.wrong("password_env", errors.New("there is no environment variable of the name that stands there, or it is empty: must be the name of one that holds the password"))
		}
		return NewSecret(password), nil
	}
	text, err := readFile(a.PasswordFile, true)
	if err != nil {
		return Secret{}, a.wrong("password_file", err)
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	if password == "" {
		return Secret{}, a.wrong("password_file", fmt.Errorf("%s is empty", a.PasswordFile))
	}
	return NewSecret(password), nil
}

// maxSecret is the size limit of a file with a password or a key. For certificates it is maxFile.
const maxSecret = 64 << 10

// readFile reads a file that the configuration names. A secret file must not be accessible to every
// user. An error about a missing secret file does not show its name.
func readFile(path string, secret bool) ([]byte, error) {
	f, err := os.Open(path)
	if e := (*fs.PathError)(nil); secret && errors.As(err, &e) {
		return nil, fmt.Errorf("the file that stands there, relative to the configuration's folder unless it begins with a slash: %w", e.Err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	// Windows has no such bits; Go invents them.
	if mode := info.Mode().Perm(); secret && mode&0o007 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("%s has mode %04o: any user of this machine could read or change it; chmod o= it", path, mode)
	}
	most := maxFile
	if secret {
		most = maxSecret
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > most {
		return nil, fmt.Errorf("%s is longer than %d bytes: it should hold nothing but what it is for", path, most)
	}
	return data, nil
}
