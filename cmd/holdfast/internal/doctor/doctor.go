package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/list"
	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/text"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/holdfast-io/holdfast/reaper"
)

// Options are the settings of an examination.
type Options struct {
	Config *policy.Config
	// Dial connects with the configuration, and with these additional options. It accepts a
	// server that locks cannot use.
	Dial func(ctx context.Context, opts ...lock.Option) (*lock.Client, error)
	Log  zerolog.Logger
	// Watch is the time for which to watch the leader's clock; 0: for two samples.
	Watch time.Duration
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

// exam is one examination.
type exam struct {
	Options
	Report
	locks *lock.Client
	tree  admin.Tree
}

// Examine makes all checks. It returns an error if ctx has ended.
func Examine(ctx context.Context, o Options) (Report, error) {
	e := &exam{Options: o, Report: Report{Findings: []Finding{}, Fine: []string{}, Told: []string{}}} // no findings must not become null in JSON
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
			if err != nil && ctx.Err() == nil && !(denied && e.found("acl-denied")) {
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

// add adds a finding.
func (e *exam) add(id, what string, args ...any) {
	e.Findings = append(e.Findings, find(id, what, args...))
}

func (e *exam) found(id string) bool {
	return slices.ContainsFunc(e.Findings, func(f Finding) bool { return f.ID == id })
}

// fine says that these checks were made. A check with a finding does not count as fine.
func (e *exam) fine(ids ...string) { e.Fine = append(e.Fine, ids...) }

func (e *exam) tell(format string, args ...any) {
	e.Told = append(e.Told, fmt.Sprintf(format, args...))
}

// Thresholds.
const (
	shortGrace = 500 * time.Millisecond
	longTTL    = time.Hour
	differs    = 10 * time.Second // difference between this machine's and the leader's clock
	largest    = 512 << 10        // bytes, largest request of renewals and sweeps
	named      = 3                // number of nodes that a finding names
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

// connect connects, and reports whether there is a session.
func (e *exam) connect(ctx context.Context) bool {
	var err error
	e.locks, err = e.Dial(ctx, lock.WithUnsafeServer())
	switch {
	case err == nil:
		e.tree = admin.New(e.locks)
		e.fine("no-session", "sasl-failed")
		return true
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
	case r.Unchecked != nil:
		e.add("server-unchecked", "%s", oneLine(r.Unchecked))
	}
	e.fine("server-unsupported", "server-unchecked", "acl-invalid", "server-release", "release-unknown", "server-down")
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

// sameServers reports whether two lists name the same servers, perhaps by other names.
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

// root checks the node above all locks, and its ACL.
func (e *exam) root(ctx context.Context) error {
	root := e.tree.Root()
	data, stat, err := e.tree.Get(ctx, root)
	e.fine("root-missing", "root-foreign", "acl-denied", "acl-open")
	switch {
	case errors.Is(err, zk.ErrNoNode):
		e.add("root-missing", "there is no node %s", root)
		return nil
	case errors.Is(err, zk.ErrNoAuth):
		e.add("acl-denied", "%s may not be read", root)
		return nil
	case err != nil:
		return err
	}
	if node := znode.ReadNode(data, znode.Stat(*stat)); node.Err != nil && !errors.Is(node.Err, znode.ErrOlder) { // a root of format 1 is fine
		e.add("root-foreign", "%s holds data that is not Holdfast's: %v", root, node.Err)
	}
	if _, err := e.tree.Now(ctx); errors.Is(err, lock.ErrDenied) {
		e.add("acl-denied", "an ACL forbids to create and delete nodes below %s: %s", root, oneLine(err))
	} else if err != nil {
		return err
	}
	acl, err := e.tree.ACL(ctx, root)
	if errors.Is(err, zk.ErrNoAuth) {
		return nil // this user may not read it
	}
	for _, a := range acl {
		if a.Scheme == "world" && a.Perms&(zk.PermWrite|zk.PermCreate|zk.PermDelete|zk.PermAdmin) != 0 && (e.Config.ZooKeeper.Auth != nil || e.Config.ZooKeeper.SASL != nil) {
			e.add("acl-open", "zookeeper.auth or zookeeper.sasl names a user, and any client may change %s", root)
		}
	}
	return err
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
		if _, by := e.tree.Displacement(); by.Abs() > worst.Abs() {
			worst = by
		}
		select {
		case <-time.After(between):
		case <-ctx.Done():
			return nil
		}
	}
	least := slices.MinFunc(e.Config.Policies.All(), func(a, b policy.Policy) int { return int(a.Grace - b.Grace) })
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
	local := time.Now()
	if off := max(now.Earliest().Sub(local), local.Sub(now.Latest())); off > differs {
		e.add("clock-differs", "this machine's clock and that of ZooKeeper's leader differ by %v", off.Round(time.Second))
	}
	return nil
}

// size checks whether the longest requests are accepted.
func (e *exam) size(ctx context.Context) error {
	err := e.tree.Carries(ctx, largest)
	if errors.Is(err, admin.ErrTooLong) {
		e.add("jute-maxbuffer", "a request of %d bytes ends the connection", largest)
		err = nil
	}
	e.fine("jute-maxbuffer")
	return err
}

// sweep checks the whole tree, as the reaper would.
func (e *exam) sweep(ctx context.Context) error {
	c := e.Config
	r, err := reaper.New(e.locks, reaper.Options{
		Policies: c.Policies, Schedule: c.Reaper.Schedule, Concurrency: c.Reaper.Concurrency, Batch: c.Reaper.Batch,
		Lock: c.Reaper.Lock, Log: &e.Log, DryRun: true,
	})
	if err != nil {
		return err
	}
	report, err := r.Sweep(ctx)
	if err != nil && !report.Complete && report.Skipped == "" {
		return err
	}
	if report.Skipped != "" {
		return fmt.Errorf("the tree was not looked at: %s", report.Skipped)
	}
	t := report.Total
	e.fine("left-behind", "undecodable", "format-1", "foreign-nodes", "unreadable")
	if t.Expired+t.Orphans+t.Ancestors+t.Moot > 0 {
		e.add("left-behind", "%s, %s, %s and %s past their time%s",
			text.Count(t.Expired, "expired entry", "expired entries"), text.Count(t.Orphans, "empty parent", "empty parents"),
			text.Count(t.Ancestors, "empty ancestor", "empty ancestors"), text.Count(t.Moot, "stale release request", "stale release requests"), first(report.Planned, func(p reaper.Planned) string { return p.Path }))
	}
	if t.Undecodable > 0 {
		e.add("undecodable", "%s cannot be read%s", text.Count(t.Undecodable, "entry", "entries"), first(report.Undecodable, func(path string) string { return path }))
	}
	if t.Format1 > 0 {
		e.add("format-1", "%s of format 1%s", text.Count(t.Format1, "node", "nodes"), first(report.Format1, func(path string) string { return path }))
	}
	if t.Foreign > 0 {
		e.add("foreign-nodes", "%s of other programs below %s", text.Count(t.Foreign, "node", "nodes"), e.tree.Root())
	}
	if t.Denied > 0 {
		e.add("unreadable", "an ACL forbids %s%s", text.Count(t.Denied, "node", "nodes"), first(report.Denied, func(d reaper.Denial) string { return d.Path }))
	}
	e.tell("%s with %s below %s, read in %v", text.Count(t.Locks, "lock", "locks"), text.Count(t.Live, "live entry", "live entries"), e.tree.Root(), report.Duration.Round(time.Millisecond))
	return nil
}

// first returns the first names of many.
func first[T any](all []T, name func(T) string) string {
	if len(all) == 0 {
		return ""
	}
	var names []string
	for _, one := range all[:min(len(all), named)] {
		names = append(names, name(one))
	}
	more := ""
	if len(all) > named {
		more = ", ..."
	}
	return ": " + strings.Join(names, ", ") + more
}

// reaper checks whether a reaper is active: one that has died leaves an expired entry.
func (e *exam) reaper(ctx context.Context) error {
	name := cmp.Or(e.Config.Reaper.Lock, reaper.DefaultLock)
	s, err := e.tree.Inspect(ctx, name)
	if errors.Is(err, zk.ErrNoAuth) {
		return nil
	}
	e.fine("reaper-absent")
	grace := e.Config.Policies.For(name).Grace
	lives := func(c admin.Contender) bool {
		return !c.Ours || c.Read.Zxid == 0 || c.Read.Earliest().Before(c.Expires.Add(grace))
	}
	if err == nil && !slices.ContainsFunc(s.Contenders, lives) {
		e.add("reaper-absent", "no process holds %s, the lock of the reaper", name)
	}
	return err
}

// holders compares the entries with the policies.
func (e *exam) holders(ctx context.Context) error {
	l, err := list.Read(ctx, e.tree, "", new(list.Progress))
	if err != nil {
		return err
	}
	e.fine("ttl-over-max")
	over, firstOf := map[string]int{}, map[string]string{}
	for _, s := range l.Nodes {
		p := e.Config.Policies.For(s.Name)
		for _, c := range s.Contenders {
			if !c.Ours || c.TTL <= p.MaxTTL {
				continue
			}
			if over[p.Name]++; over[p.Name] == 1 {
				firstOf[p.Name] = fmt.Sprintf("%v at %s", c.TTL, c.Path)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(over)) {
		e.add("ttl-over-max", "%s with a longer TTL than max_ttl of policy %q, the first %s", text.Count(over[name], "entry", "entries"), name, firstOf[name])
	}
	return nil
}
