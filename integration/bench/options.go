package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/lock"
)

// options has the command line's flags; omitted ones are zero.
type options struct {
	size                            size // of it, what the command line can say
	peers, workloads, run, variants string
	from, out, update               string
}

func parseOptions() *options {
	o := new(options)
	flag.BoolVar(&o.size.quick, "quick", false, "a run of seconds, to see that all works; its figures mean little")
	flag.IntVar(&o.size.rounds, "rounds", 0, "rounds of each experiment; default 5, or 2 with -quick")
	flag.IntVar(&o.size.trees, "trees", 0, "lock trees of the sweeps, in G and H; default 10,000, or 1,000 with -quick")
	flag.StringVar(&o.peers, "peers", "", "which peers take part, comma separated `names`; default all, or those that are Go alone with -quick")
	flag.StringVar(&o.workloads, "workloads", "", "which `letters`, such as AC; default all")
	flag.StringVar(&o.run, "run", "", "of these, the experiments with a title that this regular `expression` matches")
	flag.StringVar(&o.variants, "variants", "", "of the servers, comma separated `names`: standalone, delay, three; default all, or where there is a bar with -quick")
	flag.IntVar(&o.size.holds, "holds", 0, "holds of workload E; default 10,000, or 1,000 with -quick")
	flag.DurationVar(&o.size.keep, "keep", 0, "how long workload E keeps them; default 30s, or 12s with -quick")
	flag.DurationVar(&o.size.window, "window", 0, "of each round where throughput is measured; default 1s, or 100ms with -quick. A server's first seconds are slow")
	flag.StringVar(&o.from, "from", "", "measure nothing, and report the results in this `file`")
	flag.StringVar(&o.out, "o", "", "write results, tables and charts into this `directory`")
	flag.StringVar(&o.update, "update", "", "bring BENCHMARKS.md, its results and its charts in this `directory` up to date; not with a part of a run")
	flag.Parse()
	return o
}

// plan has the experiments and the peers of a run.
type plan struct {
	size        size
	peers       []*peer
	must        bool // all of them take part
	experiments []*experiment
}

// plan returns the plan of the options, or an error if they are invalid.
func (o *options) plan() (*plan, error) {
	p := &plan{size: o.withDefaults(), must: o.peers != ""}
	if err := o.check(p.size); err != nil {
		return nil, err
	}
	var err error
	if p.peers, err = choosePeers(o.peers, o.size.quick); err != nil {
		return nil, err
	}
	p.experiments, err = chooseExperiments(p.size, o.workloads, o.run, o.variants, p.peers)
	return p, err
}

// withDefaults returns the size with its defaults.
func (o *options) withDefaults() size {
	s := full
	if o.size.quick {
		s = small
	}
	s.rounds = cmp.Or(o.size.rounds, s.rounds)
	s.holds = cmp.Or(o.size.holds, s.holds)
	s.keep = cmp.Or(o.size.keep, s.keep)
	s.trees = cmp.Or(o.size.trees, s.trees)
	s.window = cmp.Or(o.size.window, s.window)
	return s
}

func (o *options) check(s size) error {
	switch {
	case s.rounds < 1:
		return fmt.Errorf("-rounds %d: must be at least 1", s.rounds)
	case s.holds < 1 || s.keep/time.Duration(s.rounds) < lock.MinTTL:
		return fmt.Errorf("-holds %d -keep %v: must be at least one hold, for %v in each round", s.holds, s.keep, lock.MinTTL)
	case s.window < time.Millisecond || s.window > time.Minute:
		return fmt.Errorf("-window %v: must be from 1ms to 1m", s.window)
	case s.trees < 1:
		return fmt.Errorf("-trees %d: must be at least 1", s.trees)
	case flag.NArg() > 0:
		return fmt.Errorf("unknown argument %q", flag.Arg(0))
	case o.update != "" && (s.quick || o.peers+o.workloads+o.run+o.variants != ""):
		return errors.New("-update: what is published is a run of everything, without -quick, -peers, -workloads, -run and -variants")
	}
	return nil
}
