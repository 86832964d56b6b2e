// Shardrace shares 256 shards among eight processes, by package shard and, beside it, by rendezvous
// hashing over a list of members, as services do without locks: each member has an ephemeral node,
// and each computes the owner of each shard from the list. The same faults hit both teams at the same
// moments: processes are killed and started again, paused for up to 25 seconds, and restarted in
// order.
//
//	shardrace [-duration 10m] [-seed N] [-servers 1]
//
// With three servers or more, one of them at a time is killed, paused or restarted, too.
//
// Each owner of a shard writes once a second, with its fencing token, to a log that is the store.
// Shardrace then counts from the log. The exit status is 1 if package shard broke a promise, and 2 if
// the race could not be run. README.md explains the table.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

const (
	processes = 8
	shards    = 256
	ttl       = 10 * time.Second // also of the member list's sessions
	grace     = time.Second

	startPatience = 2 * time.Minute
	closePatience = 30 * time.Second
	settle        = 90 * time.Second // from the last fault to the end, at most
	mostDown      = 2                // processes of a team that are killed or paused at once
)

// faultNames are the names of the kinds of faults.
var faultNames = []string{"kills", "pauses", "restarts in order"}

// team is a way to share shards, and its processes.
type team struct {
	name string
	ours bool
	log  string
	file *os.File
	proc [processes]*zkserver.Worker
	life [processes]int
}

type race struct {
	dir      string
	seed     uint64
	ensemble *zkserver.Ensemble
	teams    []*team
}

func main() {
	if config := os.Getenv(workerEnv); config != "" {
		if err := work(config); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	duration := flag.Duration("duration", 10*time.Minute, "for how long faults are made")
	seed := flag.Uint64("seed", 0, "of the faults; 0: a new one")
	servers := flag.Int("servers", 1, "ZooKeeper servers; with 3 or more, one at a time is killed, paused or restarted")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	broken, err := run(ctx, cmp.Or(*seed, uint64(rand.Uint32())), *servers, *duration)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "shardrace:", err)
		os.Exit(2)
	case broken:
		os.Exit(1)
	}
}

func run(ctx context.Context, seed uint64, servers int, duration time.Duration) (broken bool, err error) {
	fmt.Printf("shardrace: seed %d, %v of faults, %d servers\n", seed, duration, servers)
	r := &race{seed: seed, teams: []*team{{name: "package shard", ours: true}, {name: "rendezvous hashing over a member list"}}}
	if r.dir, err = os.MkdirTemp("", "holdfast-shardrace-"); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()
	if r.ensemble, err = zkserver.StartEnsemble(ctx, servers, zkserver.Options{Fsync: true, Optimize: true}); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, r.ensemble.Stop()) }()
	defer r.closeAll()
	for i, t := range r.teams {
		t.log = filepath.Join(r.dir, fmt.Sprint("team", i))
		if t.file, err = os.OpenFile(t.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
			return false, err
		}
		defer t.file.Close()
		for p := range processes {
			if err := r.start(t, p); err != nil {
				return false, err
			}
		}
	}
	if err := r.waitEven(ctx, startPatience); err != nil {
		return false, err
	}
	begun := monotonic.Now()
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	ofServers := make(chan error, 1)
	go func() { ofServers <- r.disturbServers(both, duration) }()
	faults, err := r.disturb(both, duration)
	if err != nil {
		cancel()
	}
	if err := errors.Join(err, <-ofServers); err != nil {
		return false, err
	}
	ended := monotonic.Now()
	if err := r.waitEven(ctx, settle); err != nil {
		fmt.Println("shardrace: broken:", err)
		broken = true
	}
	return r.report(faults, begun, ended) || broken, nil
}

// start starts the next process in a place of a team.
func (r *race) start(t *team, p int) error {
	t.life[p]++
	cmd, err := zkserver.Command("", workerEnv, worker{
		Ours: t.ours, Name: fmt.Sprintf("p%d.%d", p, t.life[p]), ZooKeeper: r.ensemble.Addrs(), Log: t.log,
	})
	if err != nil {
		return err
	}
	t.proc[p], err = zkserver.StartWorker(cmd)
	return err
}

func (t *team) note(word string, p int) error {
	_, err := fmt.Fprintf(t.file, "%s %d 0 p%d.%d - 0\n", word, monotonic.Now(), p, t.life[p])
	return err
}

func (r *race) closeAll() {
	var closing sync.WaitGroup
	for _, t := range r.teams {
		for _, p := range t.proc {
			if p != nil {
				closing.Go(func() { p.Close(closePatience) })
			}
		}
	}
	closing.Wait()
}

// disturb makes the faults, and mends them, until the duration is over.
func (r *race) disturb(ctx context.Context, duration time.Duration) (faults map[string]int, err error) {
	random := rand.New(rand.NewPCG(r.seed, 1))
	faults = map[string]int{}
	var mends sync.WaitGroup
	failed := make(chan error, 1024)
	var busy [processes]time.Time
	end := time.Now().Add(duration)
	for time.Now().Before(end) {
		if err := wait.Sleep(ctx, wait.Between(random, 4*time.Second, 14*time.Second)); err != nil {
			return nil, err
		}
		p, kind, lasts := random.IntN(processes), random.IntN(3), wait.Between(random, time.Second, 25*time.Second)
		down := 0
		for _, until := range busy {
			if time.Now().Before(until) {
				down++
			}
		}
		if down >= mostDown || time.Now().Before(busy[p]) {
			continue
		}
		busy[p] = time.Now().Add(lasts + time.Second)
		word := faultNames[kind]
		faults[word]++
		fmt.Printf("shardrace: %s %s of process %d, %v\n", time.Now().UTC().Format("15:04:05"), word, p, lasts.Round(time.Second))
		for _, t := range r.teams {
			mends.Go(func() {
				if err := r.fault(ctx, t, p, kind, lasts); err != nil {
					failed <- err
				}
			})
		}
		if len(failed) > 0 {
			return nil, <-failed
		}
	}
	mends.Wait()
	select {
	case err := <-failed:
		return nil, err
	default:
		return faults, nil
	}
}

// disturbServers kills, pauses or restarts one server of an ensemble after the other, until the duration
// is over. When it returns without an error, all servers run.
func (r *race) disturbServers(ctx context.Context, duration time.Duration) error {
	servers := r.ensemble.Servers()
	if len(servers) < 3 {
		return nil
	}
	random := rand.New(rand.NewPCG(r.seed, 2))
	for end := time.Now().Add(duration); ; {
		if err := wait.Sleep(ctx, wait.Between(random, 10*time.Second, 40*time.Second)); err != nil {
			return err
		}
		if time.Now().After(end) {
			return nil
		}
		i, kind, lasts := random.IntN(len(servers)), random.IntN(3), wait.Between(random, time.Second, 15*time.Second)
		server := servers[i]
		fmt.Printf("shardrace: %s %s of server %d, %v\n", time.Now().UTC().Format("15:04:05"), faultNames[kind], i, lasts.Round(time.Second))
		var err error
		switch kind {
		case 0:
			server.Kill()
			if err = wait.Sleep(ctx, lasts); err == nil {
				err = server.Restart(ctx)
			}
		case 1:
			err = errors.Join(server.Pause(), wait.Sleep(ctx, lasts), server.Resume())
		case 2:
			err = server.Restart(ctx)
		}
		if err != nil {
			return err
		}
	}
}

func (r *race) fault(ctx context.Context, t *team, p, kind int, lasts time.Duration) error {
	switch kind {
	case 0:
		t.proc[p].Close(0)
		if err := t.note(wordKilled, p); err != nil {
			return err
		}
		if err := wait.Sleep(ctx, lasts); err != nil {
			return err
		}
		return r.start(t, p)
	case 1:
		if err := errors.Join(t.proc[p].Signal(syscall.SIGSTOP), t.note(wordStopped, p)); err != nil {
			return err
		}
		if err := wait.Sleep(ctx, lasts); err != nil {
			return err
		}
		return errors.Join(t.note(wordContinued, p), t.proc[p].Signal(syscall.SIGCONT))
	}
	t.proc[p].Close(closePatience)
	if err := t.note(wordKilled, p); err != nil { // it has ended in order: this closes what a kill after the patience left
		return err
	}
	return r.start(t, p)
}

// waitEven waits until each shard has an owner in both teams, and the shares of package shard are
// even.
func (r *race) waitEven(ctx context.Context, patience time.Duration) error {
	for end := time.Now().Add(patience); ; {
		if err := wait.Sleep(ctx, time.Second); err != nil {
			return err
		}
		var wrong error
		for _, t := range r.teams {
			for p := range t.proc {
				if text := t.proc[p].Stderr(); text != "" {
					return fmt.Errorf("process %d of %s: %s", p, t.name, text)
				}
			}
			j, err := judge(t.log)
			if err != nil {
				return err
			}
			if own := j.owns(); sum(own) != shards || t.ours && (len(own) != processes || most(own) != shards/processes) {
				wrong = errors.Join(wrong, fmt.Errorf("%s: the shares are %v", t.name, own))
			}
		}
		if wrong == nil || time.Now().After(end) {
			return wrong
		}
	}
}

func sum(own map[string]int) (n int) {
	for _, o := range own {
		n += o
	}
	return n
}

func most(own map[string]int) (n int) {
	for _, o := range own {
		n = max(n, o)
	}
	return n
}

// report prints the table, and reports whether package shard broke a promise.
func (r *race) report(faults map[string]int, begun, ended monotonic.Instant) (broken bool) {
	fmt.Printf("\n%v\n\n| %d shards, %d processes | writes | of a past owner: refused | accepted | refused in time | two owners, shard seconds | none, shard seconds | longest | moves | fullest of the mean |\n|---|---|---|---|---|---|---|---|---|---|\n", faults, shards, processes)
	var longest []string
	for _, t := range r.teams {
		j, err := judgeBetween(t.log, begun, ended)
		if err != nil {
			fmt.Println(err)
			return true
		}
		n := j.numbers
		fmt.Printf("| %s | %d | %d | %d | %d | %.3f | %.1f | %.1f s | %d | %.2f |\n", t.name, n.Writes, n.Refused, n.Accepted, n.InTime,
			n.Double.Seconds(), n.None.Seconds(), n.Longest.Seconds(), n.Moves, n.Fullest)
		since := time.Now().Add(time.Duration(j.longest.since - monotonic.Now())).UTC()
		longest = append(longest, fmt.Sprintf("%s: without an owner for longest: shard %d, after %s, from %s", t.name, j.longest.shard, j.longest.owner, since.Format("15:04:05")))
		if t.ours && (n.InTime > 0 || n.Accepted > 0) {
			broken = true
		}
	}
	fmt.Printf("\n%s\n", strings.Join(longest, "\n"))
	return broken
}
