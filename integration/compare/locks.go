package main

import (
	"context"
	"errors"
	"fmt"
	"os"
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
	stores := map[string]map[string]*Store{}
	for _, name := range names {
		stores[name] = newStores()
	}
	start := func(ctx context.Context, r *run) error {
		return wait.All(len(r.teams), func(i int) error { return r.startLocks(ctx, i, stores[names[i]]) })
	}
	judge := func(r *run, res *result, begun, ended monotonic.Instant, over bool) bool {
		if !over {
			return false
		}
		for _, t := range r.teams {
			for _, w := range peerOf(t.Name).offers {
				res.Rows = append(res.Rows, judgeLock(t.Name, w, t.History.All(), stores[t.Name][w], begun, ended))
			}
		}
		return false
	}
	res, err := contest{names, start, nil, lockFaults, judge}.run(ctx, set, e)
	if res != nil {
		for _, v := range res.Rows {
			for _, text := range v.examples[:min(5, len(v.examples))] {
				fmt.Fprintf(e.out, "compare: violation: %s, %s: %s\n", v.System, v.Workload, text)
			}
		}
	}
	return res, err
}

// startLocks starts a system's servers, its stores, and then its clients.
func (r *run) startLocks(ctx context.Context, i int, stores map[string]*Store) error {
	t := r.teams[i]
	dir := filepath.Join(r.dir, fmt.Sprint(i))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if r.given == nil {
		servers, err := peerOf(t.Name).start(ctx, dir, r.Servers)
		if err != nil {
			return err
		}
		t.Servers = servers
	}
	socket := filepath.Join(dir, "store")
	listener, err := serveStores(socket, stores)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { listener.Close() })
	return t.Start(crew.Places{N: clients, Servers: t.Servers.Addrs(), Command: func(index, life int, relays []string) (*exec.Cmd, error) {
		return zkserver.Command("", workerEnv, workerConfig{System: t.Name, Seed: r.Seed, Index: index, Life: life, Servers: relays, Store: socket})
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
		if found.Disagree != 0 {
			return errors.New("the servers of Holdfast disagree on their data, which is a fault of ZooKeeper's: the run proves nothing")
		}
		res.Audit = &auditResult{Txns: found.Txns, Judged: found.Total()}
		for _, v := range found.Violations {
			res.Audit.Violations = append(res.Audit.Violations, v.String())
		}
	}
	return nil
}

// brokenLocks lists the promises of Holdfast that were broken.
func (r result) brokenLocks() (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, v := range r.Rows {
		if !ours(v.System) {
			continue
		}
		if v.Overlaps > 0 {
			add("%s, %s: %d holds overlapped", v.System, v.Workload, v.Overlaps)
		}
		if v.Fenced > 0 {
			add("%s, %s: %d violations of fencing", v.System, v.Workload, v.Fenced)
		}
		if v.Holds == 0 {
			add("%s, %s: no client got the lock", v.System, v.Workload)
		}
	}
	if r.Audit != nil && r.Audit.Judged == 0 {
		add("the audit judged nothing")
	}
	if r.Audit != nil {
		all = append(all, r.Audit.Violations...)
	}
	return all
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
			if w == lockSetWorkload || w == fencedWorkload {
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
