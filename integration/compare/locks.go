package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/lock/history/audit"
)

// The workloads.
const (
	lockWorkload    = "lock"
	lockSetWorkload = "lock-set"
	fencedWorkload  = "fenced"
)

var workloads = []string{lockWorkload, lockSetWorkload, fencedWorkload}

// clients is the number of clients of each system.
const clients = 5

// playLocks runs the lock workloads of the peers, each on servers of its own.
func playLocks(ctx context.Context, r *run, names []string) error {
	servers := make([]crew.Cluster, len(names))
	err := wait.All(len(names), func(i int) error {
		started, err := peerOf(names[i]).start(ctx, filepath.Join(r.dir, fmt.Sprint(i)), r.Servers)
		if err == nil {
			servers[i] = started
		}
		return err
	})
	for i, name := range names {
		r.add(name, servers[i])
	}
	if err == nil {
		err = wait.All(len(names), func(i int) error { return r.start(r.teams[i], clients, r.teams[i].Servers.Addrs()) })
	}
	if err != nil {
		return err
	}
	p, err := r.torment(ctx, lockFaults, nil, nil)
	if err != nil {
		return err
	}
	r.judgeLocks(p)
	return r.audit(ctx)
}

// judgeLocks adds the tables of the locks.
func (r *run) judgeLocks(p period) {
	main := table{Head: []string{"workload", "system", "attempts", "holds", "overlaps of claims", "acts", "acts outside of the hold", "elements added", "lost", "fenced violations", "longest without a grant"}}
	errs := table{Title: "Results of calls that were not a success, by class:", Head: []string{"system", "workload", "errors"}}
	for _, w := range workloads {
		for _, t := range r.teams {
			if !slices.Contains(peerOf(t.Name).offers, w) {
				main.add(w, t.Name, "not offered")
				continue
			}
			v := judgeLock(t.Name, w, t.History.All(), p.begun, p.ended)
			main.add(v.cells()...)
			errs.add(t.Name, w, v.errors())
			if ours(t.Name) {
				r.broken = append(r.broken, v.broken()...)
			}
		}
	}
	slices.SortStableFunc(errs.Rows, func(a, b []string) int { return r.index(a[0]) - r.index(b[0]) })
	r.Tables = []table{main, errs}
}

// index returns the index of a system.
func (r *run) index(name string) int {
	return slices.IndexFunc(r.teams, func(t *crew.Team) bool { return t.Name == name })
}

// audit audits the log of Holdfast's servers, and adds what it found. If the servers disagree on their
// data, it returns an error.
func (r *run) audit(ctx context.Context) error {
	i := r.index(holdfast)
	if i < 0 {
		return nil
	}
	z := r.teams[i].Servers.(*crew.ZooKeeper)
	found, err := crew.Audit(ctx, z.Servers(), audit.Options{Grace: grace, Skew: mostStep})
	if err != nil {
		return err
	}
	wrong, void := crew.Wrong(found)
	if found.Disagree != 0 {
		void = fmt.Sprintf("the servers' transaction logs differ from %#x on", found.Disagree)
	}
	if void != "" {
		return fmt.Errorf("the servers of Holdfast did not agree on their data, which is a fault of ZooKeeper's, and the run proves nothing: %s", void)
	}
	r.broken.add(found.Total() == 0, "the audit judged nothing")
	r.broken = append(r.broken, wrong...)
	r.Tables[1].After = fmt.Sprintf("The audit of the log of Holdfast's servers judged %d writes of %d transactions: %d violations.", found.Total(), found.Txns, len(wrong))
	return nil
}

// takeLocks is the work of a client: it runs all workloads that the system offers at the same time,
// until the standard input ends.
func takeLocks(c client) error {
	ctx := crew.UntilInputEnds()
	teller := &crew.Teller{Worker: c.name(), Classify: classify}
	peer := peerOf(c.System)
	lockers, err := peer.open(c.Servers, teller.Worker)
	if err != nil {
		return err
	}
	return wait.All(len(peer.offers), func(i int) error {
		j := &job{teller, peer.offers[i], lockers(peer.offers[i]), rand.New(rand.NewPCG(c.Seed, uint64(c.Index)<<32|uint64(c.Life)<<16|uint64(i)))}
		for wait.Sleep(ctx, wait.Between(j.r, 50*time.Millisecond, 500*time.Millisecond)) == nil {
			if err := j.do(); err != nil {
				return err
			}
		}
		return nil
	})
}

// job runs one workload of a client.
type job struct {
	*crew.Teller
	workload string
	lock     locker
	r        *rand.Rand
}

// do takes the lock, does the workload's acts, and unlocks.
func (j *job) do() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return j.Turn(crew.Record{Lock: j.workload}, func() (crew.Held, error) { return j.lock(ctx) }, func(t *crew.Turn) error {
		acts := 1
		if j.workload == lockWorkload {
			acts += j.r.IntN(3)
		}
		for range acts {
			if held, err := t.Check(crew.OpCheck); err != nil || !held {
				return err
			}
			if err := j.act(t); err != nil {
				return err
			}
		}
		_, err := t.Check(crew.OpCheck) // as a program that must know whether it held the lock all the time
		return err
	})
}

// act thinks and then acts, without asking again whether the lock is held. So a process that is
// stopped while it thinks acts late, as any program may. With a set, it reads the set before it
// thinks, and the act writes the set: see [keepSet].
func (j *job) act(t *crew.Turn) error {
	most := 200 * time.Millisecond
	if j.workload != lockWorkload {
		most = 600 * time.Millisecond
		if err := t.Say(opRead, nil, ""); err != nil {
			return err
		}
	}
	time.Sleep(wait.Between(j.r, 0, most))
	return t.Say(crew.OpAct, nil, "")
}
