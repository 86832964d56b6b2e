package policy

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-io/holdfast/lock"
)

// Auth is a credential that a connection presents. Exactly one of PasswordFile
// and PasswordEnv is set.
type Auth struct {
	Scheme       string `key:"scheme" oneof:"digest"`                     // "digest"
	User         string `key:"user" rule:"user" show:"never"`             // user name
	PasswordFile string `key:"password_file" rule:"path" show:"never"`    // the password's file
	PasswordEnv  string `key:"password_env" rule:"variable" show:"never"` // the password's environment variable

	path string // path of its key in the file; "" means zookeeper.auth
}

// TLS has the settings of encrypted connections to the servers. The zero value trusts the machine's
// certificate authorities and presents no certificate. Each connection reads the certificate and its
// key again, so you can replace them. If they cannot be read, the connection uses the last ones.
type TLS struct {
	CAFile   string `key:"ca_file" rule:"path"`               // certificates of the authorities to trust
	CertFile string `key:"cert_file" rule:"path"`             // the client's certificate, if servers require one
	KeyFile  string `key:"key_file" rule:"path" show:"never"` // the private key of the certificate
	// ServerName is the name in the servers' certificates. Default each server's own.
	ServerName string `key:"server_name" rule:"given"`

	path string // path of its key in the file; "" means zookeeper.tls
}

// The methods below hide the names of the password file, the password variable and the key file: a
// user may have put the secret itself there by mistake. Logs and marshalled configurations must not
// show it.

const redacted = "[redacted]"

// String returns the scheme and the user. It hides the password's file and variable.
func (a Auth) String() string { return fmt.Sprintf("%s:%s:%s", a.Scheme, a.User, redacted) }

// MarshalText returns what String does, for JSON and YAML.
func (a Auth) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// String returns the files and the server name. It hides the key's file.
func (t TLS) String() string {
	return fmt.Sprintf("{ca_file: %s, cert_file: %s, server_name: %s}", t.CAFile, t.CertFile, t.ServerName)
}

// MarshalText returns what String does, for JSON and YAML.
func (t TLS) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// check adds a mistake if the keys do not fit together. It makes the paths absolute.
func (t *TLS) check(d *decoder, path string) {
	if d.given(path+".cert_file") != d.given(path+".key_file") {
		d.add(path, "", "must have cert_file and key_file together, or neither")
	}
	t.CAFile, t.CertFile, t.KeyFile, t.path = d.absolute(t.CAFile), d.absolute(t.CertFile), d.absolute(t.KeyFile), path
}

// check adds a mistake for each key that does not fit the others. It fills in the defaults, makes the
// path absolute, and records the variable of a password.
func (a *Auth) check(d *decoder, path string) {
	if !d.given(path + ".user") {
		d.add(path+".user", "", "must be given")
	}
	if d.given(path+".password_file") == d.given(path+".password_env") {
		d.add(path, "", "must have exactly one of password_file and password_env")
	}
	a.Scheme, a.PasswordFile, a.path = cmp.Or(a.Scheme, "digest"), d.absolute(a.PasswordFile), path
	if a.PasswordEnv != "" {
		d.passwords = append(d.passwords, a.PasswordEnv)
	}
}

// absolute returns the path of a file. Relative paths begin at the configuration's folder.
func (d *decoder) absolute(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(d.folder, path)
}

// ErrUnusable says that a password or a file that the configuration names cannot be used.
var ErrUnusable = errors.New("the configuration names something that cannot be used")

// Options returns the options for [lock.Dial] that apply the configuration: root, policies, session
// timeout, TLS and credentials. It does not return the servers. Append other options, such as a
// logger. Without zookeeper.auth and zookeeper.sasl, every user can access the nodes that the client
// creates. With both, the nodes belong to the user of zookeeper.auth.
//
// The mechanism gssapi needs a [Kerberos]; without one it is an error. Only the first one counts.
//
// Options reads the files with the password and the certificates. A missing or empty password is an
// error, and so is a password's or a key's file that every user of the machine can read or write.
// Errors match [ErrUnusable], and have the key's position in the configuration's file.
func (c *Config) Options(kerberos ...Kerberos) ([]lock.Option, error) {
	options := []lock.Option{
		lock.WithRoot(c.Root),
		lock.WithPolicies(c.Policies),
		lock.WithSessionTimeout(c.ZooKeeper.SessionTimeout),
	}
	if auth := c.ZooKeeper.Auth; auth != nil {
		password, key, err := password(auth.PasswordFile, auth.PasswordEnv)
		if err != nil {
			return nil, c.wrong(cmp.Or(auth.path, "zookeeper.auth"), key, err)
		}
		options = append(options, lock.WithDigest(auth.User, password))
	}
	if s := c.ZooKeeper.SASL; s != nil {
		option, key, err := s.option(kerberos)
		if err != nil {
			return nil, c.wrong(cmp.Or(s.path, "zookeeper.sasl"), key, err)
		}
		options = append(options, option)
	}
	if t := c.ZooKeeper.TLS; t != nil {
		cfg, key, err := t.config()
		if err != nil {
			return nil, c.wrong(cmp.Or(t.path, "zookeeper.tls"), key, err)
		}
		options = append(options, lock.WithTLS(cfg))
	}
	if c.ZooKeeper.Reconfiguration {
		options = append(options, lock.WithReconfiguration())
	}
	if c.ZooKeeper.UnsafeServer {
		options = append(options, lock.WithUnsafeServer())
	}
	return options, nil
}

// wrong returns err as an error about the key below path, with the key's position in the file.
func (c *Config) wrong(path, key string, err error) error {
	key = path + "." + key
	if c.from != nil && c.from.given(key) {
		p := c.from.places[key]
		return unusable{fmt.Errorf("%s:%d:%d: %s: %w", c.from.file, p.line, p.column, key, err)}
	}
	return unusable{fmt.Errorf("%s: %w", key, err)}
}

// unusable makes an error match ErrUnusable.
type unusable struct{ error }

func (u unusable) Is(target error) bool { return target == ErrUnusable }
func (u unusable) Unwrap() error        { return u.error }

// config returns the TLS configuration for [lock.WithTLS]. If it fails, key is the key at fault.
func (t *TLS) config() (cfg *tls.Config, key string, err error) {
	cfg = &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		text, err := readFile(t.CAFile, false)
		if err != nil {
			return nil, "ca_file", err
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(text) {
			return nil, "ca_file", noCertificate(t.CAFile)
		}
	}
	if t.CertFile == "" {
		return cfg, "", nil
	}
	last, key, err := t.pair()
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if pair, _, err := t.pair(); err == nil {
			return pair, nil
		}
		return last, nil
	}
	return cfg, key, err
}

// pair reads the certificate and its private key. If it fails, key is the configuration key at fault.
func (t *TLS) pair() (pair *tls.Certificate, key string, err error) {
	cert, err := readFile(t.CertFile, false)
	if err != nil {
		return nil, "cert_file", err
	}
	private, err := readFile(t.KeyFile, true)
	if err != nil {
		return nil, "key_file", err
	}
	if strings.Contains(string(private), "ENCRYPTED") {
		return nil, "key_file", fmt.Errorf("%s is encrypted: must be without a passphrase", t.KeyFile)
	}
	if !strings.Contains(string(cert), "-----BEGIN CERTIFICATE-----") {
		return nil, "cert_file", noCertificate(t.CertFile)
	}
	both, err := tls.X509KeyPair(cert, private)
	if err != nil {
		return nil, "key_file", fmt.Errorf("%s: %w", t.KeyFile, err)
	}
	return &both, "", nil
}

func noCertificate(file string) error {
	return fmt.Errorf("%s has no certificate: must be PEM, with lines like -----BEGIN CERTIFICATE-----", file)
}

// password returns the password from the file, without the final line break, or from the
// environment variable. An error is about the configuration key. It shows neither the variable's
// name nor that of a missing file: either may be the password itself, put there by mistake.
func password(file, variable string) (password, key string, err error) {
	if file == "" {
		password = os.Getenv(variable)
		return password, "password_env", must(password != "", "there is no environment variable of the name that stands there, or it is empty: must be the name of one that holds the password")
	}
	text, err := readFile(file, true)
	password = strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	if err == nil && password == "" {
		err = fmt.Errorf("%s is empty", file)
	}
	return password, "password_file", err
}

// maxSecret is the size limit of a file with a password or a key. For certificates it is maxFile.
const maxSecret = 64 << 10

// readFile reads a file that the configuration names. A secret file must not be accessible to every
// user. Its group may have access: Kubernetes (fsGroup) and systemd pass secrets to unprivileged
// services in that way. If a secret file cannot be opened, the error does not show its name.
func readFile(path string, secret bool) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil && secret {
		return nil, hideName(err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	most := maxFile
	if secret {
		most = maxSecret
		info, err := f.Stat()
		if err == nil {
			err = checkMode(path, info)
		}
		if err != nil {
			return nil, err
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err == nil && len(data) > most {
		err = fmt.Errorf("%s is longer than %d bytes: it should hold nothing but what it is for", path, most)
	}
	return data, err
}
