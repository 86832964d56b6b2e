package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/history/audit"
	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/holdfast-io/holdfast/reaper"
)

// Settings of the run. Constants with Patience in their names limit steps that should take less
// time.
const (
	orphanAfter    = time.Second
	finishPatience = 2*(ttl+grace) + time.Minute // time for the workers to end after the last fault
	sweepPatience  = time.Minute
	checkPatience  = 2 * time.Minute // time for porcupine
	serverLogLines = 20000
	progressEvery  = 30 * time.Second
)

const (
	workers = 8                       // number of processes that take locks
	keep    = "integration/artifacts" // folder in which a run that failed is kept
)

type torture struct {
	duration time.Duration
	seed     uint64

	ctx     context.Context // ends when the run is given up
	dir     string          // folder of the logs
	servers *crew.ZooKeeper
	team    crew.Team
	logs    map[string][]byte // by file name; read at the end
	void    string            // reason why the findings prove nothing; "": they count
	series  []crew.Series     // faults of the servers, and of each worker

	stuck []string // workers that did not end in time
	left  []string // nodes below the root at the end

	findings *audit.Findings // result of the audit of the servers' transaction logs
	unkept   error           // why these logs, with violations, could not be kept
}

// main carries out the run, prints the report, and returns the exit status.
func (t *torture) main(ctx context.Context) int {
	began := time.Now()
	fmt.Printf("torture: seed %d, %v of faults, %d workers, TTL %v, grace %v\n", t.seed, t.duration, workers, ttl, grace)
	err := t.run(ctx)
	if ctx.Err() != nil {
		fmt.Fprintln(os.Stderr, "torture: interrupted; all that was started has ended")
		return exitUnknown
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture: nothing was found out:", err)
		if t.void = t.diverged(); t.void != "" {
			fmt.Fprintln(os.Stderr, "torture: the servers did not agree on their data, which is a fault of ZooKeeper's:", t.void)
		}
		for _, line := range t.preserve(err.Error()) {
			fmt.Fprintln(os.Stderr, "torture:", line)
		}
		return exitUnknown
	}
	report := t.judge()
	report.print(os.Stdout)
	fmt.Printf("took %v in all\n", time.Since(began).Round(time.Second))
	switch {
	case len(report.wrong) == 0:
		fmt.Println("PASSED")
		return exitPassed
	case report.void != "":
		t.void = report.void
		return exitUnknown
	}
	return exitFailed
}

// diverged returns how the servers' data differs: the line of a server's log that says so, the zxid from
// which on their transaction logs differ, or those at which a log contradicts itself; "" if nothing shows a
// difference. ZooKeeper 3.8.0 can lose or keep transactions if servers are killed while they synchronize. Then
// the clients' results prove nothing.
func (t *torture) diverged() string {
	for _, name := range slices.Sorted(maps.Keys(t.logs)) {
		if !strings.HasPrefix(name, "server-") {
			continue
		}
		for line := range strings.Lines(string(t.logs[name])) {
			if strings.Contains(line, "Digests are not matching") || strings.Contains(line, "First digest mismatch") {
				return name + ": " + strings.TrimSpace(line)
			}
		}
	}
	if t.findings == nil {
		return ""
	}
	if t.findings.Disagree != 0 {
		return fmt.Sprintf("the servers' transaction logs differ from 0x%x on", t.findings.Disagree)
	}
	_, void := crew.Wrong(t.findings)
	return void
}

// run starts servers and workers, applies and repairs the faults, and collects what judge needs. An
// error means that the run itself has failed, not that a promise was broken.
func (t *torture) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.ctx = ctx
	if t.dir, err = os.MkdirTemp("", "holdfast-torture-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(t.dir)) }()
	if err := t.startServers(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.team.Close()) }()
	defer func() {
		if err != nil {
			err = errors.Join(err, t.collectLogs())
		}
	}()
	if err := t.startWorkers(); err != nil {
		return err
	}
	sweeper, locks, err := t.reaper()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locks.Close()) }() // does nothing if sweep has closed it

	if err := t.torment(ctx, cancel, sweeper); err != nil {
		return err
	}
	if err := t.finish(); err != nil {
		return err
	}
	if err := t.sweep(sweeper, locks); err != nil {
		return err
	}
	if err := t.list(); err != nil {
		return err
	}
	if err := t.audit(); err != nil {
		return err
	}
	return t.collectLogs()
}

// audit audits the servers' transaction logs. If it finds violations, it copies the logs to keep.
func (t *torture) audit() (err error) {
	skew := 2 * clockOff
	if t.servers.Clocks == nil {
		skew = time.Millisecond
	}
	servers := t.servers.Servers()
	if t.findings, err = crew.Audit(t.ctx, servers, audit.Options{Grace: grace, Skew: skew}); err != nil || len(t.findings.Violations)+len(t.findings.Restored) == 0 {
		return err
	}
	t.unkept = crew.KeepLogs(servers, filepath.Join(keep, fmt.Sprintf("torture-%d", t.seed)))
	return nil
}

// collectLogs reads the logs of workers, the reaper and servers before they are deleted.
func (t *torture) collectLogs() error {
	t.logs = map[string][]byte{}
	files, err := filepath.Glob(filepath.Join(t.dir, "*.log"))
	for _, file := range files {
		text, readErr := os.ReadFile(file)
		err = errors.Join(err, readErr)
		t.logs[filepath.Base(file)] = text
	}
	for i, s := range t.servers.Servers() {
		t.logs[fmt.Sprintf("server-%d.log", i+1)] = []byte(s.LogTail(serverLogLines))
	}
	return err
}

// startServers starts the ensemble, with links between the members. If libfaketime is available,
// each member has a clock of its own.
func (t *torture) startServers() error {
	clocks, err := crew.Clocks(t.ctx, t.dir, 0, clockOff, -clockOff)
	if err != nil {
		fmt.Println("torture: the servers' clocks are the same, because", err)
	}
	if t.servers, err = crew.Start(t.ctx, 3, clocks, zkserver.Options{Links: true, Config: []string{"syncLimit=4"}}); err != nil {
		return err
	}
	t.team.Name, t.team.Servers = "torture", t.servers
	fmt.Printf("torture: the servers are %s\n", t.servers.Version())
	if t.servers.Release.MayDiverge() {
		fmt.Printf("torture: such servers may come to disagree on their data when they are killed, and then the run is void; "+
			"from 3.8.6 and 3.9.5 on they do not (%s=FOLDER of unpacked releases, or %s)\n", zkserver.EnvReleases, zkserver.EnvHome)
	}
	return nil
}

func (t *torture) startWorkers() error {
	began := monotonic.Now()
	return t.team.Start(crew.Places{N: workers, Servers: t.servers.Addrs(), Tapped: true, Logs: t.dir,
		Command: func(index, life int, relays []string) (*exec.Cmd, error) {
			return zkserver.Command("", workerEnv, workerConfig{t.seed, index, life, began, relays})
		}})
}

// reaper returns a reaper that sweeps every 5 s while it runs, and its client.
func (t *torture) reaper() (*reaper.Reaper, *lock.Client, error) {
	set, err := policy.NewSet(policy.Rule{
		Match: policy.MustPattern("**"), Policy: lock.Policy{Name: "torture", TTL: ttl, Grace: grace}, OrphanAfter: orphanAfter,
	})
	if err != nil {
		return nil, nil, err
	}
	log, err := os.OpenFile(filepath.Join(t.dir, "reaper.log"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	context.AfterFunc(t.ctx, func() { log.Close() })
	logger := zerolog.New(log).Level(zerolog.InfoLevel).With().Timestamp().Logger()
	locks, err := lock.Dial(t.ctx, t.servers.Addrs(), lock.WithRoot(root), lock.WithPolicies(set),
		lock.WithSessionTimeout(sessionTimeout), lock.WithLogger(logger))
	if err != nil {
		return nil, nil, err
	}
	r, err := reaper.New(locks, reaper.Options{Policies: set, Schedule: "@every 5s", Log: &logger})
	if err != nil {
		return nil, nil, errors.Join(err, locks.Close())
	}
	return r, locks, nil
}

// torment applies faults for the run's duration. When it returns, all faults are repaired.
func (t *torture) torment(ctx context.Context, giveUp context.CancelCauseFunc, sweeper *reaper.Reaper) error {
	ctx, cancel := context.WithTimeout(ctx, t.duration)
	defer cancel()
	var wg sync.WaitGroup
	try := func(f func() error) {
		wg.Go(func() {
			if err := f(); err != nil {
				giveUp(err)
			}
		})
	}
	t.series = []crew.Series{{Least: time.Second, Most: 4 * time.Second, Faults: t.serverFaults()}}
	for _, c := range t.team.Clients {
		t.series = append(t.series, crew.Series{Least: time.Second, Most: 12 * time.Second, Faults: t.clientFaults(c)})
	}
	try(func() error {
		return crew.Plague(ctx, t.seed, t.series, func(i int, f crew.Fault, began, ended monotonic.Instant) {
			victim := "servers"
			if i > 0 {
				victim = fmt.Sprintf("w%d", i-1)
			}
			t.team.History.Add(&crew.Record{Op: crew.OpFault, Worker: victim, Call: began, Return: ended, Result: f.Name})
		})
	})
	try(func() error {
		err := sweeper.Run(ctx)
		if unconfirmed := (*lock.UnlockError)(nil); errors.As(err, &unconfirmed) {
			return nil // no server answered: the entry expires, and list finds it if it is not deleted
		}
		return err
	})
	try(func() error {
		for wait.Sleep(ctx, progressEvery) == nil {
			fmt.Printf("torture: so far %d holds, %d faults\n", t.team.History.Count(crew.OpGrant), t.team.History.Count(crew.OpFault))
		}
		return nil
	})
	wg.Wait()
	return context.Cause(t.ctx)
}

// finish waits until all servers serve, because a closing client leaves behind what it cannot
// delete in time. Then it ends the workers.
func (t *torture) finish() error {
	if err := t.servers.Whole(t.ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.ctx, finishPatience)
	defer cancel()
	t.stuck = t.team.Finish(ctx)
	return nil
}

// sweep waits until all remaining entries have expired, and sweeps once. Then it closes the
// reaper's client, which deletes the parent of the reaper's lock.
func (t *torture) sweep(sweeper *reaper.Reaper, locks *lock.Client) error {
	tree := admin.New(locks)
	// If an entry is older than the last election, the reaper counts its lease from the client's
	// first stamp of the new leader. Now gets a stamp.
	if _, err := tree.Now(t.ctx); err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	if err := wait.Sleep(t.ctx, ttl+grace+2*clockOff+orphanAfter); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.ctx, sweepPatience)
	defer cancel()
	report, err := sweeper.Sweep(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("torture: the last sweep: %+v\n", report.Total)
	return locks.Close()
}

// list adds the remaining nodes below the root to left, except those with reserved names.
func (t *torture) list() (err error) {
	ctx, cancel := context.WithTimeout(t.ctx, sweepPatience)
	defer cancel()
	client, err := lock.Dial(ctx, t.servers.Addrs(), lock.WithRoot(root))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	tree := admin.New(client)
	var walk func(path string) error
	walk = func(path string) error {
		names, _, err := tree.Children(ctx, path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		for _, name := range names {
			if path == root && znode.Reserved(name) {
				continue // may stay
			}
			t.left = append(t.left, path+"/"+name)
			err = errors.Join(err, walk(path+"/"+name))
		}
		return err
	}
	return walk(root)
}
