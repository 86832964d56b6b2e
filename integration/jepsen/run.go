package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

const (
	clients        = 5
	warmUp         = 3 * time.Second // from the clients' start until faults come
	calmDown       = 3 * time.Second // from the last fault to the clients' end
	finishPatience = 90 * time.Second
	artifacts      = "../artifacts" // where the evidence of a broken promise is kept
)

// system is one of the systems, with its servers and clients.
type system struct {
	name    string
	seed    uint64
	dir     string
	cluster cluster
	stores  *Stores
	listen  io.Closer
	clients []*client
	history history
	stuck   []string // clients that did not end in time

	mu   sync.Mutex
	died []string // clients that ended by themselves
}

// client is the controller's side of one client. The client has one process at a time, and a new
// process after each kill.
type client struct {
	system *system
	config workerConfig
	relays zkserver.Relays // to each of the servers
	worker *zkserver.Worker
	killed *atomic.Bool
	lives  sync.WaitGroup
}

// run runs all systems with faults for the duration, and returns the results.
func run(ctx context.Context, seed uint64, duration time.Duration, out io.Writer) (_ *result, err error) {
	dir, err := os.MkdirTemp("", "holdfast-jepsen-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	all := make([]*system, len(systems))
	for i, name := range systems {
		all[i] = &system{name: name, seed: seed, dir: filepath.Join(dir, fmt.Sprint(i)), stores: newStores()}
	}
	defer func() { err = errors.Join(err, wait.All(len(all), func(i int) error { return all[i].close() })) }()
	if err := wait.All(len(all), func(i int) error { return all[i].start(ctx) }); err != nil {
		return nil, err
	}
	version, err := all[0].cluster.(*zkCluster).Servers()[0].Version(ctx)
	if err != nil {
		return nil, err
	}
	r := &result{Seed: seed, Duration: duration, ZooKeeper: version.String(), Etcd: all[len(all)-1].cluster.(*etcdCluster).version}
	fmt.Fprintf(out, "jepsen: seed %d, %v of faults, ZooKeeper %s, etcd %s, TTL %v\n", seed, duration, r.ZooKeeper, r.Etcd, ttl)
	if err := wait.Sleep(ctx, warmUp); err != nil {
		return nil, err
	}
	start := monotonic.Now()
	r.Faults, err = disturb(ctx, all, seed, duration, out)
	stop := monotonic.Now()
	if err != nil {
		return nil, err
	}
	if err := wait.Sleep(ctx, calmDown); err != nil {
		return nil, err
	}
	if err := wait.All(len(all), func(i int) error { return all[i].finish(ctx) }); err != nil {
		return nil, err
	}
	for _, s := range all {
		for _, w := range offers(s.name) {
			var own []record
			for _, rec := range s.history.records {
				if rec.Workload == w {
					own = append(own, rec)
				}
			}
			r.Rows = append(r.Rows, *judge(s.name, w, own, s.stores.byWorkload[w], start, stop))
		}
		if s.name == holdfast {
			r.stuck = append(s.stuck, s.died...)
		} else if len(s.stuck)+len(s.died) > 0 {
			fmt.Fprintf(out, "jepsen: %s: %s\n", s.name, strings.Join(append(s.stuck, s.died...), "; "))
		}
	}
	found, err := all[0].cluster.(*zkCluster).audit(ctx)
	if err != nil {
		fmt.Fprint(out, "\n", table([]result{*r})) // show the results of a long run although the audit failed
		return nil, err
	}
	r.Audit = auditResult{Txns: found.Txns, Judged: found.Total()}
	for _, v := range found.Violations {
		r.Audit.Violations = append(r.Audit.Violations, v.String())
	}
	if len(r.broken()) > 0 {
		dir, err := all[0].keep()
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(out, "jepsen: Holdfast's history and its servers' logs are in %s\n", dir)
	}
	for _, v := range r.Rows {
		for _, e := range v.examples {
			fmt.Fprintln(out, "jepsen: violation:", e)
		}
	}
	return r, nil
}

// keep copies the history and the servers' transaction logs to a folder below artifacts, and
// returns the folder.
func (s *system) keep() (string, error) {
	dir := filepath.Join(artifacts, fmt.Sprintf("jepsen-%d", s.seed))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	var lines bytes.Buffer
	for _, r := range s.history.records {
		if err := json.NewEncoder(&lines).Encode(r); err != nil {
			return "", err
		}
	}
	err := os.WriteFile(filepath.Join(dir, "history.jsonl"), lines.Bytes(), 0o644)
	for i, server := range s.cluster.(*zkCluster).Servers() {
		to := filepath.Join(dir, fmt.Sprintf("server-%d", i+1), "version-2")
		err = errors.Join(err, os.RemoveAll(to), os.CopyFS(to, os.DirFS(server.DataDir())))
	}
	return dir, err
}

// start starts the servers and then the clients.
func (s *system) start(ctx context.Context) (err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	if s.name == etcd {
		c, err := startEtcd(ctx, s.dir)
		if err != nil {
			return err
		}
		s.cluster = c
	} else {
		c, err := startZooKeeper(ctx, s.dir)
		if err != nil {
			return err
		}
		s.cluster = c
	}
	socket := filepath.Join(s.dir, "store")
	if s.listen, err = s.stores.serve(socket); err != nil {
		return err
	}
	for i := range clients {
		c := &client{system: s, config: workerConfig{System: s.name, Seed: s.seed, Index: i, Store: socket}}
		s.clients = append(s.clients, c)
		if c.relays, err = zkserver.NewRelays(s.cluster.addrs(), zkserver.RelayOptions{}); err != nil {
			return err
		}
		c.config.Servers = c.relays.Addrs()
		if err := c.start(); err != nil {
			return err
		}
	}
	return nil
}

// finish closes the clients' input and waits until they have ended. It kills clients that do not
// end in time.
func (s *system) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, finishPatience)
	defer cancel()
	for _, c := range s.clients {
		c.worker.EndInput()
	}
	for _, c := range s.clients {
		select {
		case <-c.worker.Exited():
		case <-ctx.Done():
			s.stuck = append(s.stuck, fmt.Sprintf("%s of %s did not end", c.config.name(), s.name))
			c.killed.Store(true)
			c.worker.Kill()
		}
		c.lives.Wait()
	}
	return nil
}

// close kills the clients, and closes the store and the servers.
func (s *system) close() (err error) {
	for _, c := range s.clients {
		if c.worker != nil {
			err = errors.Join(err, c.kill())
		}
		c.relays.Close()
	}
	if s.listen != nil {
		err = errors.Join(err, s.listen.Close())
	}
	if s.cluster != nil {
		err = errors.Join(err, s.cluster.stop())
	}
	return err
}

// start starts the client's next process.
func (c *client) start() error {
	c.config.Life++
	cmd, err := zkserver.Command("", workerEnv, c.config)
	if err != nil {
		return err
	}
	w, err := zkserver.StartWorker(cmd)
	if err != nil {
		return err
	}
	name, killed := c.config.name(), new(atomic.Bool)
	c.worker, c.killed = w, killed
	c.lives.Go(func() {
		err := zkserver.HearAll(w, c.system.history.add)
		<-w.Exited()
		if !killed.Load() && (err != nil || w.Err() != nil) {
			c.system.mu.Lock()
			defer c.system.mu.Unlock()
			c.system.died = append(c.system.died, fmt.Sprintf("%s of %s ended: %v: %s", name, c.system.name, errors.Join(err, w.Err()), w.Stderr()))
		}
		w.Close(0)
	})
	return nil
}

func (c *client) kill() error {
	c.killed.Store(true)
	c.worker.Kill()
	c.lives.Wait()
	return nil
}

// part holds back all messages between the client and the servers.
func (c *client) part() error {
	for _, r := range c.relays {
		r.Stall()
	}
	return nil
}

func (c *client) rejoin() error {
	for _, r := range c.relays {
		r.Resume()
	}
	return nil
}
