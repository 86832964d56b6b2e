package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
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
//	open ADDRESS PATH CLIENTS TIMEOUT   connect so many clients; session timeout in ms
//	free CYCLES                         the first one locks and unlocks so many times
//	handoff HOLD WINDOW                 all take turns, from when all queue; in ns
//	close                               end the sessions
//
// and answers each, when it is done, with "failed" and why, or with "ok" and
//
//	free      the time of each cycle, in ns
//	handoff   the turns in all; the time measured, in ns; the time of each handoff
//	          in it, from the call of unlock to the next holder's return, in ns
//
// The times are its own: what passes between it and us is not in them.
type process struct {
	*zkserver.Process
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer // to be read when it has ended
}

func startProcess(ctx context.Context, p *peer, addr, path string, clients int) (_ *process, err error) {
	cmd := p.program.Command()
	one := new(process)
	if one.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	one.out = bufio.NewReader(out)
	cmd.Stderr = &one.stderr
	if one.Process, err = zkserver.StartProcess(cmd); err != nil {
		return nil, err
	}
	if _, err := one.ask(ctx, "open", addr, path, clients, sessionTimeout.Milliseconds()); err != nil {
		one.Kill()
		return nil, err
	}
	return one, nil
}

// ask gives a command and returns the numbers of the answer.
func (p *process) ask(ctx context.Context, command ...any) ([]float64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*patience, fmt.Errorf("no answer in %v", 2*patience))
	defer cancel()
	defer context.AfterFunc(ctx, p.Kill)()
	if _, err := fmt.Fprintln(p.in, command...); err != nil {
		return nil, err
	}
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.Kill()
		return nil, fmt.Errorf("%s: %w: %s", command[0], errors.Join(err, context.Cause(ctx)), strings.TrimSpace(p.stderr.String()))
	}
	words := strings.Fields(line)
	if len(words) == 0 || words[0] != "ok" {
		return nil, fmt.Errorf("%s: %s", command[0], strings.TrimSpace(line))
	}
	var numbers []float64
	for _, w := range words[1:] {
		n, err := strconv.ParseFloat(w, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", command[0], err)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// close ends the sessions, so that they do not expire while something is counted,
// and the process.
func (p *process) close() error {
	defer p.Kill()
	_, err := p.ask(context.Background(), "close")
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
