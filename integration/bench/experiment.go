package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// experiment is one workload under one condition, and one table.
type experiment struct {
	workload string // its letter
	title    string
	figures  []figure
	bars     []bar
	turns    int // of each peer in a round, where they are short; 0: one
	takes    func(p *peer) bool
	prepare  func(ctx context.Context, b *bench, p *peer) (trial, error)
}

// trial is a peer's part in an experiment: connected, warm and ready.
type trial interface {
	// round measures once and returns the experiment's figures, in their order.
	round(ctx context.Context) ([]float64, error)
	close() error
}

// figure is a column of a table.
type figure struct {
	title  string
	format func(float64) string
}

func decimals(v float64) string     { return fmt.Sprintf("%.2f", v) }
func perSecond(v float64) string    { return fmt.Sprintf("%.0f/s", v) }
func kilobytes(v float64) string    { return fmt.Sprintf("%.2f kB", v/1000) }
func milliseconds(v float64) string { return fmt.Sprintf("%.3f ms", v*1000) } // of seconds

// bar is what Holdfast's median must reach, of a figure as such or of its ratio to
// a peer's.
type bar struct {
	figure  int    // index
	against string // name of a peer; "": none
	least   bool   // the limit is the least, and otherwise the most
	limit   float64
	counted bool // does not depend on how fast or busy the machine is
}

func all(*peer) bool       { return true }
func locks(p *peer) bool   { return !p.bare }
func goPeers(p *peer) bool { return p.open != nil }
func goLocks(p *peer) bool { return p.open != nil && !p.bare }

// tries takes the peers that can try a lock without waiting.
func tries(p *peer) bool { return p.name == holdfastName }

// experiments returns all there are.
func experiments(s size) []*experiment {
	list := []*experiment{
		free("free lock, one client, loopback", func(b *bench) string { return b.server.Addr() },
			bar{figure: 0, against: zkLockName, limit: 0.90}, bar{figure: 0, against: bareName, limit: 1.15}, bar{figure: 0, against: curatorName, limit: 0.85},
			bar{figure: 1, limit: 2, counted: true}, bar{figure: 2, limit: 2, counted: true}),
		free(fmt.Sprintf("free lock, one client, %v more for each round trip", roundTrip), func(b *bench) string { return b.far.addr() },
			bar{figure: 0, against: zkLockName, limit: 0.72}),
		many(64, bar{figure: 0, against: zkLockName, least: true, limit: 1.2}),
	}
	for _, hold := range []time.Duration{2 * time.Millisecond, 0} {
		for _, n := range s.queues {
			bars := []bar{{figure: 0, against: zkLockName, least: true, limit: 1}}
			if hold > 0 {
				bars = []bar{{figure: 1, against: zkLockName, limit: 0.60}}
			}
			if hold > 0 && n >= 16 {
				bars = append(bars, bar{figure: 3, limit: 2000, counted: true})
			}
			list = append(list, handoff(n, hold, bars...))
		}
	}
	return append(list,
		drain(s.drained, bar{figure: 2, against: zkLockName, limit: 0.25, counted: s.drained >= 1000}, bar{figure: 1, against: zkLockName, limit: 0.80}),
		keep(s.holds, s.keep, s.rounds,
			bar{figure: 0, limit: 1024, counted: s.holds >= 10_000}, bar{figure: 1, limit: 0, counted: s.holds >= 10_000}, bar{figure: 2, least: true, limit: 50, counted: true}),
		tryLock(bar{figure: 1, limit: 3, counted: true}, bar{figure: 2, limit: 0, counted: true}))
}

// cost is what the server and the clients have counted up to a moment.
type cost struct {
	zxid   int64
	client zkserver.Counts
}

// spent tells what has been spent so far: transactions, and what those sessions
// have counted. Nothing else may use the server between two calls.
func (b *bench) spent(ctx context.Context, sessions ...session) (cost, error) {
	zxid, err := b.server.Zxid(ctx)
	c := cost{zxid: zxid}
	for _, s := range sessions {
		n := s.counts()
		c.client.Requests += n.Requests
		c.client.PacketsOut += n.PacketsOut
		c.client.PacketsIn += n.PacketsIn
		c.client.BytesOut += n.BytesOut
		c.client.BytesIn += n.BytesIn
	}
	return c, err
}

// spentByAll tells what has been spent so far as far as the server knows:
// transactions, and requests of all clients, their pings included. The server
// counts our questions too; those are taken off.
func (b *bench) spentByAll(ctx context.Context) (cost, error) {
	c, err := b.spent(ctx)
	if err != nil {
		return c, err
	}
	stats, err := b.server.Mntr(ctx)
	if err != nil {
		return c, err
	}
	c.client.Requests, err = strconv.ParseInt(stats["zk_packets_received"], 10, 64)
	c.client.Requests -= b.questions
	b.questions += 2 // srvr and mntr
	return c, err
}

// per is what was spent since an earlier moment, for each of n.
func (c cost) per(n int, since cost) (requests, transactions, bytesOut, bytesIn float64) {
	each := func(now, then int64) float64 { return float64(now-then) / float64(n) }
	return each(c.client.Requests, since.client.Requests), each(c.zxid, since.zxid),
		each(c.client.BytesOut, since.client.BytesOut), each(c.client.BytesIn, since.client.BytesIn)
}
