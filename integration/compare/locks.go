package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock/history/audit"
)

// runLocks runs the lock workloads of the peers, each on servers of its own.
func runLocks(ctx context.Context, set settings, names []string, given []string, out io.Writer) (_ *result, err error) {
	r := &run{settings: set, out: out, given: given}
	defer func() { err = errors.Join(err, r.end()) }()
	if err := r.begin(ctx, names); err != nil {
		return nil, err
	}
	if err := wait.All(len(r.systems), func(i int) error { return r.startLocks(ctx, r.systems[i]) }); err != nil {
		return nil, err
	}
	res := &result{settings: set, Versions: r.versions(ctx)}
	if err := r.awaitWork(ctx); err != nil {
		return nil, err
	}
	start := monotonic.Now()
	if res.Faults, err = r.disturb(ctx, r.faults(lockFaults)); err != nil {
		return nil, err
	}
	stop := monotonic.Now()
	if err := wait.Sleep(ctx, calmDown); err != nil {
		return nil, err
	}
	if res.faults, err = r.finish(ctx); err != nil {
		return nil, err
	}
	for _, s := range r.systems {
		for _, w := range peerOf(s.name).offers {
			var own []record
			for _, rec := range s.history.All() {
				if rec.Workload == w {
					own = append(own, rec)
				}
			}
			row := judge(s.name, w, own, s.stores.byWorkload[w], start, stop)
			for _, e := range row.examples {
				r.say("violation: %s", e)
			}
			res.Rows = append(res.Rows, *row)
		}
	}
	if err := r.audit(ctx, res); err != nil {
		return res, err
	}
	if len(res.broken()) > 0 {
		err = r.keep()
	}
	return res, err
}

// startLocks starts a system's servers, its stores, and then its clients.
func (r *run) startLocks(ctx context.Context, s *system) (err error) {
	if s.cluster = given(r.given); r.given == nil {
		if s.cluster, err = peerOf(s.name).start(ctx, s.dir, r.Servers); err != nil {
			return err
		}
	}
	s.stores = newStores()
	socket := filepath.Join(s.dir, "store")
	if s.listen, err = s.stores.serve(socket); err != nil {
		return err
	}
	return s.join(s.cluster.addrs(), func(index, life int, relays []string) (*exec.Cmd, error) {
		return zkserver.Command("", workerEnv, workerConfig{System: s.name, Seed: r.Seed, Index: index, Life: life, Servers: relays, Store: socket})
	})
}

// versions returns the versions of the servers.
func (r *run) versions(ctx context.Context) (text string) {
	seen := map[string]bool{}
	for _, s := range r.systems {
		version := ""
		switch c := s.cluster.(type) {
		case *zkCluster:
			if v, err := c.Servers()[0].Version(ctx); err == nil {
				version = "ZooKeeper " + v.String()
			}
		case *etcdCluster:
			version = "etcd " + c.version
		}
		if version != "" && !seen[version] {
			seen[version] = true
			if text != "" {
				text += ", "
			}
			text += version
		}
	}
	return text
}

// audit audits the log of Holdfast's servers. If the servers disagree on their data, it returns an
// error.
func (r *run) audit(ctx context.Context, res *result) error {
	for _, s := range r.systems {
		c, ok := s.cluster.(*zkCluster)
		if !ok || s.name != holdfast {
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
