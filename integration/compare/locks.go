package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock/history/audit"
)

// runLocks runs the lock workloads of the peers, each on servers of its own.
func runLocks(ctx context.Context, set settings, names []string, e env) (*result, error) {
	start := func(ctx context.Context, r *run) error {
		return wait.All(len(r.teams), func(i int) error { return r.startLocks(ctx, i) })
	}
	judge := func(r *run, res *result, begun, ended monotonic.Instant, over bool) bool {
		if !over {
			return false
		}
		for _, t := range r.teams {
			for _, w := range peerOf(t.Name).offers {
				res.Rows = append(res.Rows, judgeLock(t.Name, w, t.History.All(), begun, ended))
			}
		}
		return false
	}
	return contest{names, start, nil, lockFaults, judge}.run(ctx, set, e)
}

// startLocks starts a system's servers, and then its clients.
func (r *run) startLocks(ctx context.Context, i int) error {
	t := r.teams[i]
	if r.given == nil {
		servers, err := peerOf(t.Name).start(ctx, filepath.Join(r.dir, fmt.Sprint(i)), r.Servers)
		if err != nil {
			return err
		}
		t.Servers = servers
	}
	return t.Start(crew.Places{N: clients, Servers: t.Servers.Addrs(), Command: func(index, life int, relays []string) (*exec.Cmd, error) {
		return zkserver.Command("", workerEnv, workerConfig{t.Name, r.Seed, index, life, relays})
	}})
}

// startZooKeeper starts n servers without syncs of their logs to disk, and with clocks and links of
// their own if there are several.
func startZooKeeper(ctx context.Context, dir string, n int) (crew.Cluster, error) {
	opts := zkserver.Options{Links: n > 1, Config: []string{"syncLimit=4", "initLimit=20"}} // in ticks of 0.5 s
	var ahead []time.Duration
	if n > 1 {
		ahead = make([]time.Duration, n)
	}
	clocks, err := crew.Clocks(ctx, dir, ahead...)
	if err != nil {
		return nil, err
	}
	return crew.Start(ctx, n, clocks, opts)
}

// audit audits the log of Holdfast's servers. If the servers disagree on their data, it returns an
// error.
func (r *run) audit(ctx context.Context, res *result) error {
	for _, t := range r.teams {
		c, ok := t.Servers.(*crew.ZooKeeper)
		if !ok || t.Name != holdfast {
			continue
		}
		found, err := crew.Audit(ctx, c.Servers(), audit.Options{Grace: grace, Skew: mostStep})
		if err != nil {
			return err
		}
		wrong, void := c.Wrong(found)
		if found.Disagree != 0 {
			void = fmt.Sprintf("the servers' transaction logs differ from %#x on", found.Disagree)
		}
		if void != "" {
			return fmt.Errorf("the servers of Holdfast did not agree on their data, which is a fault of ZooKeeper's, and the run proves nothing: %s", void)
		}
		res.Audit = &auditResult{found.Txns, found.Total(), wrong}
	}
	return nil
}

func (r result) brokenLocks() (p promises) {
	for _, v := range r.Rows {
		if ours(v.System) {
			p.broken(v.Overlaps > 0 || v.Fenced > 0, "%s, %s: %d holds overlapped, and %d violations of fencing", v.System, v.Workload, v.Overlaps, v.Fenced)
			p = append(p, v.examples[:min(5, len(v.examples))]...)
			p.broken(v.Holds == 0, "%s, %s: no client got the lock", v.System, v.Workload)
		}
	}
	if r.Audit != nil {
		p.broken(r.Audit.Judged == 0, "the audit judged nothing")
		p = append(p, r.Audit.Violations...)
	}
	return p
}

func (r result) locksTables() []table {
	main := table{head: []string{"workload", "system", "attempts", "holds", "overlaps of claims", "acts", "acts outside of the hold", "elements added", "lost", "fenced violations", "longest without a grant"}}
	errs := table{title: "Results of calls that were not a success, by class:", head: []string{"system", "workload", "errors"}}
	var names []string
	byName := map[string]row{}
	for _, v := range r.Rows {
		if _, ok := byName[v.System]; !ok {
			names = append(names, v.System)
		}
		byName[v.System], byName[v.System+"/"+v.Workload] = v, v
		errs.add(v.System, v.Workload, v.errors())
	}
	for _, w := range workloads {
		for _, name := range names {
			v, ok := byName[name+"/"+w]
			if !ok {
				main.add(w, name, "not offered")
				continue
			}
			cells := []any{w, name, v.Attempts, v.Holds, v.Overlaps, v.Acts, v.Outside, "", "", "", fmt.Sprintf("%.1f s", v.Idle.Seconds())}
			if w != lockWorkload {
				cells[7], cells[8] = v.Added, v.Lost
			}
			if w == fencedWorkload {
				cells[9] = v.Fenced
			}
			main.add(cells...)
		}
	}
	if r.Audit != nil {
		errs.after = fmt.Sprintf("The audit of the log of Holdfast's servers judged %d writes of %d transactions: %d violations.", r.Audit.Judged, r.Audit.Txns, len(r.Audit.Violations))
	}
	return []table{main, errs}
}
