package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/peers"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock/znode"
)

const (
	// flapTimeout is the session timeout that all clients of flaps request. It is also Holdfast's short
	// TTL, so that a crash blocks other clients hardly longer than ephemeral nodes do.
	flapTimeout = 6 * time.Second
	// flapPatience is the limit of a wait that should end much earlier.
	flapPatience = 30 * time.Second
	stallTime    = 15 * time.Second
)

// contender is a lock in the comparison of flaps.
type contender struct {
	asked string        // call of its API that says whether the lock is held; "": there is none
	rides bool          // its lease outlives all faults: the holder must keep the lock
	ttl   time.Duration // TTL of Holdfast's entries
	setUp func(ctx context.Context, dir string) (peers.Program, error)
}

var flapPeers = []peer{
	{name: "Holdfast, TTL 6 s", servers: startZooKeeper, flaps: contender{asked: "Remaining() > 0", ttl: flapTimeout, setUp: peers.Holdfast}},
	{name: "Holdfast, TTL 30 s", flaps: contender{asked: "Remaining() > 0", rides: true, ttl: 30 * time.Second, setUp: peers.Holdfast}},
	{name: "zk.Lock", flaps: contender{setUp: peers.ZKLock}},
	{name: "Curator", flaps: contender{asked: "isAcquiredInThisProcess()", setUp: peers.Curator}},
	{name: "kazoo", flaps: contender{asked: "is_acquired", setUp: peers.Kazoo}},
}

// scenario is what a trial plays with the clients of a lock.
type scenario struct {
	name, title string
	head        []string // titles of the columns
	play        func(ctx context.Context, t *trial) ([]any, breaches)
}

var pairHead = []string{"lock", "second in", "first warned", "first told", "both in", "first's library, as the second came in", "first's Unlock"}

var scenarios = []scenario{
	{"stall", "**The holder's connection is stalled for 15 s**", pairHead, func(ctx context.Context, t *trial) ([]any, breaches) {
		return t.pair(ctx, stallTime+5*time.Second, func(holder *peers.Client) error { // time to reconnect, too
			holder.Relay.Stall()
			time.AfterFunc(stallTime, holder.Relay.Resume)
			return nil
		}).judge()
	}},
	{"kill", "**The server ends the holder's session**", pairHead, func(ctx context.Context, t *trial) ([]any, breaches) {
		return t.pair(ctx, 2*flapTimeout, func(holder *peers.Client) error { // longer than the session timeout, and than a TTL of 6 s with the grace
			return holder.Tap.Expire(ctx, t.server)
		}).judge()
	}},
	{"cuts", "**17 clients take turns, and the connections of 16 are cut four times, while their sessions survive**",
		[]string{"lock", "queue", "longest pause", "Lock failed", "Unlock failed", "two in at once"}, cut},
}

// trial is a round of a scenario with one lock.
type trial struct {
	peer
	round   int
	server  string
	look    *zk.Conn // for reads
	path    string   // of the lock
	process *peers.Peer
}

// failure is why a scenario could not be carried out. check panics with it.
type failure struct{ error }

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

// unless calls do, and returns the error for which check ended it.
func unless(do func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			failed, ok := v.(failure)
			if !ok {
				panic(v)
			}
			err = failed.error
		}
	}()
	do()
	return nil
}

// play plays the scenarios, one lock at a time, each in rounds until the duration is over. Only what
// Holdfast breaks counts as broken.
func (r *run) play(ctx context.Context) error {
	server := r.systems[0].Servers.Addrs()[0]
	look, _, err := zkserver.Connect(ctx, []string{server}, flapTimeout, nil)
	if err != nil {
		return err
	}
	defer look.Close()
	for _, s := range r.scenarios {
		r.tables = append(r.tables, table{title: s.title, head: s.head})
	}
	for _, p := range r.peers {
		program, absent := p.flaps.setUp(ctx, r.dir)
		r.versions[program.Version] = true
		for i, s := range r.scenarios {
			for round, start := 1, time.Now(); round == 1 || time.Since(start) < r.duration; round++ {
				t := &trial{peer: p, round: round, server: server, look: look, path: fmt.Sprintf("/flaps/%s-%d", s.name, len(r.tables[i].rows))}
				var cells []any
				var wrong breaches
				err := unless(func() {
					check(absent)
					t.process = must(peers.Start(program.Command(peers.Terms{SessionTimeout: flapTimeout, TTL: p.flaps.ttl}), func(string) {}))
					defer t.process.Close()
					cells, wrong = s.play(ctx, t)
				})
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if err != nil {
					cells, wrong = []any{"not measured: " + err.Error()}, breaches{"could not be carried out: " + err.Error()}
				}
				name := fmt.Sprintf("%s, round %d", p.name, round)
				r.say("%s, %s: %v", s.name, name, cells)
				r.tables[i].add(append([]any{strings.TrimSuffix(name, ", round 1")}, cells...)...)
				for _, w := range wrong {
					r.broken.add(p.ours(), "%s, %s: %s", s.name, name, w)
				}
			}
		}
	}
	return nil
}

func (t *trial) open(ctx context.Context, n int) (clients []*peers.Client) {
	for range n {
		clients = append(clients, must(t.process.Open(ctx, t.server, t.path, peers.Mutex)))
	}
	return clients
}

func session(c *peers.Client) (id int64) {
	id, _, _ = c.Tap.Session()
	return id
}

// seconds formats a duration for the tables.
func seconds(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// pairRun has the observations of two clients. The first held the lock when the fault happened, and
// the second waited for it.
type pairRun struct {
	contender
	struck       time.Time
	in           time.Time     // time at which the second client got the lock; zero: never
	held         string        // answer of the first client's library at that time: whether it holds the lock
	warned, told zkserver.Line // first warning and first report of a loss by the first client's library since the fault; zero: none
	unlocked     time.Time     // time at which the first client unlocked
	unlock       string        // answer to the first client's unlock command
	left         string        // answer to the second client's unlock command
}

// pair strikes a client that holds the lock and works on for a time, while another one waits.
func (t *trial) pair(ctx context.Context, works time.Duration, strike func(holder *peers.Client) error) *pairRun {
	r := &pairRun{contender: t.flaps}
	clients := t.open(ctx, 2)
	first, second := clients[0], clients[1]
	check(first.Must(ctx, "lock"))
	coming := must(second.Tell("lock"))
	check(wait.Until(ctx, flapPatience, "the second waits", func() (bool, error) {
		children, _, err := t.look.Children(t.path)
		return len(znode.Contenders(children)) == 2, err
	}))
	// The rounds strike at different times between two pings or renewals.
	check(wait.Sleep(ctx, time.Duration(t.round-1)*700*time.Millisecond))
	comeIn := func(patience time.Duration) {
		select {
		case answer := <-coming:
			if r.in = answer.At; answer.Text != peers.OK {
				check(fmt.Errorf("the second cannot take the lock: %s", answer.Text))
			}
		case <-time.After(patience): // if the peer has ended, the next command says so
		case <-ctx.Done():
			check(context.Cause(ctx))
		}
	}
	before := session(first)
	r.struck = time.Now()
	check(strike(first))
	if comeIn(works); !r.in.IsZero() {
		r.held = must(first.Ask(ctx, "held"))
	}
	check(wait.Sleep(ctx, time.Until(r.struck.Add(works))))
	check(wait.Until(ctx, flapPatience, "the holder's session is gone: the fault did no harm", func() (bool, error) {
		return session(first) != before, nil
	}))
	r.warned, r.told = first.FirstSince(r.struck)
	r.unlocked = time.Now()
	r.unlock = must(first.Ask(ctx, "unlock"))
	if r.in.IsZero() { // it may get the lock only now
		comeIn(flapPatience)
	}
	if !r.in.IsZero() {
		r.left = must(second.Ask(ctx, "unlock"))
	}
	return r
}

// judge returns the cells of the row, and the promises that were broken. Both clients held the lock
// from the second one's entry until the first one's library reported the loss, or if it reported none,
// until the first one unlocked.
func (r *pairRun) judge() (cells []any, b breaches) {
	came, lost := !r.in.IsZero(), !r.told.At.IsZero()
	both, end := time.Duration(0), r.unlocked
	if lost {
		end = r.told.At
	}
	if came && r.in.Before(end) {
		both = end.Sub(r.in)
	}
	b.add(!came, "the queue is wedged: the second did not come in, and the first unlocked %s ago", seconds(flapPatience))
	b.add(both > 0, "the second came in while the first had the lock and was told nothing, for %s", seconds(both))
	b.add(both == 0 && came && r.in.Before(r.unlocked) && r.held != "no", "when the second came in, Remaining() > 0 of the first's hold said %s", r.held)
	b.add(lost && r.unlock == peers.OK, "Unlock of a hold that was lost said ok")
	b.add(!lost && r.unlock != peers.OK, "Unlock of a hold that was not lost said: %s", r.unlock)
	b.add(came && r.left != peers.OK, "Unlock of the second's hold said: %s", r.left)
	b.add(r.rides && lost, "the hold was lost, though its lease outlives the fault: %s", r.told.Text)

	since := func(t time.Time, otherwise string) string {
		if t.IsZero() {
			return otherwise
		}
		return seconds(t.Sub(r.struck))
	}
	in, overlap, asked := since(r.in, "never"), "no", "–"
	if both > 0 {
		overlap = seconds(both)
	}
	switch {
	case r.in.After(r.unlocked):
		in += ", after Unlock"
	case came && r.asked == "":
		asked = "cannot be asked"
	case came:
		asked = fmt.Sprintf("`%s`: %s", r.asked, r.held)
	}
	return []any{in, since(r.warned.At, "–"), since(r.told.At, "–"), overlap, asked, r.unlock}, b
}
