package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

const (
	clients        = 5 // of each system
	calmDown       = 3 * time.Second
	finishPatience = 90 * time.Second
)

// artifacts is the folder in which the evidence of a broken promise is kept.
var artifacts = "../artifacts"

// settings are those of a run.
type settings struct {
	Kind     string
	Seed     uint64
	Duration time.Duration
	Servers  int
}

// run is a run of the locks or the ticks.
type run struct {
	settings
	out     io.Writer
	dir     string
	given   []string // addresses of ZooKeeper servers to use, for tests; nil: the run starts its own
	systems []*system
}

// system is one of the systems that are compared, with its clients. It may have servers of its own.
type system struct {
	name    string
	ctx     context.Context
	dir     string
	cluster cluster // nil: it has no servers of its own
	stores  *Stores
	listen  io.Closer // where the stores are served
	clients []*crew.Client
	history crew.History[record]

	mu   sync.Mutex
	died []string // clients that ended by themselves, or not at all
}

func (r *run) say(format string, args ...any) {
	fmt.Fprintf(r.out, "compare: "+time.Now().UTC().Format("15:04:05 ")+format+"\n", args...)
}

// soFar tells how much each system has done.
func (r *run) soFar() string {
	var all []string
	for _, s := range r.systems {
		if len(s.clients) > 0 {
			all = append(all, fmt.Sprintf("%s %d", s.name, s.history.Count(func(rec record) bool { return rec.Op == opGrant || rec.Word != "" })))
		}
	}
	return strings.Join(all, ", ")
}

// begin makes the run's folder and systems. The caller must call end, also after an error.
func (r *run) begin(ctx context.Context, names []string) (err error) {
	r.say("%s, seed %d, %v, %d servers: %s", r.Kind, r.Seed, r.Duration, r.Servers, strings.Join(names, "; "))
	if r.dir, err = os.MkdirTemp("", "holdfast-compare-"); err != nil {
		return err
	}
	for i, name := range names {
		s := &system{name: name, ctx: ctx, dir: filepath.Join(r.dir, fmt.Sprint(i))}
		if err := os.Mkdir(s.dir, 0o700); err != nil {
			return err
		}
		r.systems = append(r.systems, s)
	}
	return nil
}

// end kills the clients, stops the servers, and removes the run's folder.
func (r *run) end() error {
	err := wait.All(len(r.systems), func(i int) (err error) {
		s := r.systems[i]
		for _, c := range s.clients {
			c.Close()
		}
		if s.listen != nil {
			err = s.listen.Close()
		}
		if s.cluster != nil {
			err = errors.Join(err, s.cluster.stop())
		}
		return err
	})
	return errors.Join(err, os.RemoveAll(r.dir))
}

// join starts the system's clients. command makes the command of a client's next process, with its
// relays to the servers.
func (s *system) join(servers []string, command func(index, life int, relays []string) (*exec.Cmd, error)) error {
	for i := range clients {
		c := &crew.Client{
			Hear: func(w *zkserver.Worker) error { return zkserver.HearAll(w, s.history.Add) },
			Gone: func(life int, err error) { s.fault("client %d.%d of %s ended: %v", i, life, s.name, err) },
		}
		s.clients = append(s.clients, c)
		var err error
		if c.Relays, err = zkserver.NewRelays(servers, zkserver.RelayOptions{}); err != nil {
			return err
		}
		addrs := c.Relays.Addrs()
		c.Command = func(life int) (*exec.Cmd, error) { return command(i, life, addrs) }
		if err := c.Start(); err != nil {
			return err
		}
	}
	return nil
}

func (s *system) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.died = append(s.died, fmt.Sprintf(format, args...))
}

// awaitWork waits until each system has done something.
func (r *run) awaitWork(ctx context.Context) error {
	return wait.Until(ctx, startPatience, "all systems work", func() (bool, error) {
		idle := slices.ContainsFunc(r.systems, func(s *system) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.clients) > 0 && len(s.history.All()) == 0 && len(s.died) == 0
		})
		return !idle, ctx.Err()
	})
}

// finish closes the clients' input and waits until they have ended. It kills clients that do not end
// in time. It returns the faults of Holdfast's clients, and prints those of the others.
func (r *run) finish(ctx context.Context) (ofOurs []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, finishPatience)
	defer cancel()
	for _, s := range r.systems {
		for _, c := range s.clients {
			c.EndInput()
		}
	}
	for _, s := range r.systems {
		for i, c := range s.clients {
			if !c.Finish(ctx) {
				s.fault("client %d of %s did not end", i, s.name)
			}
		}
		if ours(s.name) {
			ofOurs = append(ofOurs, s.died...)
		} else if len(s.died) > 0 {
			r.say("%s", strings.Join(s.died, "; "))
		}
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, context.Cause(ctx)
	}
	return ofOurs, nil
}

// keep copies the histories, and the servers' transaction logs of Holdfast, to a folder below
// artifacts.
func (r *run) keep() error {
	dir := filepath.Join(artifacts, fmt.Sprintf("compare-%s-%d", r.Kind, r.Seed))
	for i, s := range r.systems {
		own := filepath.Join(dir, fmt.Sprint(i))
		if err := os.MkdirAll(own, 0o755); err != nil {
			return err
		}
		f, err := os.Create(filepath.Join(own, "history.jsonl"))
		if err != nil {
			return err
		}
		err = errors.Join(s.history.Write(f), f.Close())
		if zk, ok := s.cluster.(*zkCluster); ok {
			err = errors.Join(err, crew.KeepLogs(zk.Servers(), own))
		}
		if err != nil {
			return err
		}
	}
	r.say("the histories and the servers' logs are in %s", dir)
	return nil
}
