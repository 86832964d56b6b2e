package doctor

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/golden"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/holdfast-io/holdfast/reaper"
)

// patient is an in-memory ensemble, and the configuration that the doctor examines it with.
type patient struct {
	*testing.T
	*locktest.Ensemble
	ctx    context.Context
	config *config.Config
	few    int64             // the doctor's fewTxns; 0: its own
	words  string            // what servers answer to srvr; "": what the ensemble answers
	more   map[string]string // with words: what they answer to other four-letter words
}

// dial is the doctor's dialer. If p.words is set, its connections answer srvr with p.words, and other
// words with p.more.
func (p *patient) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := p.Dialer("doctor")(network, address, timeout)
	if err != nil || p.words == "" {
		return conn, err
	}
	answers := map[string]string{"srvr": p.words}
	maps.Copy(answers, p.more)
	return &talking{Conn: conn, answers: answers}, nil
}

// talking is a connection that answers four-letter words with answers, and passes on everything else.
// answer is atomic, because sessions read and write concurrently.
type talking struct {
	net.Conn
	answers map[string]string
	answer  atomic.Pointer[strings.Reader]
}

func (t *talking) Write(b []byte) (int, error) {
	if answer, ok := t.answers[string(b)]; ok {
		t.answer.Store(strings.NewReader(answer))
	}
	if t.answer.Load() != nil {
		return len(b), nil
	}
	return t.Conn.Write(b)
}

func (t *talking) Read(b []byte) (int, error) {
	if answer := t.answer.Load(); answer != nil {
		return answer.Read(b)
	}
	return t.Conn.Read(b)
}

// raw runs do with a connection of go-zookeeper. auth is its digest credential; "": none.
func (p *patient) raw(auth string, do func(z *zk.Conn) error) {
	p.Helper()
	z, events, err := zk.Connect(p.Servers(), 10*time.Second, zk.WithDialer(p.Dialer("raw")), zk.WithLogInfo(false), zk.WithLogger(silent{}))
	iferr.Fatal(p, err)
	defer func() {
		z.Close()
		for range events {
		}
	}()
	if auth != "" {
		iferr.Fatal(p, z.AddAuth("digest", []byte(auth)))
	}
	iferr.Fatal(p, do(z))
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// create creates nodes that any client may change. Each argument is a path, or a path, a space and the
// node's data.
func (p *patient) create(nodes ...string) {
	p.Helper()
	p.raw("", func(z *zk.Conn) error {
		for _, n := range nodes {
			path, data, _ := strings.Cut(n, " ")
			if _, err := z.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll)); err != nil {
				return err
			}
		}
		return nil
	})
}

// reconfigure sets the content of /zookeeper/config.
func (p *patient) reconfigure(text string) {
	p.Helper()
	iferr.Fatal(p, p.SetConfig(text))
}

func (p *patient) setACL(path string, acl []zk.ACL) {
	p.Helper()
	p.raw("", func(z *zk.Conn) error { _, err := z.SetACL(path, acl, -1); return err })
}

// crash lets a client take the named lock, and then cuts its connections until the end of the test.
func (p *patient) crash(name string, ttl time.Duration) {
	p.Helper()
	c, err := lock.Dial(p.ctx, p.Servers(), lock.WithDialer(p.Dialer("crashed")), lock.WithOwner("crashed"), lock.WithLogger(zerolog.Nop()))
	iferr.Fatal(p, err)
	iferr.Fatal(p, iferr.Of(c.Mutex(name, lock.WithTTL(ttl)).Lock(p.ctx)))
	p.Partition("crashed")
	p.Cleanup(func() {
		p.Heal("crashed")
		_ = c.Close()
	})
}

// examine runs the examination, which watches the leader's clock for five seconds.
func (p *patient) examine() Report {
	p.Helper()
	limited, cancel := context.WithTimeout(p.ctx, 10*time.Minute)
	defer cancel()
	r, err := Examine(limited, Options{
		Config: p.config, Watch: 5 * time.Second, Log: zerolog.Nop(), fewTxns: p.few,
		Dial: func(ctx context.Context, opts ...lock.Option) (*lock.Client, error) {
			configured, err := p.config.Options(ctx)
			if err != nil {
				return nil, err
			}
			within, cancel := context.WithTimeout(ctx, p.config.ZooKeeper.SessionTimeout)
			defer cancel()
			all := append(append(configured, opts...), lock.WithDialer(p.dial), lock.WithLogger(zerolog.Nop()))
			return lock.Dial(within, p.config.ZooKeeper.Servers, all...)
		},
	})
	iferr.Fatal(p, err)
	return r
}

// admit runs f in a synctest bubble, with a new ensemble, of three members unless opts say otherwise.
func admit(t *testing.T, opts locktest.Options, f func(p *patient)) {
	t.Helper()
	if opts.Members == 0 {
		opts.Members = 3
	}
	opts.Latency = func(string, string) time.Duration { return time.Microsecond }
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(func() { time.Sleep(10 * time.Second) }) // until all connections are closed
		t.Cleanup(cancel)
		p := &patient{T: t, Ensemble: locktest.Start(t, opts), ctx: ctx, config: config.Default()}
		p.config.ZooKeeper.Servers = p.Servers()
		f(p)
	})
}

// credentials gives the patient's configuration a user.
func (p *patient) credentials() {
	p.Setenv("HOLDFAST_TEST_PASSWORD", "secret")
	p.config.ZooKeeper.Auth = &config.Auth{Scheme: "digest", User: "holdfast", PasswordEnv: "HOLDFAST_TEST_PASSWORD"}
}

// settings replaces the patient's configuration, except its servers.
func (p *patient) settings(text string) {
	p.Helper()
	servers := p.config.ZooKeeper.Servers
	cfg, err := config.Parse("config.yaml", []byte(text))
	iferr.Fatal(p, err)
	p.config = cfg
	p.config.ZooKeeper.Servers = servers
}

const dir = `{"holdfast":2,"kind":"dir"}`

// plants has faults, each with the expected finding: its ID, a part of What, and a part of Mend. There is a
// root, unless the finding is about that.
var plants = []struct {
	id, what, mend string
	opts           locktest.Options
	plant          func(p *patient)
}{
	{"no-session", "", "Start a server", locktest.Options{}, func(p *patient) {
		for _, s := range p.Servers() {
			iferr.Fatal(p, p.Stop(s))
		}
	}},
	{"config-unusable", "zookeeper.auth.password_file", "Do what the finding says", locktest.Options{}, func(p *patient) {
		p.settings("zookeeper: {servers: [zk1], auth: {scheme: digest, user: shop, password_file: missing.password}}")
	}},
	{"server-unsupported", "the Stat in the reply", "Use Apache ZooKeeper", locktest.Options{Quirks: locktest.Quirks{StaleStat: true}}, func(*patient) {}},
	{"server-unsupported", "ClickHouse Keeper", "Use Apache ZooKeeper", locktest.Options{Quirks: locktest.Quirks{Keeper: true}}, func(*patient) {}},
	{"server-down", "cannot be reached", "Start the server again", locktest.Options{}, func(p *patient) {
		for _, s := range p.Servers() {
			if s != p.Leader() {
				iferr.Fatal(p, p.Stop(s))
				return
			}
		}
	}},
	{"server-release", "ZOOKEEPER-4925", "the fix", locktest.Options{}, func(p *patient) {
		p.words = "Zookeeper version: 3.9.3-c26634f34490bb0ea7a09cc51e05ede3b4e320ee, built on 2024-10-17 23:21 UTC\n"
	}},
	{"release-loses-nodes", "ZOOKEEPER-4846", "keep_parent: true", locktest.Options{}, func(p *patient) {
		p.words = "Zookeeper version: 3.9.6-0, built\n"
	}},
	{"release-unknown", "does not tell", "4lw.commands.whitelist", locktest.Options{}, func(p *patient) {
		p.words = "srvr is not executed because it is not in the whitelist.\n"
	}},
	{"data-in-tmp", "has its data in /tmp/zookeeper", "Set dataDir in zoo.cfg", locktest.Options{}, func(p *patient) {
		p.words = "Zookeeper version: 3.9.6-0, built\n"
		p.more = map[string]string{"conf": "clientPort=2181\ndataDir=/tmp/zookeeper/version-2\ndataDirSize=478\n"}
	}},
	{"heap-small", "a heap of at most 123 MB", "-Xmx", locktest.Options{}, func(p *patient) {
		p.words = "Zookeeper version: 3.9.6-0, built\n"
		p.more = map[string]string{"envi": "os.memory.free=100MB\nos.memory.max=123MB\nos.memory.total=123MB\n"}
	}},
	{"data-differs", "was not the leader's after 3 transactions", "delete its version-2", locktest.Options{}, func(p *patient) {
		p.words = "Zookeeper version: 3.9.6-0, built\n"
		p.more = map[string]string{"mntr": "zk_server_state\tfollower\nzk_digest_mismatches_count\t3\n"}
	}},
	{"server-unchecked", "a scratch node below /locks", "acl-denied", locktest.Options{}, func(p *patient) {
		p.setACL("/locks", zk.WorldACL(zk.PermRead))
	}},
	{"servers-even", "4 servers", "odd number", locktest.Options{Members: 4}, func(*patient) {}},
	{"incomplete", "looking at the holders: ", "again", locktest.Options{}, func(p *patient) {
		p.credentials()
		p.Intercept(func(r locktest.Request) locktest.Fault {
			if r.Op == "getACL" {
				return locktest.Fault{Code: -6}
			}
			return locktest.Fault{}
		})
	}},
	{"single-server", "one server", "three or five", locktest.Options{Members: 1}, func(*patient) {}},
	{"servers-repeat", "more than once", "once", locktest.Options{}, func(p *patient) {
		p.config.ZooKeeper.Servers = append(p.Servers(), p.Servers()[0], p.Servers()[1])
	}},
	{"members-differ", "the members of the ensemble are 192.0.2.1:2181, 192.0.2.4:2181", "zookeeper.servers", locktest.Options{}, func(p *patient) {
		p.reconfigure("server.1=192.0.2.1:2888:3888:participant;2181\nserver.4=192.0.2.4:2888:3888:participant;2181\nversion=1a")
	}},
	{"members-unknown", "it has no address for clients", ";2181", locktest.Options{}, func(p *patient) {
		p.settings("zookeeper: {follow_reconfiguration: true}")
		p.reconfigure("server.1=192.0.2.1:2888:3888:participant\nversion=0")
	}},
	{"clock-exceeds-grace", "grace of 2s", "chrony", locktest.Options{}, func(p *patient) {
		time.AfterFunc(3*time.Second, func() { p.StepClock(5 * time.Second) })
	}},
	{"clock-jumps", "jumped", "slew", locktest.Options{}, func(p *patient) {
		time.AfterFunc(3*time.Second, func() { p.StepClock(500 * time.Millisecond) })
	}},
	{"term-ends", "more transactions", "Restart the leader", locktest.Options{}, func(p *patient) {
		p.few = 1 << 32
	}},
	{"clock-differs", "differ by 1h", "NTP", locktest.Options{}, func(p *patient) {
		for _, s := range p.Servers() {
			iferr.Fatal(p, p.SetClock(s, time.Hour))
		}
	}},
	{"session-granted", "grants 4s", "maxSessionTimeout", locktest.Options{MaxSessionTimeout: 4 * time.Second}, func(*patient) {}},
	{"session-outlasts-ttl", `"brief" has a TTL of 5s`, "session_timeout", locktest.Options{}, func(p *patient) {
		p.settings("policies: [{name: brief, match: \"brief/*\", ttl: 5s}]")
	}},
	{"ttl-long", `"slow" has a TTL of 8h`, "shorter TTL", locktest.Options{}, func(p *patient) {
		p.settings("policies: [{name: slow, match: \"slow/*\", ttl: 8h, max_ttl: 8h}]")
	}},
	{"grace-short", `"rash" has a grace of 100ms`, "grace", locktest.Options{}, func(p *patient) {
		p.settings("policies: [{name: rash, match: \"rash/*\", grace: 100ms}]")
	}},
	{"root-foreign", "/locks", "another root", locktest.Options{}, func(p *patient) { p.create("/locks hello") }},
	{"acl-denied", "/locks", "setAcl", locktest.Options{}, func(p *patient) {
		p.setACL("/locks", zk.WorldACL(zk.PermRead))
	}},
	{"acl-denied", "may not be read", "setAcl", locktest.Options{}, func(p *patient) {
		p.setACL("/locks", zk.DigestACL(zk.PermAll, "root", "secret"))
	}},
	{"sasl-failed", "the server has no SASL", "JAAS", locktest.Options{}, func(p *patient) {
		p.Setenv("HOLDFAST_TEST_PASSWORD", "secret")
		p.config.ZooKeeper.SASL = &config.SASL{Mechanism: config.DigestMD5, User: "holdfast", PasswordEnv: "HOLDFAST_TEST_PASSWORD"}
	}},
	{"sasl-failed", "requires an authentication", "zookeeper.sasl", locktest.Options{}, func(p *patient) {
		p.Intercept(func(locktest.Request) locktest.Fault { return locktest.Fault{Code: -124} })
	}},
	{"acl-invalid", "the scheme of the ACL", "SASLAuthenticationProvider", locktest.Options{}, func(p *patient) {
		p.Intercept(func(r locktest.Request) locktest.Fault {
			if r.Op == "multi" {
				return locktest.Fault{Code: -114, Op: 1}
			}
			return locktest.Fault{}
		})
	}},
	{"quota-exceeded", "a quota refuses new nodes below /locks: learn ensemble time by a write", "can sweep only after that", locktest.Options{}, func(p *patient) {
		p.Intercept(func(r locktest.Request) locktest.Fault {
			if r.Op == "multi" {
				return locktest.Fault{Code: -125, Op: 1}
			}
			return locktest.Fault{}
		})
	}},
	{"acl-open", "any client may change 1 of 1 node looked at: /locks", "Restrict the root", locktest.Options{}, (*patient).credentials},
	{"acl-open", "any client may change 2 of 4 nodes looked at: /locks/orders, /locks/orders/9f86d081884c7d65-lock-0000000000", "without the credentials", locktest.Options{}, func(p *patient) {
		p.credentials()
		ours := zk.DigestACL(zk.PermAll, "holdfast", "secret")
		p.create(`/locks/orders {"holdfast":2,"kind":"mutex"}`, `/locks/stock {"holdfast":2,"kind":"mutex"}`, "/locks/orders/9f86d081884c7d65-lock-0000000000")
		p.setACL("/locks/stock", ours)
		p.setACL("/locks", ours)
	}},
	{"acl-open", "any client may change 2 of 2 nodes looked at: /locks, /locks/orders", "Restrict the root", locktest.Options{}, func(p *patient) { // an entry may not be read
		p.credentials()
		others := zk.DigestACL(zk.PermAll, "other", "secret")
		p.create(`/locks/orders {"holdfast":2,"kind":"mutex"}`, `/locks/stock {"holdfast":2,"kind":"mutex"}`, "/locks/orders/9f86d081884c7d65-lock-0000000000")
		p.setACL("/locks/orders/9f86d081884c7d65-lock-0000000000", others)
		p.setACL("/locks/stock", others)
	}},
	{"acl-open-above", "1 node above the root: /", "administrator", locktest.Options{}, (*patient).credentials},
	{"unreadable", "/locks/secret", "read and delete", locktest.Options{}, func(p *patient) {
		p.create("/locks/secret " + dir)
		p.setACL("/locks/secret", zk.DigestACL(zk.PermAll, "root", "secret"))
	}},
	{"jute-maxbuffer", "bytes", "jute.maxbuffer", locktest.Options{}, func(p *patient) {
		p.Intercept(func(r locktest.Request) locktest.Fault {
			if slices.Contains(r.Paths, "/locks/.size") {
				return locktest.Fault{Drop: locktest.BeforeApply}
			}
			return locktest.Fault{}
		})
	}},
	{"left-behind", "1 expired entry", "reaper", locktest.Options{}, func(p *patient) {
		p.crash("orders/42", time.Second)
		time.Sleep(time.Minute)
	}},
	{"acl-delete", "past their time: /locks/orders/42/", "cdrwa", locktest.Options{}, func(p *patient) {
		p.crash("orders/42", time.Second)
		time.Sleep(time.Minute)
		p.setACL("/locks/orders/42", zk.WorldACL(zk.PermAll&^zk.PermDelete))
	}},
	{"foreign-stuck", "/locks/x/_c_8fb1c83d8d1e4a02a1b1b1c1d1e1f1a1-lock-0000000001", "delete PATH", locktest.Options{}, func(p *patient) {
		p.create(`/locks/x {"holdfast":2,"kind":"mutex"}`, "/locks/x/_c_8fb1c83d8d1e4a02a1b1b1c1d1e1f1a1-lock-0000000001")
	}},
	{"undecodable", "/locks/x/9f86d081884c7d65-lock-0000000000", "zkCli.sh", locktest.Options{}, func(p *patient) {
		p.create(`/locks/x {"holdfast":2,"kind":"mutex"}`, "/locks/x/9f86d081884c7d65-lock-0000000000 torn")
	}},
	{"counter-worn", "1 lock has used up more than half of the counter of its entries: /locks/x", "below", locktest.Options{}, func(p *patient) {
		p.create(`/locks/x {"holdfast":2,"kind":"mutex","generation":"9f86d081884c7d65"}`, "/locks/x/"+znode.Anchor("9f86d081884c7d65"))
		iferr.Fatal(p, p.SetSequence("/locks/x", znode.WornCounter))
	}},
	{"entries-copied", "1 entry was copied with a lock's node: /locks/x/9f86d081884c7d65-lock-0000000007", "leases are short", locktest.Options{}, func(p *patient) {
		record := (&znode.Record{Owner: "o", TTL: time.Hour.Milliseconds()}).Encode()
		p.create(`/locks/x {"holdfast":2,"kind":"mutex","generation":"9f86d081884c7d65"}`, "/locks/x/9f86d081884c7d65-lock-0000000007 "+string(record))
	}},
	{"foreign-nodes", "1 node of other programs", "Nothing", locktest.Options{}, func(p *patient) { p.create("/locks/stranger hello") }},
	{"reaper-absent", "holdfast-reaper", "daemon", locktest.Options{}, func(*patient) {}},
	{"reaper-absent", "holdfast-reaper", "daemon", locktest.Options{}, func(p *patient) { // the reaper has crashed, and no other reaper waits
		p.crash(reaper.DefaultLock, time.Second)
		time.Sleep(time.Minute)
	}},
	{"root-missing", "/locks", "--root", locktest.Options{}, func(*patient) {}},
	{"ttl-over-max", "1 entry with", "same configuration", locktest.Options{}, func(p *patient) {
		p.crash("orders/42", 10*time.Minute)
		p.settings("policies: [{name: brief, match: \"orders/*\", ttl: 30s, max_ttl: 1m}]")
	}},
}

// TestPlants: the doctor finds each planted fault, and the finding names the fault and its remedy.
func TestPlants(t *testing.T) {
	for _, plant := range plants {
		t.Run(plant.id, func(t *testing.T) {
			admit(t, plant.opts, func(p *patient) {
				if !strings.HasPrefix(plant.id, "root-") {
					p.create("/locks " + dir)
				}
				plant.plant(p)
				r := p.examine()
				i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.ID == plant.id })
				if i < 0 {
					t.Fatalf("not found: %+v", r)
				}
				f := r.Findings[i]
				if !strings.Contains(f.What, plant.what) || !strings.Contains(f.Mend, plant.mend) || f.Means == "" || f.Severity == "" {
					t.Errorf("%+v", f)
				}
				if strings.ContainsAny(f.What+f.Means+f.Mend, "\n") {
					t.Errorf("more than a line: %+v", f)
				}
				if slices.Contains(r.Fine, plant.id) {
					t.Errorf("it is said to be fine, too: %q", r.Fine)
				}
				if plant.id != "incomplete" && slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.ID == "incomplete" }) {
					t.Errorf("incomplete: %+v", r.Findings)
				}
			})
		})
	}
}

// TestManyNodesLeftBehind: whether nodes can be deleted is asked once for all below the same node: each
// request is a transaction.
func TestManyNodesLeftBehind(t *testing.T) {
	admit(t, locktest.Options{}, func(p *patient) {
		p.create("/locks "+dir, "/locks/o "+dir)
		for i := range 50 {
			p.create(fmt.Sprintf("/locks/o/%d %s", i, dir))
		}
		time.Sleep(time.Hour)
		var asked atomic.Int64
		p.Intercept(func(q locktest.Request) (f locktest.Fault) {
			if strings.Contains("multi delete", q.Op) && strings.HasPrefix(q.Paths[0], "/locks/o/") {
				asked.Add(1)
			}
			return f
		})
		r := p.examine()
		p.Intercept(nil)
		if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.ID == "left-behind" && len(f.Nodes) == 51 }) || asked.Load() != 1 {
			t.Errorf("asked %d times: %+v", asked.Load(), r.Findings)
		}
	})
}

// TestACLsOfManyNodes: of many nodes the doctor reads the ACLs of mostACLs, the root's among them, and says
// so.
func TestACLsOfManyNodes(t *testing.T) {
	admit(t, locktest.Options{}, func(p *patient) {
		p.credentials()
		p.create("/locks " + dir)
		for i := range mostACLs {
			p.create(fmt.Sprintf("/locks/%d %s", i, dir))
		}
		var read atomic.Int64
		p.Intercept(func(q locktest.Request) (f locktest.Fault) {
			if q.Op == "getACL" && q.Paths[0] != "/" {
				read.Add(1)
			}
			return f
		})
		r := p.examine()
		p.Intercept(nil)
		i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.ID == "acl-open" })
		const want = "any client may change 1000 of 1000 nodes looked at, the root and others chosen at random from 1001: /locks, "
		if i < 0 || read.Load() != mostACLs || !strings.Contains(r.Findings[i].What, want) {
			t.Fatalf("%d read; %d: %.500v", read.Load(), i, r.Findings)
		}
	})
}

// TestLetsAllChange: only an ACL of the scheme world lets any client change a node, and one to read does not.
func TestLetsAllChange(t *testing.T) {
	for _, c := range []struct {
		acl  zk.ACL
		want bool
	}{
		{zk.ACL{Perms: zk.PermAll, Scheme: "world", ID: "anyone"}, true},
		{zk.ACL{Perms: zk.PermRead | zk.PermAdmin, Scheme: "world", ID: "anyone"}, true},
		{zk.ACL{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}, false},
		{zk.ACL{Perms: zk.PermAll, Scheme: "sasl", ID: "holdfast"}, false},
		{zk.ACL{Perms: zk.PermAll, Scheme: "x509", ID: "CN=svc"}, false},
	} {
		if got := letsAllChange(c.acl); got != c.want {
			t.Errorf("%+v: %v", c.acl, got)
		}
	}
}

// TestHealthy: on a healthy ensemble the doctor makes all checks, has no finding, and leaves no node.
func TestHealthy(t *testing.T) {
	admit(t, locktest.Options{}, func(p *patient) {
		p.credentials()
		p.setACL("/", zk.DigestACL(zk.PermAll, "holdfast", "secret"))
		c, err := lock.Dial(p.ctx, p.Servers(), lock.WithDialer(p.Dialer("reaper")), lock.WithDigest("holdfast", "secret"), lock.WithLogger(zerolog.Nop()))
		iferr.Fatal(t, err)
		defer c.Close()
		hold, err := c.Mutex(reaper.DefaultLock).Lock(p.ctx)
		iferr.Fatal(t, err)
		defer hold.Unlock()
		p.words = "Zookeeper version: 3.9.2-0, built\n"
		p.more = map[string]string{"mntr": "zk_digest_mismatches_count\t0\n"}
		p.reconfigure("server.1=192.0.2.1:2888:3888:participant;2181\nserver.2=192.0.2.2:2888:3888:participant;2181\nserver.3=192.0.2.3:2888:3888:participant;2181\nversion=0")
		before := len(p.Dump("/"))
		r := p.examine()
		if len(r.Findings) > 0 || r.Worst() != "" {
			t.Errorf("found: %+v", r.Findings)
		}
		if after := len(p.Dump("/")); after != before {
			t.Errorf("%d nodes, %d before", after, before)
		}
		for id := range kinds {
			if !slices.Contains(r.Fine, id) && id != "incomplete" {
				t.Errorf("not looked for: %s", id)
			}
		}
	})
}

// TestPlantsAreAll: plants has each kind of finding, and each kind has a severity, a meaning and a
// remedy.
func TestPlantsAreAll(t *testing.T) {
	planted := map[string]bool{}
	for _, p := range plants {
		planted[p.id] = true
	}
	for id, k := range kinds {
		if !planted[id] || k.means == "" || k.mend == "" || k.Severity == "" {
			t.Errorf("%s: planted %v, %+v", id, planted[id], k)
		}
	}
}

func TestPrint(t *testing.T) {
	r := Report{
		Findings: []Finding{find("clock-exceeds-grace", "the leader's clock jumped by %v", 5*time.Second), find("unreadable", "an ACL forbids 3 nodes: /locks/\x1b[2J")},
		Fine:     []string{"no-session"}, Told: []string{"zk1:2181 is ZooKeeper 3.9.5"},
	}
	var got bytes.Buffer
	iferr.Fatal(t, r.Print(&got, false))
	golden.Check(t, "report.txt", got.Bytes())
}
