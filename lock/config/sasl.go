package config

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-io/holdfast/lock"
)

// Mechanisms of SASL.
const (
	DigestMD5 = "digest-md5"
	GSSAPI    = "gssapi" // Kerberos
)

// SASL has the credentials with which each connection authenticates by SASL. The fields of the other
// mechanism are empty.
type SASL struct {
	Mechanism string `key:"mechanism" oneof:"digest-md5 gssapi"` // DigestMD5 or GSSAPI

	// With DigestMD5, exactly one of PasswordFile and PasswordEnv is set.
	User         string `key:"user" rule:"given" show:"never"`            // user name
	PasswordFile string `key:"password_file" rule:"path" show:"never"`    // the password's file
	PasswordEnv  string `key:"password_env" rule:"variable" show:"never"` // the password's environment variable

	// With GSSAPI, at most one of Keytab and CCache is set. With neither, the client uses the default
	// credential cache.
	Principal string `key:"principal" rule:"given"`          // the client's name@REALM; "" means the cache's
	Keytab    string `key:"keytab" rule:"path" show:"never"` // the file with the principal's keys
	CCache    string `key:"ccache" rule:"cache"`             // the credential cache, a file
	// Service is the first part of the servers' principals, SERVICE/HOST. Default "zookeeper".
	Service  string `key:"service" rule:"service"`
	Krb5Conf string `key:"krb5_conf" rule:"path" show:"never"` // Kerberos configuration; "" means the machine's
}

// Kerberos returns the mechanism GSSAPI with the given credentials. Package config does not implement
// it, and so imports no Kerberos library.
type Kerberos func(SASL) (lock.SASL, error)

// String returns the mechanism, and the user or principal. It hides the other fields, which may be
// secrets.
func (s SASL) String() string {
	return fmt.Sprintf("%s:%s:%s", s.Mechanism, s.User+s.Principal, redacted)
}

// MarshalText returns what String does, for JSON and YAML.
func (s SASL) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// keysOfMechanism are the keys that belong to one mechanism.
var keysOfMechanism = map[string][]string{
	DigestMD5: {"user", "password_file", "password_env"},
	GSSAPI:    {"principal", "keytab", "ccache", "service", "krb5_conf"},
}

// check adds the mistakes about keys that are missing or do not fit together, and fills in the
// default service.
func (s *SASL) check(d *decoder, path string) {
	given := func(key string) bool { return d.given(path + "." + key) }
	for mechanism, keys := range keysOfMechanism {
		if i := slices.IndexFunc(keys, given); i >= 0 && s.Mechanism != "" && mechanism != s.Mechanism {
			d.add(path+"."+keys[i], "", "belongs to the mechanism %s, and the mechanism is %s", mechanism, s.Mechanism)
			return
		}
	}
	switch s.Mechanism {
	case DigestMD5:
		d.checkLogin(path)
	case GSSAPI:
		if given("keytab") && given("ccache") {
			d.add(path, "", "must have at most one of keytab and ccache")
		}
		if given("keytab") && !given("principal") {
			d.add(path+".principal", "", "must be given with keytab, which may have the keys of several")
		}
		s.Service = cmp.Or(s.Service, "zookeeper")
	default:
		if !given("mechanism") {
			d.add(path+".mechanism", "", "must be given: digest-md5 or gssapi")
		}
	}
}

// saslOption returns the option that authenticates by SASL.
func (c *Config) saslOption(kerberos []Kerberos) (lock.Option, error) {
	s := *c.ZooKeeper.SASL
	if s.Mechanism == DigestMD5 {
		password, err := c.password("zookeeper.sasl", s.PasswordFile, s.PasswordEnv)
		return lock.WithSASLDigest(s.User, password), err
	}
	if len(kerberos) == 0 || kerberos[0] == nil {
		return nil, c.wrong("zookeeper.sasl.mechanism", errors.New("gssapi needs a Kerberos library: pass kerberos.FromConfig, of package lock/kerberos, to Options"))
	}
	if s.Keytab != "" {
		f, err := open(s.Keytab, true)
		if err != nil {
			return nil, c.wrong("zookeeper.sasl.keytab", err)
		}
		f.Close()
	}
	mechanism, err := kerberos[0](s)
	if err != nil {
		return nil, c.wrong("zookeeper.sasl.mechanism", err)
	}
	return lock.WithSASL(mechanism), nil
}

// cache is the rule of a credential cache. It refuses caches that are not files.
func (d *decoder) cache(s string) (string, error) {
	path := strings.TrimPrefix(s, "FILE:")
	kind, _, typed := strings.Cut(path, ":")
	if typed && filepath.VolumeName(path) == "" && !strings.Contains(kind, "/") {
		return "", errors.New("must be a file, as FILE:path or path: other kinds of caches are not supported")
	}
	return d.path(path)
}
