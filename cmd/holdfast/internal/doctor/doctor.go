package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Options are the settings of an examination.
type Options struct {
	Config *config.Config
	// Dial connects with Config, and with opts, which take precedence.
	Dial func(ctx context.Context, opts ...lock.Option) (*lock.Client, error)
	Log  zerolog.Logger
	// Watch is the time for which to watch the leader's clock; 0: one sample.
	Watch time.Duration

	fewTxns int64 // for tests: instead of the constant
}

// Report is the result of an examination.
type Report struct {
	Findings []Finding `json:"findings"`
	// Fine are the IDs of the checks without findings, sorted.
	Fine []string `json:"fine"`
	// Told are facts for information that need no action.
	Told []string `json:"told"`
}

// Worst returns the worst severity of the findings; "" if there are none.
func (r *Report) Worst() Severity {
	for _, s := range []Severity{Error, Warning, Info} {
		if slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity == s }) {
			return s
		}
	}
	return ""
}

type exam struct {
	Options
	Report
	locks *lock.Client
	tree  admin.Tree
}

// Examine makes all checks. If no session can be opened, it checks only the configuration. A check
// that cannot be made is a finding. Examine returns an error only if ctx has ended: its cause.
func Examine(ctx context.Context, o Options) (Report, error) {
	e := &exam{Options: o}
	e.configuration()
	if e.connect(ctx) {
		defer e.locks.Close()
		for _, part := range []struct {
			name string
			look func(context.Context) error
		}{
			{"the servers", e.server}, {"the ensemble", e.members}, {"the root", e.root}, {"the session", e.session}, {"the leader's clock", e.clock},
			{"the size of requests", e.size}, {"the tree of locks", e.sweep}, {"the reaper's lock", e.reaper}, {"the holders", e.holders},
		} {
			err := part.look(ctx)
			denied := errors.Is(err, lock.ErrDenied) || errors.Is(err, zk.ErrNoAuth)
			if err != nil && ctx.Err() == nil && !(denied && (e.found("acl-denied") || e.found("quota-exceeded"))) {
				e.add("incomplete", "looking at %s: %s", part.name, oneLine(err))
			}
		}
	}
	if ctx.Err() != nil {
		return Report{}, context.Cause(ctx)
	}
	slices.SortStableFunc(e.Findings, func(a, b Finding) int { return rank(a) - rank(b) })
	e.Fine = slices.DeleteFunc(e.Fine, func(id string) bool {
		return slices.ContainsFunc(e.Findings, func(f Finding) bool { return f.ID == id })
	})
	slices.Sort(e.Fine)
	e.Fine = slices.Compact(e.Fine)
	return e.Report, nil
}

func rank(f Finding) int { return slices.Index([]Severity{Error, Warning, Info}, f.Severity) }

func (e *exam) add(id, what string, args ...any) {
	e.Findings = append(e.Findings, find(id, what, args...))
}

func (e *exam) found(id string) bool {
	return slices.ContainsFunc(e.Findings, func(f Finding) bool { return f.ID == id })
}

// fine records the IDs of checks that were made. Examine drops the IDs that have a finding.
func (e *exam) fine(ids ...string) { e.Fine = append(e.Fine, ids...) }

func (e *exam) tell(format string, args ...any) {
	e.Told = append(e.Told, fmt.Sprintf(format, args...))
}

// Thresholds of the findings.
const (
	shortGrace = 500 * time.Millisecond
	longTTL    = time.Hour
	differs    = 10 * time.Second // difference between this machine's and the leader's clock
	largest    = 512 << 10        // bytes, largest request of a sweep
	fewTxns    = 400_000_000      // transactions left, a good four days at 1,000 a second
	smallHeap  = 200 << 20        // bytes, for some ten thousand locks
	named      = 3                // number of nodes that a finding names
	mostACLs   = 1000             // number of nodes whose ACLs are read
)

// configuration makes the checks that need no server.
func (e *exam) configuration() {
	z := e.Config.ZooKeeper
	switch n := len(z.Servers); {
	case n == 1:
		e.add("single-server", "zookeeper.servers names one server, %s", z.Servers[0])
	case n%2 == 0:
		e.add("servers-even", "zookeeper.servers names %d servers", n)
	}
	seen := map[string]bool{}
	for _, s := range z.Servers {
		if seen[s] {
			e.add("servers-repeat", "zookeeper.servers names %s more than once", s)
		}
		seen[s] = true
	}
	for _, p := range e.Config.Policies.All() {
		switch {
		case z.SessionTimeout >= p.TTL:
			e.add("session-outlasts-ttl", "policy %q has a TTL of %v, and the session timeout is %v", p.Name, p.TTL, z.SessionTimeout)
		case p.TTL > longTTL:
			e.add("ttl-long", "policy %q has a TTL of %v", p.Name, p.TTL)
		}
		if p.Grace < shortGrace {
			e.add("grace-short", "policy %q has a grace of %v", p.Name, p.Grace)
		}
	}
	e.fine("single-server", "servers-even", "servers-repeat", "session-outlasts-ttl", "ttl-long", "grace-short")
}

// connect connects, and reports whether there is a session. If there is none, the error is a finding.
func (e *exam) connect(ctx context.Context) bool {
	var err error
	e.locks, err = e.Dial(ctx, lock.WithUnsafeServer())
	switch {
	case err == nil:
		e.tree = admin.New(e.locks)
		e.fine("no-session", "sasl-failed", "config-unusable")
		return true
	case errors.Is(err, config.ErrUnusable):
		e.add("config-unusable", "%s", oneLine(err))
	case errors.Is(err, lock.ErrSASL):
		e.add("sasl-failed", "%s", oneLine(err))
	case errors.Is(err, lock.ErrUnsupported):
		e.add("server-unsupported", "%s", oneLine(err))
	default:
		e.add("no-session", "%s", oneLine(err))
	}
	return false
}

// oneLine returns an error's message without line breaks.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// server checks the server's behavior, and the releases.
func (e *exam) server(ctx context.Context) error {
	r, err := admin.CheckServer(ctx, e.locks)
	if err != nil {
		return err
	}
	switch {
	case r.Refused != nil:
		e.add("server-unsupported", "%s", oneLine(r.Refused))
	case errors.Is(r.Unchecked, zk.ErrInvalidACL):
		e.add("acl-invalid", "%s", oneLine(r.Unchecked))
	case overQuota(r.Unchecked): // the check of the root reports it
	case r.Unchecked != nil:
		e.add("server-unchecked", "%s", oneLine(r.Unchecked))
	}
	e.fine("server-unsupported", "server-unchecked", "acl-invalid", "server-release", "release-loses-nodes", "release-unknown", "server-down", "data-in-tmp", "heap-small")
	var loseNodes []string
	for _, s := range r.Servers {
		var unreachable net.Error
		switch {
		case s.Err != nil && (errors.As(s.Err, &unreachable) || errors.Is(s.Err, context.DeadlineExceeded)):
			e.add("server-down", "%s cannot be reached: %s", s.Address, oneLine(s.Err))
		case s.Warning != "":
			e.add("server-release", "%s: %s", s.Address, s.Warning)
		case s.Release == "":
			e.add("release-unknown", "%s does not tell its release", s.Address)
		default:
			e.tell("%s is ZooKeeper %s", s.Address, s.Release)
		}
		if s.LosesNodes {
			loseNodes = append(loseNodes, s.Address)
		}
		if s.DataDir == "/tmp/zookeeper" {
			e.add("data-in-tmp", "%s has its data in %s", s.Address, s.DataDir)
		}
		if s.Heap > 0 && s.Heap < smallHeap {
			e.add("heap-small", "%s has a heap of at most %d MB", s.Address, s.Heap>>20)
		}
		if s.Mismatches > 0 {
			e.add("data-differs", "the data of %s was not the leader's after %d transactions since its start, by their digests", s.Address, s.Mismatches)
		}
	}
	if len(loseNodes) > 0 {
		e.add("release-loses-nodes", "%s can lose nodes when they start, by ZOOKEEPER-4846", strings.Join(loseNodes, ", "))
	}
	if !slices.ContainsFunc(r.Servers, func(s admin.ServerRelease) bool { return s.Mismatches < 0 }) {
		e.fine("data-differs")
	}
	return nil
}

// members compares the configured servers with the ensemble's own list of them.
func (e *exam) members(ctx context.Context) error {
	z := e.Config.ZooKeeper
	members, err := e.tree.Members(ctx)
	switch {
	case ctx.Err() != nil:
		return err
	case err != nil && z.Reconfiguration:
		e.add("members-unknown", "%s", oneLine(err))
	case err == nil && !sameServers(ctx, z.Servers, members):
		e.add("members-differ", "zookeeper.servers names %s; the members of the ensemble are %s", strings.Join(z.Servers, ", "), strings.Join(members, ", "))
	}
	e.fine("members-unknown", "members-differ")
	return nil
}

// sameServers reports whether two lists of servers lead to the same addresses.
func sameServers(ctx context.Context, a, b []string) bool {
	addresses := func(servers []string) (all []string) {
		for _, s := range servers {
			host, port, _ := net.SplitHostPort(s)
			found, err := net.DefaultResolver.LookupHost(ctx, host)
			if err != nil {
				found = []string{host}
			}
			for _, ip := range found {
				all = append(all, net.JoinHostPort(ip, port))
			}
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	return slices.Equal(addresses(a), addresses(b))
}

// session checks the granted session timeout.
func (e *exam) session(context.Context) error {
	asked, granted := e.Config.ZooKeeper.SessionTimeout, e.tree.SessionTimeout()
	if granted != 0 && (granted-asked).Abs() > time.Second {
		e.add("session-granted", "zookeeper.session_timeout is %v, and the server grants %v", asked, granted)
	}
	e.fine("session-granted")
	return nil
}

// clock watches the leader's clock, and compares it with the graces and this machine's clock.
func (e *exam) clock(ctx context.Context) error {
	const between = 250 * time.Millisecond
	var worst time.Duration
	var now admin.Time
	begun := time.Now()
	for first := true; first || time.Since(begun) < e.Watch; first = false {
		var err error
		if now, err = e.tree.Now(ctx); errors.Is(err, zk.ErrNoNode) || errors.Is(err, lock.ErrDenied) {
			return nil // the check of the root has reported it
		} else if err != nil {
			return err
		}
		if _, by, _ := e.tree.Displaced(); by.Abs() > worst.Abs() {
			worst = by
		}
		select {
		case <-time.After(between):
		case <-ctx.Done():
			return nil
		}
	}
	least := slices.MinFunc(e.Config.Policies.All(), func(a, b policy.Rule) int { return int(a.Grace - b.Grace) })
	e.fine("clock-exceeds-grace", "clock-jumps", "clock-differs")
	watched := time.Since(begun).Round(100 * time.Millisecond)
	switch {
	case worst.Abs() > least.Grace/2:
		e.add("clock-exceeds-grace", "the leader's clock jumped by %v within %v; policy %q has a grace of %v, which allows for %v", worst, watched, least.Name, least.Grace, least.Grace/2)
	case worst != 0:
		e.add("clock-jumps", "the leader's clock jumped by %v within %v; policy %q has a grace of %v", worst, watched, least.Name, least.Grace)
	default:
		e.tell("the leader's clock ran evenly for %v; the smallest grace, %v of policy %q, allows for jumps of %v", watched, least.Grace, least.Name, least.Grace/2)
	}
	if left := znode.TxnsLeft(now.Zxid); left < cmp.Or(e.fewTxns, fewTxns) {
		e.add("term-ends", "%d more transactions, of 2^32, fit into the present term of ZooKeeper's leader, or of a server that runs alone", left)
	}
	e.fine("term-ends")
	local := time.Now()
	if off := max(now.Earliest().Sub(local), local.Sub(now.Latest())); off > differs {
		e.add("clock-differs", "this machine's clock and that of ZooKeeper's leader differ by %v", off.Round(time.Second))
	}
	return nil
}

// size checks whether the server accepts a request of the largest size.
func (e *exam) size(ctx context.Context) error {
	err := e.tree.Carries(ctx, largest)
	if errors.Is(err, admin.ErrTooLong) {
		e.add("jute-maxbuffer", "a request of %d bytes ends the connection", largest)
		err = nil
	}
	e.fine("jute-maxbuffer")
	return err
}
