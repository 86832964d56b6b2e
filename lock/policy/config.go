package policy

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Config is the whole of a configuration file. The library, the reaper and the
// command line read the same one.
type Config struct {
	ZooKeeper ZooKeeper
	Root      string // the node under which all locks are; default "/locks"
	Log       Log
	Policies  *Set
	Reaper    Reaper
	Status    Status // what the reaper serves
	Roots     []Root // that the reaper looks after; none: Root alone

	file   string              // that it was read from
	places map[string]position // of its keys' values
}

// ZooKeeper says how to reach the ensemble.
type ZooKeeper struct {
	Servers        []string      // as host:port; default 127.0.0.1:2181
	SessionTimeout time.Duration // what is asked for, the server may give another; default 10s
	Auth           *Auth         // nil, the default: none
	TLS            *TLS          // nil, the default: plain text
	UnsafeServer   bool          // go on with a server that locks cannot rest on, see [lock.WithUnsafeServer]
}

// Auth is a credential that a connection presents. Exactly one of PasswordFile
// and PasswordEnv is set.
type Auth struct {
	Scheme       string // "digest"
	User         string
	PasswordFile string // the file that holds the password
	PasswordEnv  string // the environment variable that holds it

	path string // of its key in the file; "" is zookeeper.auth
}

// Log says what is logged, and how.
type Log struct {
	Level  string // trace, debug, info, warn or error; default info
	Format string // json or console; default json
}

// Reaper says how the reaper works, as far as the file does. The zero value of a field
// means the default of package reaper, which also knows the limits.
type Reaper struct {
	Schedule    string // when policies without one of their own are swept
	Concurrency int    // requests in flight
	Batch       int    // deletes in one transaction
	Lock        string // the lock that makes one reaper the active one
	// MaxDeletesPerSecond bounds the deletes of all sweeps together.
	MaxDeletesPerSecond int
}

// Default returns the configuration of an empty file.
func Default() *Config {
	return &Config{
		ZooKeeper: ZooKeeper{
			Servers:        []string{"127.0.0.1:2181"},
			SessionTimeout: lock.DefaultSessionTimeout,
		},
		Root:     lock.DefaultRoot,
		Log:      Log{Level: "info", Format: "json"},
		Policies: new(Set),
	}
}

// Options returns what a client is to be made with by [lock.Dial], beside the servers, so
// that it does as the configuration says: root, policies, session timeout, TLS, and the
// credentials of zookeeper.auth, without which the nodes that it makes are open to
// every user. Append other options to them, such as a logger. The error is that of
// [Auth.Password] or [TLS.Config], whose files are read now, with the place in the file.
func (c *Config) Options() ([]lock.Option, error) {
	options := []lock.Option{
		lock.WithRoot(c.Root),
		lock.WithPolicies(c.Policies),
		lock.WithSessionTimeout(c.ZooKeeper.SessionTimeout),
	}
	if auth := c.ZooKeeper.Auth; auth != nil {
		password, err := auth.Password()
		if err != nil {
			return nil, c.at(err)
		}
		options = append(options, lock.WithDigest(auth.User, password.Reveal()))
	}
	if c.ZooKeeper.TLS != nil {
		cfg, err := c.ZooKeeper.TLS.Config()
		if err != nil {
			return nil, c.at(err)
		}
		options = append(options, lock.WithTLS(cfg))
	}
	if c.ZooKeeper.UnsafeServer {
		options = append(options, lock.WithUnsafeServer())
	}
	return options, nil
}

// draft is a configuration while it is being read.
type draft struct {
	Config
	auth     Auth
	tls      TLS
	policies []Policy
	roots    []rootDraft
}

// schema is the one list of the keys: what each may hold, and where it goes.
func (c *draft) schema() object {
	return object{
		{"zookeeper", zookeeperSchema(&c.ZooKeeper, &c.auth, &c.tls)},
		{"root", text(&c.Root, rootRule)},
		{"log", object{
			{"level", choice(&c.Log.Level, "trace", "debug", "info", "warn", "error")},
			{"format", choice(&c.Log.Format, "json", "console")},
		}},
		{"policies", listOf(&c.policies, policySchema, 0)},
		{"reaper", append(reaperSchema(&c.Reaper), statusSchema(&c.Status)...)},
		{"roots", listOf(&c.roots, rootSchema, 1)},
	}
}

// reaperSchema is the part of the schema for how a reaper works.
func reaperSchema(r *Reaper) object {
	return object{
		{"schedule", text(&r.Schedule, scheduleRule)},
		{"concurrency", number(&r.Concurrency)},
		{"batch", number(&r.Batch)},
		{"max_deletes_per_second", number(&r.MaxDeletesPerSecond)},
		{"lock", text(&r.Lock, nameRule)},
	}
}

// zookeeperSchema is the part of the schema for the servers, and our credentials there.
func zookeeperSchema(z *ZooKeeper, auth *Auth, tls *TLS) value {
	return object{
		{"servers", withoutLogin{listOf(&z.Servers, server, 1)}},
		{"session_timeout", duration(&z.SessionTimeout, sessionTimeoutRule)},
		{"auth", hidden{object{
			{"scheme", choice(&auth.Scheme, "digest")},
			{"user", hidden{text(&auth.User, userRule)}},
			{"password_file", hidden{text(&auth.PasswordFile, pathRule)}},
			{"password_env", hidden{text(&auth.PasswordEnv, variableRule)}},
		}}},
		{"tls", object{
			{"ca_file", text(&tls.CAFile, pathRule)},
			{"cert_file", text(&tls.CertFile, pathRule)},
			{"key_file", hidden{text(&tls.KeyFile, pathRule)}},
			{"server_name", text(&tls.ServerName, notEmpty)},
		}},
		{"unsafe_server", boolean(&z.UnsafeServer)},
	}
}

// policySchema is the part of the schema for one policy. The rules on its
// values are those of [NewSet], except that a zero is not taken for a default.
func policySchema(p *Policy) value {
	return object{
		{"name", text(&p.Name, notEmpty)},
		{"match", pattern(&p.Match)},
		{"ttl", duration(&p.TTL, notZero)},
		{"max_ttl", duration(&p.MaxTTL, notZero)},
		{"grace", duration(&p.Grace, notZero)},
		{"max_hold", duration(&p.MaxHold, anyTime)},
		{"keep_parent", boolean(&p.KeepParent)},
		{"local_window", window(&p.LocalWindow)},
		{"idle", duration(&p.Idle, anyTime)},
		{"orphan_after", duration(&p.OrphanAfter, notZero)},
		{"schedule", text(&p.Schedule, notEmpty)},
	}
}

func notEmpty(s string) string {
	if s == "" {
		return "must not be empty"
	}
	return ""
}

func notZero(t time.Duration) string {
	if t == 0 {
		return "must be more than zero; delete the key for the default"
	}
	return ""
}

func anyTime(time.Duration) string { return "" }

func rootRule(root string) string {
	if err := znode.CheckRoot(root); err != nil {
		return strings.TrimPrefix(err.Error(), fmt.Sprintf("root %q: ", root))
	}
	return ""
}

func scheduleRule(s string) string {
	if _, err := ParseSchedule(s); err != nil {
		return err.Error()
	}
	return ""
}

// sessionTimeoutRule leaves the real bounds to the server, which has them from
// its tick time; go-zookeeper sends the number as an int32 of milliseconds.
func sessionTimeoutRule(t time.Duration) string {
	return checkTime(t, 100*time.Millisecond, math.MaxInt32*time.Millisecond)
}

// userRule keeps apart what digest joins with a colon.
func userRule(s string) string {
	if s == "" || strings.Contains(s, ":") {
		return "must not be empty nor have a colon"
	}
	return ""
}

func variableRule(s string) string {
	for i, r := range s {
		if r != '_' && (r > unicode.MaxASCII || !unicode.IsLetter(r)) && (i == 0 || r < '0' || r > '9') {
			return "must be the name of an environment variable: letters, digits and underscores"
		}
	}
	return notEmpty(s)
}

// server takes one address of the list.
func server(to *string) value {
	return withoutLogin{parsed(to, func(s string) (string, string) {
		address, err := zkconn.ParseServer(s)
		if err != nil {
			return "", err.Error()
		}
		return address, ""
	})}
}

// pattern takes a policy's pattern.
func pattern(to *Pattern) value {
	return parsed(to, func(s string) (Pattern, string) { return Pattern{s}, checkPattern(s) })
}

// ParseServer parses the address of a ZooKeeper server, host or host:port, and
// returns it as host:port. The default port is 2181. An IPv6 address is in
// brackets.
func ParseServer(s string) (string, error) { return zkconn.ParseServer(s) }

// ShowServer returns what was given as a server as it may be shown: without what stands
// before an @, which may be a user's name and password, as in URLs.
func ShowServer(s string) string { return zkconn.ShowServer(s) }
