package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"strconv"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/zkconn"
	"github.com/holdfast-io/holdfast/lock/policy"
)

// Config is a whole configuration file. The library, the reaper and the command line read the same
// file.
type Config struct {
	ZooKeeper ZooKeeper   `key:"zookeeper"`
	Root      string      `key:"root" rule:"root"` // the node under which all locks are; default "/locks"
	Log       Log         `key:"log"`
	Policies  *policy.Set `key:"policies"` // the keys of a policy are tags of policy.Rule and lock.Policy
	Reaper    Reaper      `key:"reaper"`
	Status    Status      `key:"reaper"`          // the status page; its keys are below reaper, too
	Roots     []Root      `key:"roots" least:"1"` // the reaper's roots; none: Root alone

	at   string   // key of the listed root that the configuration is for, with a dot: roots[0].
	from *decoder // decoder of the file, nil without one; a pointer, so that logs do not print the file
}

// ZooKeeper has the servers of the ensemble and how to connect to them.
type ZooKeeper struct {
	// Servers are host:port. Default 127.0.0.1:2181.
	Servers []string `key:"servers" rule:"server" least:"1" show:"server"`
	// SessionTimeout is the requested timeout; the server may grant another. Default 10s.
	SessionTimeout time.Duration `key:"session_timeout" rule:"session"`
	// Auth is nil by default: no credentials.
	Auth *Auth `key:"auth" show:"never"`
	// SASL is nil by default: no authentication by SASL.
	SASL *SASL `key:"sasl" show:"never"`
	// FurtherUsers get the same rights on new nodes, for the replacement of a password. Default none.
	FurtherUsers []User `key:"further_users" show:"never"`
	// TLS is nil by default: plain text.
	TLS *TLS `key:"tls"`
	// Reconfiguration follows the ensemble's dynamic reconfiguration, see [lock.WithReconfiguration].
	Reconfiguration bool `key:"follow_reconfiguration"`
	// UnsafeServer accepts a server that cannot keep locks safe, see [lock.WithUnsafeServer].
	UnsafeServer bool `key:"unsafe_server"`
}

// Log has the level and the form of the log.
type Log struct {
	Level  string `key:"level" oneof:"trace debug info warn error"` // default info
	Format string `key:"format" oneof:"json console"`               // default json
}

// Reaper has the settings of the reaper. A zero field means the default of package reaper, which
// also checks the limits.
type Reaper struct {
	Schedule            string `key:"schedule" rule:"schedule"` // default schedule of the policies' sweeps
	Concurrency         int    `key:"concurrency"`              // most requests in flight
	Batch               int    `key:"batch"`                    // most deletes in one transaction
	MaxDeletesPerSecond int    `key:"max_deletes_per_second"`   // limit of all sweeps together
	Lock                string `key:"lock" rule:"name"`         // lock whose holder is the active reaper
}

// Status has the settings of the reaper's status page.
type Status struct {
	Listen string `key:"listen" rule:"listen"` // host:port; "", the default: no status page
	// Hosts are the host names that requests may have, beside localhost and IP addresses.
	Hosts    []string `key:"hosts" rule:"host" least:"1"`
	Metadata bool     `key:"show_metadata"` // whether to show the metadata of entries
}

// Default returns the configuration of a file without keys, {}.
func Default() *Config {
	return &Config{
		ZooKeeper: ZooKeeper{
			Servers:        []string{"127.0.0.1:2181"},
			SessionTimeout: lock.DefaultSessionTimeout,
		},
		Root:     lock.DefaultRoot,
		Log:      Log{Level: "info", Format: "json"},
		Policies: new(policy.Set),
	}
}

// maxFile is the size limit of a configuration file, in bytes.
const maxFile = 1 << 20

// Load reads a configuration file. If the file cannot be read, the error wraps the operating
// system's. Any other error is a [*Error] with all mistakes.
func Load(path string) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return Parse(path, data)
}

// Parse parses a configuration. Mistakes show filename, and relative names of files in data are
// relative to its folder. Keys that data omits have their defaults. The error is a [*Error].
func Parse(filename string, data []byte) (*Config, error) {
	d, c := newDecoder(filename), Default()
	d.guard(func() {
		if n := d.parse(data); n != nil {
			d.decode(newField(reflect.ValueOf(c).Elem(), ""), "", n)
		}
	})
	d.checkRoots(c)
	if err := d.err(); err != nil {
		return nil, err
	}
	c.from = d
	return c, nil
}

// ParseServer parses the address of a ZooKeeper server, host or host:port, and returns it as
// host:port. The default port is 2181. An IPv6 address needs brackets.
func ParseServer(s string) (string, error) { return zkconn.ParseServer(s) }

// ShowServer returns a server's address in a form that is safe to print. It drops the text before
// an @, which may be a user name and a password as in a URL.
func ShowServer(s string) string { return zkconn.ShowServer(s) }

// ParseListen parses an address to listen on, port or host:port, and returns it as host:port. The
// default host is 127.0.0.1: only this machine can connect.
func ParseListen(text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = "", text
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return "", errors.New("must be a port or host:port, such as 9180 or 0.0.0.0:9180")
	}
	return net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port), nil
}
