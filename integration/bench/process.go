package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

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

// process is a peer in another process and another language, whose clients share one lock. It reads
// commands from standard input:
//
//	open ADDRESSES PATH CLIENTS TIMEOUT   connect the clients, distributed over the addresses; session timeout in ms
//	free CYCLES                           the first client locks and unlocks that many times
//	handoff HOLD WINDOW                   all clients take turns; measure once all queue; in ns
//	close                                 end the sessions; another open may follow
//
// It answers each completed command with "failed" and a reason, or with "ok" and
//
//	free      the duration of each cycle, in ns
//	handoff   the measured time, in ns; the share of its handoffs that went to another
//	          client; the duration of each handoff in ns, from the call of unlock to
//	          the return of the next holder's lock
//
// During a handoff it prints "mark" when the measured time begins and when it ends. The process
// takes the times itself, so that they do not include the pipe.
type process struct {
	*zkserver.Worker
	task
	bytesOut, bytesIn float64 // for each cycle or handoff
}

// task is the work of a process in a turn.
type task struct {
	command []any
	handoff bool // the process marks the measured time; false: the whole command is measured
	warmUp  int  // cycles of a free lock before the first turn
	figures func(performance) turn
}

// performance has the results of a turn.
type performance struct {
	times  []float64 // duration of each cycle or handoff, in seconds
	each   cost      // cost of a cycle or handoff
	took   float64   // whole time, in seconds
	passed float64   // share of the handoffs that went to another client
	held   float64   // average number of holders
}

// startProcess starts a peer's process and connects its clients. It first runs the task once to
// count the bytes.
func startProcess(ctx context.Context, s *site, p *peer, clients int, t task) (_ trial, err error) {
	one := &process{task: t}
	if one.Worker, err = zkserver.StartWorker(p.program.Command(p.args...)); err != nil {
		return trial{}, err
	}
	path := s.newPath()
	if err = one.weigh(ctx, s.on, path, clients); err == nil {
		err = one.open(ctx, s.at, path, clients)
	}
	if err == nil && t.warmUp > 0 {
		_, err = one.ask(ctx, nil, "free", t.warmUp)
	}
	if err != nil {
		one.Close(0)
		return trial{}, err
	}
	return trial{close: one.close, round: func(ctx context.Context) (turn, error) {
		done, err := one.measure(ctx, s.spentByAll)
		if err != nil {
			return nil, err
		}
		done.each.out, done.each.in = one.bytesOut, one.bytesIn
		return t.figures(done), nil
	}}, nil
}

func (p *process) open(ctx context.Context, addr, path string, clients int) error {
	_, err := p.ask(ctx, nil, "open", addr, path, clients, sessionTimeout.Milliseconds())
	return err
}

// weigh runs the task once through relays, and counts the bytes on the wire. Timed turns use no
// relays.
func (p *process) weigh(ctx context.Context, on *server, path string, clients int) error {
	var meter zkserver.Meter
	relays, err := on.relays(zkserver.RelayOptions{Dialer: meter.Dial})
	if err != nil {
		return err
	}
	defer relays.Close()
	if err := p.open(ctx, strings.Join(relays.Addrs(), ","), path, clients); err != nil {
		return err
	}
	if _, err := p.ask(ctx, nil, "free", 1); err != nil { // the nodes that the first cycle creates must not count
		return err
	}
	done, err := p.measure(ctx, func(context.Context) (cost, error) {
		n := meter.Counts()
		return cost{out: float64(n.BytesOut), in: float64(n.BytesIn)}, nil
	})
	if err != nil {
		return err
	}
	p.bytesOut, p.bytesIn = done.each.out, done.each.in
	_, err = p.ask(ctx, nil, "close")
	return err
}

// measure runs the process's task once and returns the results. It calls spent for the cost so far,
// at the beginning and at the end of the measured time.
func (p *process) measure(ctx context.Context, spent func(context.Context) (cost, error)) (done performance, err error) {
	var costs []cost
	mark := func() error {
		c, err := spent(ctx)
		costs = append(costs, c)
		return err
	}
	var answer []float64
	if p.handoff {
		answer, err = p.ask(ctx, mark, p.command...)
	} else if err = mark(); err == nil {
		if answer, err = p.ask(ctx, nil, p.command...); err == nil {
			err = mark()
		}
	}
	switch {
	case err != nil:
		return done, err
	case p.handoff && len(answer) < 3:
		return done, errors.New("the lock was not handed on")
	case len(costs) != 2:
		return done, fmt.Errorf("it marked %d moments, not the beginning and the end", len(costs))
	}
	if p.handoff {
		done.took, done.passed, answer = answer[0]/1e9, answer[1], answer[2:]
	}
	for _, ns := range answer {
		done.times = append(done.times, ns/1e9)
	}
	done.each = costs[1].per(len(done.times), costs[0])
	return done, nil
}

// ask sends a command, calls mark for each "mark", and returns the numbers after "ok". Any other
// answer is an error.
func (p *process) ask(ctx context.Context, mark func() error, command ...any) ([]float64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*patience, fmt.Errorf("no answer in %v", 2*patience))
	defer cancel()
	if err := p.Tell(command...); err != nil {
		return nil, err
	}
	var failed error
	for {
		line, err := p.Hear(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", command[0], err)
		}
		words := strings.Fields(line.Text)
		switch {
		case len(words) == 1 && words[0] == "mark" && mark != nil:
			failed = errors.Join(failed, mark())
		case len(words) > 0 && words[0] == "ok":
			var numbers []float64
			for _, w := range words[1:] {
				n, err := strconv.ParseFloat(w, 64)
				failed = errors.Join(failed, err)
				numbers = append(numbers, n)
			}
			if failed != nil {
				return nil, fmt.Errorf("%s: %w", command[0], failed)
			}
			return numbers, nil
		default:
			return nil, fmt.Errorf("%s: %s", command[0], strings.TrimSpace(line.Text))
		}
	}
}

// close ends the sessions, and then the process. Without the first step the sessions would expire
// later and change the counts.
func (p *process) close() error {
	defer p.Close(0)
	_, err := p.ask(context.Background(), nil, "close")
	return err
}
