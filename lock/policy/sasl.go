package policy

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
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

	path string // path of its key in the file; "" means zookeeper.sasl
}

// Kerberos returns the mechanism GSSAPI with the given credentials. Package policy does not implement
// it, and so imports no Kerberos library.
type Kerberos func(SASL) (lock.SASL, error)

// String returns the mechanism and the user. It hides the other fields, which may be secrets.
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

// check adds a mistake for each key that does not fit the others. It fills in the defaults, makes the
// paths absolute, and records the variable of a password.
func (s *SASL) check(d *decoder, path string) {
	given := func(key string) bool { return d.given(path + "." + key) }
	for mechanism, keys := range keysOfMechanism {
		if i := slices.IndexFunc(keys, given); i >= 0 && s.Mechanism != "" && mechanism != s.Mechanism {
			d.add(path+"."+keys[i], "", "belongs to the mechanism %s, and the mechanism is %s", mechanism, s.Mechanism)
			return
		}
	}
	if !given("mechanism") {
		d.add(path+".mechanism", "", "must be given: digest-md5 or gssapi")
	}
	switch s.Mechanism {
	case DigestMD5:
		if !given("user") {
			d.add(path+".user", "", "must be given")
		}
		if given("password_file") == given("password_env") {
			d.add(path, "", "must have exactly one of password_file and password_env")
		}
	case GSSAPI:
		if given("keytab") && given("ccache") {
			d.add(path, "", "must have at most one of keytab and ccache")
		}
		if given("keytab") && !given("principal") {
			d.add(path+".principal", "", "must be given with keytab, which may have the keys of several")
		}
		s.Service = cmp.Or(s.Service, "zookeeper")
	}
	s.PasswordFile, s.Keytab, s.CCache, s.Krb5Conf, s.path = d.absolute(s.PasswordFile), d.absolute(s.Keytab), d.absolute(s.CCache), d.absolute(s.Krb5Conf), path
	if s.PasswordEnv != "" {
		d.passwords = append(d.passwords, s.PasswordEnv)
	}
}

// option returns the option that authenticates by SASL. If it fails, key is the key at fault.
func (s *SASL) option(kerberos []Kerberos) (option lock.Option, key string, err error) {
	if s.Mechanism == DigestMD5 {
		password, key, err := password(s.PasswordFile, s.PasswordEnv)
		return lock.WithSASLDigest(s.User, password), key, err
	}
	if len(kerberos) == 0 || kerberos[0] == nil {
		return nil, "mechanism", errors.New("gssapi needs a Kerberos library: pass kerberos.FromPolicy, of package lock/kerberos, to Options")
	}
	if s.Keytab != "" {
		if err := checkSecret(s.Keytab); err != nil {
			return nil, "keytab", err
		}
	}
	mechanism, err := kerberos[0](*s)
	return lock.WithSASL(mechanism), "mechanism", err
}

// checkSecret returns an error if a file is missing, or if every user may read or write it.
func checkSecret(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return hideName(err)
	}
	return checkMode(path, info)
}

// hideName returns an error about a secret file without the file's name, which may be the secret.
func hideName(err error) error {
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		return fmt.Errorf("the file that stands there, relative to the configuration's folder unless it begins with a slash: %w", e.Err)
	}
	return err
}

func checkMode(path string, info fs.FileInfo) error {
	// Windows has no mode bits; Go makes them up.
	if mode := info.Mode().Perm(); mode&0o007 != 0 && runtime.GOOS != "windows" {
		return fmt.Errorf("%s has mode %04o: any user of this machine could read or change it; chmod o= it", path, mode)
	}
	return nil
}

// checkCache returns the path of a credential cache. It refuses caches that are not files.
func checkCache(s string) (string, error) {
	path := strings.TrimPrefix(s, "FILE:")
	kind, _, typed := strings.Cut(path, ":")
	if err := checkPath(path); err != nil {
		return path, err
	}
	return path, must(!typed || filepath.VolumeName(path) != "" || strings.Contains(kind, "/"), "must be a file, as FILE:path or path: other kinds of caches are not supported")
}

func checkService(s string) error {
	return must(s != "" && !strings.ContainsAny(s, "/@ "), "must be the first part of the servers' principals, such as zookeeper")
}
