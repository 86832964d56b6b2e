package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/integration/foreign"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

//go:embed peers/CuratorBench.java
var curatorBench []byte

//go:embed peers/kazoo_bench.py
var kazooBench []byte

func setUpCurator(ctx context.Context, dir string) (foreign.Program, error) {
	return foreign.Curator(ctx, dir, "CuratorBench", curatorBench)
}

func setUpKazoo(ctx context.Context, dir string) (foreign.Program, error) {
	return foreign.Kazoo(ctx, dir, "kazoo_bench.py", kazooBench)
}

// process is a peer in a process of its own, in its own language, with clients
// that share one lock. It does what the lines on its standard input say:
//
//	open ADDRESSES PATH CLIENTS TIMEOUT   connect so many clients, which take the addresses in turn; session timeout in ms
//	free CYCLES                           the first one locks and unlocks so many times
//	handoff HOLD WINDOW                   all take turns; measured from when all queue; in ns
//	close                                 end the sessions; then it may be told to open others
//
// and answers each, when it is done, with "failed" and why, or with "ok" and
//
//	free      the time of each cycle, in ns
//	handoff   the time measured, in ns; the share of handoffs in it that went to
//	          another client; the time of each, from the call of unlock to the next
//	          holder's return, in ns
//
// Before that, handoff says "mark" when the time measured begins, and when it
// ends. The times are its own: what passes between it and us is not in them.
type process struct {
	*zkserver.Worker
	what              measured
	bytesOut, bytesIn float64 // of each cycle or handoff
}

// measured has a process do what is measured. It calls count when that begins and
// when it ends.
type measured func(ctx context.Context, p *process, count func() error) (performance, error)

type performance struct {
	times  []float64 // of the cycles or handoffs; in seconds
	took   float64   // all in all; in seconds
	passed float64   // share of the handoffs that went to another client
}

// cycles are those of a free lock.
func cycles(n int) measured {
	return func(ctx context.Context, p *process, count func() error) (performance, error) {
		if err := count(); err != nil {
			return performance{}, err
		}
		times, err := p.ask(ctx, nil, "free", n)
		if err != nil {
			return performance{}, err
		}
		return performance{times: seconds(times)}, count()
	}
}

// handoffs are those of clients that take turns.
func handoffs(hold, window time.Duration) measured {
	return func(ctx context.Context, p *process, count func() error) (performance, error) {
		answer, err := p.ask(ctx, count, "handoff", hold.Nanoseconds(), window.Nanoseconds())
		if err != nil {
			return performance{}, err
		}
		if len(answer) < 3 {
			return performance{}, errors.New("the lock was not handed on")
		}
		return performance{took: answer[0] / 1e9, passed: answer[1], times: seconds(answer[2:])}, nil
	}
}

// startProcess starts the process of a peer, has it do once what is to be
// measured, to count the bytes, and connects its clients.
func startProcess(ctx context.Context, b *bench, p *peer, path string, clients int, what measured) (_ *process, err error) {
	one := &process{what: what}
	if one.Worker, err = zkserver.StartWorker(p.program.Command(p.args...)); err != nil {
		return nil, err
	}
	err = one.weigh(ctx, b, path, clients)
	if err == nil {
		err = one.open(ctx, b.at, path, clients)
	}
	if err != nil {
		one.Close(0)
		return nil, err
	}
	return one, nil
}

func (p *process) open(ctx context.Context, addr, path string, clients int) error {
	_, err := p.ask(ctx, nil, "open", addr, path, clients, sessionTimeout.Milliseconds())
	return err
}

// weigh counts the bytes that pass, with relays in their way, which nothing that
// is timed has.
func (p *process) weigh(ctx context.Context, b *bench, path string, clients int) error {
	var meter zkserver.Meter
	relays, err := relays(b.on, zkserver.RelayOptions{Dialer: meter.Dial})
	if err != nil {
		return err
	}
	defer relays.Close()
	if err := p.open(ctx, strings.Join(relays.Addrs(), ","), path, clients); err != nil {
		return err
	}
	if _, err := p.ask(ctx, nil, "free", 1); err != nil { // makes what stays
		return err
	}
	done, before, after, err := p.measure(ctx, func() (cost, error) { return cost{client: meter.Counts()}, nil })
	if err != nil {
		return err
	}
	_, _, p.bytesOut, p.bytesIn = after.per(len(done.times), before)
	_, err = p.ask(ctx, nil, "close")
	return err
}

// measure measures once, and returns what was spent before and after it.
func (p *process) measure(ctx context.Context, spent func() (cost, error)) (done performance, before, after cost, err error) {
	var costs []cost
	done, err = p.what(ctx, p, func() error {
		c, err := spent()
		costs = append(costs, c)
		return err
	})
	if err == nil && len(costs) != 2 {
		err = fmt.Errorf("it marked %d moments, not the beginning and the end", len(costs))
	}
	if err != nil {
		return done, before, after, err
	}
	return done, costs[0], costs[1], nil
}

// ask gives a command, calls mark for each mark, and returns the numbers of the
// answer.
func (p *process) ask(ctx context.Context, mark func() error, command ...any) ([]float64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*patience, fmt.Errorf("no answer in %v", 2*patience))
	defer cancel()
	if err := p.Tell(command...); err != nil {
		return nil, err
	}
	var marking error
	for {
		line, err := p.Hear(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", command[0], err)
		}
		words := strings.Fields(line.Text)
		switch {
		case len(words) == 1 && words[0] == "mark" && mark != nil:
			marking = errors.Join(marking, mark())
		case len(words) > 0 && words[0] == "ok":
			numbers, err := parse(words[1:])
			if err = errors.Join(err, marking); err != nil {
				return nil, fmt.Errorf("%s: %w", command[0], err)
			}
			return numbers, nil
		default:
			return nil, fmt.Errorf("%s: %s", command[0], strings.TrimSpace(line.Text))
		}
	}
}

func parse(words []string) ([]float64, error) {
	var numbers []float64
	for _, w := range words {
		n, err := strconv.ParseFloat(w, 64)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// close ends the sessions, so that they do not expire while something is counted,
// and the process.
func (p *process) close() error {
	defer p.Close(0)
	_, err := p.ask(context.Background(), nil, "close")
	return err
}

// seconds are the times in seconds of those in nanoseconds.
func seconds(ns []float64) []float64 {
	var s []float64
	for _, n := range ns {
		s = append(s, n/float64(time.Second))
	}
	return s
}
