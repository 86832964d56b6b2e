package policy

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
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
	Roots     []Root // that the reaper looks after; none: Root alone
}

// ZooKeeper says how to reach the ensemble.
type ZooKeeper struct {
	Servers        []string      // as host:port; default 127.0.0.1:2181
	SessionTimeout time.Duration // what is asked for, the server may give another; default 10s
	Auth           *Auth         // nil, the default: none
}

// Auth is a credential that a connection presents. Exactly one of PasswordFile
// and PasswordEnv is set.
type Auth struct {
	Scheme       string // "digest"
	User         string
	PasswordFile string // the file that holds the password
	PasswordEnv  string // the environment variable that holds it
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
// that it does as the configuration says: root, policies, session timeout, and the
// credentials of zookeeper.auth, without which the nodes that it makes are open to
// everybody. Append others to them, such as a logger. The error is that of
// [Auth.Password], which is read now.
func (c *Config) Options() ([]lock.Option, error) {
	options := []lock.Option{
		lock.WithRoot(c.Root),
		lock.WithPolicies(c.Policies),
		lock.WithSessionTimeout(c.ZooKeeper.SessionTimeout),
	}
	if auth := c.ZooKeeper.Auth; auth != nil {
		password, err := auth.Password()
		if err != nil {
			return nil, err
		}
		options = append(options, lock.WithDigest(auth.User, password.Reveal()))
	}
	return options, nil
}

// draft is a configuration while it is being read.
type draft struct {
	Config
	auth     Auth
	policies []Policy
	roots    []rootDraft
}

// schema is the one list of the keys: what each may hold, and where it goes.
func (c *draft) schema() object {
	return object{
		{"zookeeper", zookeeperSchema(&c.ZooKeeper, &c.auth)},
		{"root", text(&c.Root, rootRule)},
		{"log", object{
			{"level", choice(&c.Log.Level, "trace", "debug", "info", "warn", "error")},
			{"format", choice(&c.Log.Format, "json", "console")},
		}},
		{"policies", listOf(&c.policies, policySchema, 0)},
		{"reaper", reaperSchema(&c.Reaper)},
		{"roots", listOf(&c.roots, rootSchema, 1)},
	}
}

// zookeeperSchema is the part of the schema for the servers, and who we are to them.
func zookeeperSchema(z *ZooKeeper, auth *Auth) value {
	return object{
		{"servers", listOf(&z.Servers, server, 1)},
		{"session_timeout", duration(&z.SessionTimeout, sessionTimeoutRule)},
		{"auth", hidden{object{
			{"scheme", choice(&auth.Scheme, "digest")},
			{"user", hidden{text(&auth.User, userRule)}},
			{"password_file", text(&auth.PasswordFile, notEmpty)},
			{"password_env", hidden{text(&auth.PasswordEnv, variableRule)}},
		}}},
	}
}

// reaperSchema is the part of the schema for how a reaper works.
func reaperSchema(r *Reaper) value {
	return object{
		{"schedule", text(&r.Schedule, scheduleRule)},
		{"concurrency", number(&r.Concurrency)},
		{"batch", number(&r.Batch)},
		{"max_deletes_per_second", number(&r.MaxDeletesPerSecond)},
		{"lock", text(&r.Lock, nameRule)},
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
	return parsed(to, func(s string) (string, string) {
		address, err := zkconn.ParseServer(s)
		if err != nil {
			return "", err.Error()
		}
		return address, ""
	})
}

// pattern takes a policy's pattern.
func pattern(to *Pattern) value {
	return parsed(to, func(s string) (Pattern, string) { return Pattern{s}, checkPattern(s) })
}

// maxPassword bounds what is read of a password file.
const maxPassword = 64 << 10

// Password reads the password, anew at each call so that a changed one is used
// at the next connection: from the file, without the line break at its end, or
// from the environment variable. It is an error if there is none or it is empty.
//
// It is also an error if the file can be read or written by everybody on the
// machine. The file's group may have access: that is how Kubernetes (fsGroup)
// and systemd hand a secret to a service that does not run as root.
func (a *Auth) Password() (Secret, error) {
	if a == nil {
		return Secret{}, errors.New("zookeeper.auth is not configured")
	}
	if a.PasswordFile == "" {
		password := os.Getenv(a.PasswordEnv)
		if password == "" {
			return Secret{}, fmt.Errorf("zookeeper.auth.password_env: the environment variable %s is not set or empty", a.PasswordEnv)
		}
		return NewSecret(password), nil
	}
	password, err := readPassword(a.PasswordFile)
	if err != nil {
		return Secret{}, fmt.Errorf("zookeeper.auth.password_file: %w", err)
	}
	return NewSecret(password), nil
}

func readPassword(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	// Windows has no such bits: Go makes them up.
	if mode := info.Mode().Perm(); mode&0o007 != 0 && runtime.GOOS != "windows" {
		return "", fmt.Errorf("%s has mode %04o: everybody on this machine could read or change it; chmod o= it", path, mode)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxPassword+1))
	if err != nil {
		return "", err
	}
	if len(data) > maxPassword {
		return "", fmt.Errorf("%s is longer than %d bytes: it should hold the password alone", path, maxPassword)
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if password == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return password, nil
}

// ParseServer parses the address of a ZooKeeper server, host or host:port, and
// returns it as host:port. The default port is 2181. An IPv6 address is in
// brackets.
func ParseServer(s string) (string, error) { return zkconn.ParseServer(s) }
