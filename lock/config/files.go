package config

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"
)

// Auth is a credential that each connection presents. Exactly one of PasswordFile and PasswordEnv
// is set.
type Auth struct {
	Scheme       string `key:"scheme" oneof:"digest"`                     // "digest"
	User         string `key:"user" rule:"user" show:"never"`             // user name
	PasswordFile string `key:"password_file" rule:"path" show:"never"`    // the password's file
	PasswordEnv  string `key:"password_env" rule:"variable" show:"never"` // the password's environment variable
}

// User is a further user with rights on the nodes that a client creates, see [lock.WithFurtherUsers].
// With the scheme digest, exactly one of PasswordFile and PasswordEnv is set; otherwise neither.
type User struct {
	Scheme       string `key:"scheme" oneof:"digest sasl x509"`           // default "digest"
	User         string `key:"user" rule:"given" show:"never"`            // user name; with x509, the certificate's subject
	PasswordFile string `key:"password_file" rule:"path" show:"never"`    // the password's file
	PasswordEnv  string `key:"password_env" rule:"variable" show:"never"` // the password's environment variable
}

// String returns the scheme and the user.
func (u User) String() string { return fmt.Sprintf("%s:%s:%s", u.Scheme, u.User, redacted) }

// MarshalText returns what String does, for JSON and YAML.
func (u User) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// check adds the mistakes about keys that are missing or do not fit together, and fills in the
// default scheme.
func (u *User) check(d *decoder, path string) {
	u.Scheme = cmp.Or(u.Scheme, "digest")
	switch {
	case u.Scheme == "digest":
		d.checkLogin(path)
		if strings.Contains(u.User, ":") {
			d.add(path+".user", "", "must not have a colon")
		}
	case !d.given(path + ".user"):
		d.add(path+".user", "", "must be given")
	case d.given(path+".password_file") || d.given(path+".password_env"):
		d.add(path, "", "must not have a password: only the scheme digest has one in its ACLs")
	}
}

// furtherUsers returns the ACL of the further users.
func (c *Config) furtherUsers() (acl []zk.ACL, err error) {
	for i, u := range c.ZooKeeper.FurtherUsers {
		if u.Scheme != "digest" {
			acl = append(acl, zk.ACL{Perms: zk.PermAll, Scheme: u.Scheme, ID: u.User})
			continue
		}
		password, err := c.password(fmt.Sprintf("zookeeper.further_users[%d]", i), u.PasswordFile, u.PasswordEnv)
		if err != nil {
			return nil, err
		}
		acl = append(acl, zk.DigestACL(zk.PermAll, u.User, password)...)
	}
	return acl, nil
}

// TLS has the settings of encrypted connections to the servers. The zero value trusts the machine's
// certificate authorities, as they were when the process began, and presents no certificate. Each
// connection reads the files again, so you can replace them. If a connection cannot read a file, it
// uses what was last read from it, and says so if the handshake fails. Only [Config.Options] reads a
// file that is not a regular one, such as a pipe.
type TLS struct {
	CAFile   string `key:"ca_file" rule:"path"`               // certificates of the authorities to trust
	CertFile string `key:"cert_file" rule:"path"`             // the client's certificate, if servers require one
	KeyFile  string `key:"key_file" rule:"path" show:"never"` // the private key of the certificate
	// ServerName is the name in the servers' certificates. Default each server's own.
	ServerName string `key:"server_name" rule:"given"`
}

// The methods below hide the names of the password file, the password variable and the key file. A
// user may have put the secret itself there by mistake, and logs and marshalled configurations must
// not show secrets.

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

// check adds a mistake if only one of cert_file and key_file is given.
func (t *TLS) check(d *decoder, path string) {
	if d.given(path+".cert_file") != d.given(path+".key_file") {
		d.add(path, "", "must have cert_file and key_file together, or neither")
	}
}

// check adds the mistakes about keys that are missing or do not fit together, and fills in the
// default scheme.
func (a *Auth) check(d *decoder, path string) {
	d.checkLogin(path)
	a.Scheme = cmp.Or(a.Scheme, "digest")
}

// checkLogin adds a mistake unless the mapping at path has a user, and a password in one place.
func (d *decoder) checkLogin(path string) {
	if !d.given(path + ".user") {
		d.add(path+".user", "", "must be given")
	}
	if d.given(path+".password_file") == d.given(path+".password_env") {
		d.add(path, "", "must have exactly one of password_file and password_env")
	}
}

// ErrUnusable matches the errors of [Config.Options] about passwords and files that the
// configuration names: for example, a password file is missing, empty, or accessible to every user.
var ErrUnusable = errors.New("the configuration names something that cannot be used")

// wrong returns err as an error about the key, with the key's position in the file. If c is the
// configuration of a listed root, and that root has the key, the position is that of the root's
// key.
func (c *Config) wrong(key string, err error) error {
	place := key
	if c.from != nil {
		for _, path := range []string{key, c.at + key} {
			if p, given := c.from.places[path]; given {
				place = fmt.Sprintf("%s:%d:%d: %s", c.from.file, p.line, p.column, path)
			}
		}
	}
	return unusable{fmt.Errorf("%s: %w", place, err)}
}

// unusable makes an error match ErrUnusable.
type unusable struct{ error }

func (u unusable) Is(target error) bool { return target == ErrUnusable }
func (u unusable) Unwrap() error        { return u.error }

// tlsSource returns the argument of [lock.WithTLSSource].
func (c *Config) tlsSource() (func() (*tls.Config, error), error) {
	t := c.ZooKeeper.TLS
	var mu sync.Mutex
	last, err := c.readTLS(&tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12})
	return func() (*tls.Config, error) {
		mu.Lock()
		defer mu.Unlock()
		var err error
		last, err = c.readTLS(last)
		return last, err
	}, err
}

// readTLS returns the configuration with what the files have now. What cannot be read stays as it was
// in last; the error says why.
func (c *Config) readTLS(last *tls.Config) (*tls.Config, error) {
	t, cfg := c.ZooKeeper.TLS, last.Clone()
	var wrong, alsoWrong error
	if t.CAFile != "" && (last.RootCAs == nil || isRegular(t.CAFile)) {
		var pool *x509.CertPool
		if pool, wrong = c.authorities(); wrong == nil {
			cfg.RootCAs = pool
		}
	}
	if t.CertFile != "" && (last.GetClientCertificate == nil || isRegular(t.CertFile) && isRegular(t.KeyFile)) {
		var pair *tls.Certificate
		if pair, alsoWrong = c.pair(); alsoWrong == nil {
			cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }
		}
	}
	return cfg, errors.Join(wrong, alsoWrong)
}

// isRegular reports whether path is not known to be a pipe or the like, which can be read only once.
func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode().IsRegular()
}

// authorities reads the certificates of the authorities.
func (c *Config) authorities() (*x509.CertPool, error) {
	file, pool := c.ZooKeeper.TLS.CAFile, x509.NewCertPool()
	text, err := readFile(file, false)
	if err == nil && !pool.AppendCertsFromPEM(text) {
		err = noCertificate(file)
	}
	if err != nil {
		return nil, c.wrong("zookeeper.tls.ca_file", err)
	}
	return pool, nil
}

// pair reads the certificate and its private key.
func (c *Config) pair() (*tls.Certificate, error) {
	t := c.ZooKeeper.TLS
	cert, err := readFile(t.CertFile, false)
	if err == nil && !strings.Contains(string(cert), "-----BEGIN CERTIFICATE-----") {
		err = noCertificate(t.CertFile)
	}
	if err != nil {
		return nil, c.wrong("zookeeper.tls.cert_file", err)
	}
	private, err := readFile(t.KeyFile, true)
	if err == nil && strings.Contains(string(private), "ENCRYPTED") {
		err = fmt.Errorf("%s is encrypted: must be without a passphrase", t.KeyFile)
	}
	if err != nil {
		return nil, c.wrong("zookeeper.tls.key_file", err)
	}
	both, err := tls.X509KeyPair(cert, private)
	if err != nil {
		return nil, c.wrong("zookeeper.tls.key_file", fmt.Errorf("%s: %w", t.KeyFile, err))
	}
	return &both, nil
}

func noCertificate(file string) error {
	return fmt.Errorf("%s has no certificate: must be PEM, with lines like -----BEGIN CERTIFICATE-----", file)
}

// password returns the password of the mapping at path: from the file, without the final line break,
// or from the environment variable. An error shows neither the variable's name nor that of a missing
// file: either may be the password itself, put there by mistake.
func (c *Config) password(path, file, variable string) (string, error) {
	if file == "" {
		password := os.Getenv(variable)
		if password == "" {
			return "", c.wrong(path+".password_env", errors.New("there is no environment variable of the name that stands there, or it is empty: must be the name of one that holds the password"))
		}
		return password, nil
	}
	text, err := readFile(file, true)
	password := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	if err == nil && password == "" {
		err = fmt.Errorf("%s is empty", file)
	}
	if err != nil {
		return "", c.wrong(path+".password_file", err)
	}
	return password, nil
}

// maxSecret is the size limit of a file with a password or a key. For certificates it is maxFile.
const maxSecret = 64 << 10

// readFile reads a file that the configuration names. It fails if the file is larger than maxFile,
// or than maxSecret if secret is set. A secret file has a password or a key, see open.
func readFile(path string, secret bool) ([]byte, error) {
	f, err := open(path, secret)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	most := maxFile
	if secret {
		most = maxSecret
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err == nil && len(data) > most {
		err = fmt.Errorf("%s is longer than %d bytes: it should hold nothing but what it is for", path, most)
	}
	return data, err
}

// open opens a file that the configuration names. A secret file must not be accessible to every
// user. Its group may have access: Kubernetes (fsGroup) and systemd pass secrets to unprivileged
// services in that way. If a secret file cannot be opened, the error does not show its name, which
// may be the secret.
func open(path string, secret bool) (*os.File, error) {
	f, err := os.Open(path)
	if !secret {
		return f, err
	}
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		return nil, fmt.Errorf("the file that stands there, relative to the configuration's folder unless it begins with a slash: %w", e.Err)
	}
	info, err := f.Stat()
	// Windows has no mode bits; Go makes them up.
	if err == nil && info.Mode().Perm()&0o007 != 0 && runtime.GOOS != "windows" {
		err = fmt.Errorf("%s has mode %04o: any user of this machine could read or change it; chmod o= it", path, info.Mode().Perm())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
