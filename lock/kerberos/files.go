package kerberos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// principal is a name and its realm.
type principal struct {
	name  types.PrincipalName
	realm string
}

func (p principal) String() string { return p.name.PrincipalNameString() + "@" + p.realm }

// parsePrincipal parses name@REALM or name/host@REALM. If text has no realm, the given one applies.
func parsePrincipal(text, realm string) (principal, error) {
	name := text
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		name, realm = text[:i], text[i+1:]
	}
	if slices.Contains(strings.Split(name, "/"), "") || realm == "" || strings.ContainsAny(text, " \\\t\n") || strings.Contains(name, "@") {
		return principal{}, errors.New("must be name@REALM or name/host@REALM; the realm may be left out if krb5.conf has a default_realm")
	}
	return principal{types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, name), realm}, nil
}

// environment is a krb5.conf.
type environment struct {
	*config.Config
	file  string            // paths of its files, separated as in PATH
	known map[string]string // KDC that answered last, by realm
}

// realm returns the default realm; "" if there is none.
func (e *environment) realm() string { return e.LibDefaults.DefaultRealm }

// service returns the principal of the service on the host, in the realm that [domain_realm] has for
// the host, or else in clientRealm.
func (e *environment) service(service, host, clientRealm string) principal {
	realm := e.ResolveRealm(host)
	if realm == "" {
		realm = clientRealm
	}
	return principal{types.PrincipalName{NameType: nametype.KRB_NT_SRV_HST, NameString: []string{service, host}}, realm}
}

// mostFile is the size limit of each file that is read, in bytes.
const mostFile = 16 << 20

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > mostFile {
		err = fmt.Errorf("%s is longer than %d bytes", path, mostFile)
	}
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	return slices.Clip(data), err // the library would read beyond the length, up to the capacity
}

// readConf reads the Kerberos configuration. As with MIT Kerberos, KRB5_CONFIG may list several
// files. readConf reads those that exist.
func readConf(setting string) (env *environment, err error) {
	defer recovered(&err)
	files := path(setting, "KRB5_CONFIG", "/etc/krb5.conf")
	wrong := func(err error) error {
		return fmt.Errorf("krb5.conf: %w: name the Kerberos configuration in zookeeper.sasl.krb5_conf (Krb5Conf) or in KRB5_CONFIG; it says where the KDCs of a realm are", err)
	}
	sections, missing := map[string][]string{}, error(nil)
	for _, file := range filepath.SplitList(files) {
		switch err := addSections(sections, file, 0); {
		case errors.Is(err, os.ErrNotExist):
			missing = err
		case err != nil:
			return nil, wrong(err)
		}
	}
	if len(sections) == 0 {
		if missing == nil {
			missing = fmt.Errorf("%s has no sections", files)
		}
		return nil, wrong(missing)
	}
	// The library does not merge sections of one name, and does not ask DNS by default. A later
	// dns_lookup_kdc replaces the first one.
	text := "[libdefaults]\ndns_lookup_kdc = true\n" + strings.Join(sections["libdefaults"], "\n")
	for _, name := range []string{"realms", "domain_realm"} {
		text += "\n[" + name + "]\n" + strings.Join(sections[name], "\n")
	}
	cfg, err := config.NewFromString(text)
	if unsupported := new(config.UnsupportedDirective); err != nil && !errors.As(err, unsupported) {
		return nil, wrong(fmt.Errorf("%s: %w", files, err))
	}
	d := &cfg.LibDefaults
	d.Forwardable, d.Proxiable, d.RenewLifetime, d.NoAddresses = false, false, 0, true
	return &environment{cfg, files, map[string]string{}}, nil
}

// deepest is the largest depth of nested includes.
const deepest = 10

// addSections adds the lines of a file, and of those that it includes, to their sections.
func addSections(sections map[string][]string, file string, depth int) error {
	data, err := readFile(file)
	if err != nil {
		return err
	}
	section := ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		word, rest, _ := strings.Cut(strings.ReplaceAll(line, "\t", " "), " ")
		rest = strings.TrimSpace(rest)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			section = strings.Trim(strings.TrimRight(line, "*"), "[]")
			sections[section] = append(sections[section], "")
		case (word == "include" || word == "includedir") && depth < deepest:
			if err := include(sections, rest, word == "includedir", depth); err != nil {
				return fmt.Errorf("%s: %s: %w", file, line, err)
			}
		case section == "libdefaults" && strings.HasPrefix(line, "dns_canonicalize_hostname"):
			// This setting has no effect here, and the library fails on its value "fallback".
		default:
			sections[section] = append(sections[section], line)
		}
	}
	return nil
}

// include adds the file at. If dir is set, it adds the files of the folder at whose names MIT
// Kerberos accepts.
func include(sections map[string][]string, at string, dir bool, depth int) error {
	if !dir {
		return addSections(sections, at, depth+1)
	}
	files, err := os.ReadDir(at)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the folders that Linux distributions name need not exist
	}
	if err != nil {
		return err
	}
	for _, f := range files {
		name := f.Name()
		plain := strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
		if !plain && (strings.HasPrefix(name, ".") || !strings.HasSuffix(name, ".conf")) {
			continue
		}
		if err := addSections(sections, filepath.Join(at, name), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// readKeytab reads a keytab. It fails if the keytab has no AES key of the client.
func readKeytab(path string, client principal) (keys *keytab.Keytab, err error) {
	remedy := fmt.Sprintf("make a keytab (kadmin: ktadd -k FILE %s) and name it in zookeeper.sasl.keytab (Keytab)", client)
	defer func() { // the text of the library's panic may show keys
		if r := recover(); r != nil {
			keys, err = nil, fmt.Errorf("%s is no keytab: %s", path, remedy)
		}
	}()
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("keytab: %w: %s", err, remedy)
	}
	keys = new(keytab.Keytab)
	if keys.Unmarshal(data) != nil {
		return nil, fmt.Errorf("%s is no keytab: %s", path, remedy)
	}
	var others []string
	found, supported := false, false
	for _, k := range keys.Entries {
		owner := principal{types.PrincipalName{NameString: k.Principal.Components}, k.Principal.Realm}
		if owner.String() != client.String() {
			if !slices.Contains(others, owner.String()) {
				others = append(others, owner.String())
			}
			continue
		}
		found, supported = true, supported || slices.Contains(aes, k.Key.KeyType)
	}
	switch {
	case !found:
		return nil, fmt.Errorf("keytab %s has no key of %s, but of %s: %s", path, client, strings.Join(others, ", "), remedy)
	case !supported:
		return nil, fmt.Errorf("keytab %s has no AES key of %s, and other types are not supported: %s", path, client, remedy)
	}
	return keys, nil
}

// readCache returns the ticket-granting ticket in a credential cache, expired or not: of several,
// the one that expires last.
func readCache(setting, client, realm string) (t *ticket, err error) {
	at := path(setting, "KRB5CCNAME", fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid()))
	const remedy = "run kinit, name the cache in zookeeper.sasl.ccache (CCache) or KRB5CCNAME, or configure a keytab"
	defer func() {
		if r := recover(); r != nil { // perhaps kinit is writing the cache
			t, err = nil, fmt.Errorf("%s is no credential cache, or incomplete: %s", at, remedy)
		}
	}()
	file, ok := strings.CutPrefix(at, "FILE:")
	if kind, _, colon := strings.Cut(at, ":"); !ok && colon && kind == strings.ToUpper(kind) && len(kind) > 1 {
		return nil, fmt.Errorf("credential cache %s: only those of kind FILE can be read: kinit -c FILE:/path, or configure a keytab", at)
	}
	data, err := readFile(file)
	if err != nil {
		return nil, fmt.Errorf("credential cache: %w: %s", err, remedy)
	}
	cache := new(credentials.CCache)
	if err := cache.Unmarshal(data); err != nil {
		return nil, fmt.Errorf("%s is no credential cache: %w: %s", file, err, remedy)
	}
	owner := principal{cache.GetClientPrincipalName(), cache.GetClientRealm()}
	if client != "" {
		want, err := parsePrincipal(client, realm)
		if err != nil {
			return nil, fmt.Errorf("principal %q: %w", client, err)
		}
		if want.String() != owner.String() {
			return nil, fmt.Errorf("credential cache %s is of %s, not of %s: kinit %s, or configure the other one", file, owner, want, want)
		}
	}
	for _, c := range cache.GetEntries() {
		if !c.Server.PrincipalName.Equal(loginService(owner.realm).name) || t != nil && c.EndTime.Before(t.end) {
			continue
		}
		start := c.StartTime
		if start.Unix() == 0 {
			start = c.AuthTime
		}
		t = &ticket{client: owner, service: loginService(owner.realm), key: c.Key, start: start, end: c.EndTime, from: file}
		if err := t.Unmarshal(c.Ticket); err != nil {
			return nil, fmt.Errorf("%s: a ticket is undecodable: %w: %s", file, err, remedy)
		}
	}
	if t == nil {
		return nil, fmt.Errorf("credential cache %s has no ticket of the login of %s: %s", file, owner, remedy)
	}
	return t, nil
}

// ticket is a ticket of a client for a service, with the key that the two share.
type ticket struct {
	messages.Ticket
	client, service principal
	key             types.EncryptionKey
	start, end      time.Time
	from            string // path of the credential cache that it is from, if any
}

// valid reports whether the ticket is not nil and has not expired.
func (t *ticket) valid(now time.Time) bool { return t != nil && now.Before(t.end) }

// fresh reports whether less than half of the ticket's time is over.
func (t *ticket) fresh(now time.Time) bool {
	return t != nil && now.Before(t.end.Add(-t.end.Sub(t.start)/2))
}
