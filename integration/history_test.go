//go:build linux

package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// incidentEnv is an environment variable with the path of a folder. TestHistory copies the servers'
// logs and the moments that it asked for to this folder.
const incidentEnv = "HOLDFAST_INCIDENT"

// asked is a moment for which the test asks holdfast history.
type asked struct {
	time, zxid string
	owner      string // owner of the client that held the lock; "": the process with pid held it, or no client if pid is 0
	pid        int
	what       string
}

// incident has servers with clocks of their own, and a lock on them.
type incident struct {
	*cli
	*ensemble
	clocks map[*zkserver.Server]*zkserver.Clock
	lock   string
	asked  []asked
	killed *zkserver.Server // the leader that was killed
}

// ask notes the present moment and the client that holds the lock: the client with the owner, or if
// owner is "" the process with the pid, or no client if pid is 0.
func (i *incident) ask(what, owner string, pid int) {
	i.Helper()
	stat := i.write()
	i.asked = append(i.asked, asked{stamp(stat.Mtime), fmt.Sprintf("%#x", stat.Mzxid), owner, pid, what})
}

func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// historyDoc is what the test needs of the output of holdfast history --json.
type historyDoc struct {
	Moments []struct {
		Asked, Where string
		Locks        []struct {
			Name    string
			Holders []struct {
				Client struct {
					Owner string
					PID   int
				}
			}
		}
	}
	Events   []historyEvent
	Warnings []string
}

type historyEvent struct {
	Event, Reason string
	Client, By    struct{ Owner string }
	StepMS        int64 `json:"step_ms"`
}

// TestHistory: from the servers' logs alone, holdfast history tells which client held a lock at
// each moment, and what happened in between: a killed holder, a clock stepped by an hour, a break,
// a deletion by hand, an election.
func TestHistory(t *testing.T) {
	t.Parallel()
	zkserver.NeedReal(t)
	i := newIncident(t, programs(t))
	i.plant()
	last := i.write().Mzxid
	var all, one []string
	for _, s := range i.members.Servers() {
		i.eventually("the server has it all", func() bool {
			zxid, err := s.Zxid(i.ensemble.ctx)
			return err == nil && zxid >= last
		})
		all = append(all, "--logs", s.DataDir())
		if s != i.killed { // the killed server may have got a snapshot instead of transactions
			one = []string{"--logs", s.DataDir()}
		}
	}
	i.check(all)
	i.check(one)
	i.leave()
}

func newIncident(t *testing.T, bin string) *incident {
	installation, err := zkserver.FindFixed(t.Context())
	iferr.Fatal(t, err)
	i := &incident{clocks: map[*zkserver.Server]*zkserver.Clock{}, lock: "orders/42"}
	opts := zkserver.Options{Installation: installation}
	var clocks []*zkserver.Clock
	for range 3 {
		clock := zkserver.ClockForTest(t, 0)
		clocks, opts.MemberEnv = append(clocks, clock), append(opts.MemberEnv, clock.Env())
	}
	i.ensemble = &ensemble{members: zkserver.EnsembleForTest(t, 3, opts)}
	for n, s := range i.members.Servers() {
		i.clocks[s] = clocks[n]
	}
	i.ensemble.probe = on(t, i.members.Addrs()).probe()
	i.cli = newCLI(i.ensemble.bench, bin, short)
	return i
}

// named returns a client with the owner.
func (i *incident) named(owner string) *lock.Client {
	// If a session ended on a busy machine, its client would delete the entry in a new session. The
	// history shows that like a deletion by hand.
	return i.ensemble.client(lock.WithOwner(owner), livingTTL, lock.WithSessionTimeout(time.Minute))
}

// enters waits for the hold from a channel of queued, and returns it.
func (i *incident) enters(ch <-chan *lock.Hold) *lock.Hold {
	i.ensemble.Helper()
	select {
	case h := <-ch:
		if h == nil {
			i.ensemble.Fatal("the waiter has failed")
		}
		return h
	case <-i.ensemble.ctx.Done():
		i.ensemble.Fatal("the waiter is not in")
	}
	return nil
}

// renew writes the entry of a hold, as its client does each third of the TTL.
func (i *incident) renew(hold *lock.Hold) {
	i.ensemble.Helper()
	iferr.Fatal(i.ensemble, hold.Extend(i.ensemble.ctx, long))
}

// plant makes the events of TestHistory and asks for moments between them.
func (i *incident) plant() {
	i.ensemble.Helper()
	tool := admin.New(i.named("tool"))
	i.ask("no client has taken it", "", 0)

	first := i.ensemble.lock(i.named("shop-1"), i.lock)
	i.ask("shop-1 has it", "shop-1", 0)
	second := i.queued(i.named("shop-2"), i.lock, 2)
	i.ask("shop-2 waits", "shop-1", 0)
	i.unlock(first)
	hold := i.enters(second)
	i.ask("shop-1 has released it", "shop-2", 0)
	i.unlock(hold)
	i.ask("it is free", "", 0)

	dead := i.holder(i.lock)
	dead.says("held")
	third := i.queued(i.named("shop-3"), i.lock, 2)
	dead.Kill()
	i.ask("its holder was killed", "", dead.cmd.Process.Pid)
	state, err := tool.Inspect(i.ensemble.ctx, i.lock)
	if err != nil || len(state.Contenders) == 0 {
		i.ensemble.Fatal(state, err)
	}
	ended := state.Contenders[0].Expires.Add(grace / 4)
	hold = i.enters(third)
	i.asked = append(i.asked, asked{time: stamp(ended.UnixMilli()), what: "the lease of the dead has ended, and it was not purged yet"})
	i.ask("the dead was purged", "shop-3", 0)

	leader, err := i.members.Leader(i.ensemble.ctx)
	iferr.Fatal(i.ensemble, err)
	iferr.Fatal(i.ensemble, i.clocks[leader].Step(time.Hour))
	i.awaitClock(time.Hour)
	i.ask("the leader's clock was stepped", "shop-3", 0)
	i.renew(hold)

	fourth := i.queued(i.named("shop-4"), i.lock, 2)
	iferr.Fatal(i.ensemble, iferr.Of(tool.Break(i.ensemble.ctx, hold.EntryPath(), znode.Broken{Owner: "ops", Host: "bastion", PID: 7, Reason: "hangs since the step"})))
	hold = i.enters(fourth)
	i.ask("shop-3 was broken", "shop-4", 0)

	fifth := i.queued(i.named("shop-5"), i.lock, 2)
	i.ensemble.byHand(hold.EntryPath())
	if err := i.ensemble.raw.Delete(hold.EntryPath(), -1); err != nil { // by hand, as zkCli.sh does
		i.ensemble.Fatal(err)
	}
	hold = i.enters(fifth)
	i.ask("the entry of shop-4 was deleted", "shop-5", 0)

	if i.killed, err = i.members.Leader(i.ensemble.ctx); err != nil {
		i.ensemble.Fatal(err)
	}
	i.depose()
	i.renew(hold)
	i.ask("another server leads", "shop-5", 0)
	i.unlock(hold)
	i.ask("it is free again", "", 0)
	i.eventually("only the ancestor is left", func() bool { return len(i.nodes()) == 1 })
	i.prune("orders")
}

// check compares the output of holdfast history for the logs with the moments and the events of
// plant.
func (i *incident) check(logs []string) {
	t := i.ensemble
	t.Helper()
	args := append([]string{"history", i.lock, "--json"}, logs...)
	for _, byZxid := range []bool{false, true} {
		at := slices.Clone(args)
		var questions []asked
		for _, a := range i.asked {
			if byZxid && a.zxid == "" {
				continue
			}
			questions = append(questions, a)
			at = append(at, "--at", map[bool]string{false: a.time, true: a.zxid}[byZxid])
		}
		doc := i.history(at)
		if len(doc.Moments) != len(questions) {
			t.Errorf("%d moments, asked for %d", len(doc.Moments), len(questions))
			continue
		}
		for n, m := range doc.Moments {
			want := questions[n]
			var got []string
			for _, l := range m.Locks {
				for _, h := range l.Holders {
					if want.pid != 0 {
						got = append(got, fmt.Sprint(h.Client.PID))
					} else {
						got = append(got, h.Client.Owner)
					}
				}
			}
			holder := want.owner
			if want.pid != 0 {
				holder = fmt.Sprint(want.pid)
			}
			if strings.Join(got, " ") != holder || m.Where != "within" {
				t.Errorf("%s (%s): held by %q, want %q; the moment is %s the log", want.what, m.Asked, got, holder, m.Where)
			}
		}
	}
	doc := i.history(args)
	for _, want := range []struct{ event, client, by, reason string }{
		{"purged", "", "shop-3", ""}, {"broken", "shop-3", "ops", "hangs since the step"}, {"released", "shop-3", "", ""},
		{"removed", "shop-4", "", "by a session that wrote no entry"}, {"clock", "", "", ""}, {"leader", "", "", ""}, {"released", "shop-5", "", ""},
	} {
		if !slices.ContainsFunc(doc.Events, func(e historyEvent) bool {
			return e.Event == want.event && (want.client == "" || e.Client.Owner == want.client) && e.By.Owner == want.by && strings.Contains(e.Reason, want.reason) &&
				(want.event != "clock" || (time.Duration(e.StepMS)*time.Millisecond-time.Hour).Abs() < time.Minute)
		}) {
			t.Errorf("no such event: %+v; there are %+v", want, doc.Events)
		}
	}
	for _, e := range doc.Events {
		if e.Client.Owner == "shop-3" && (e.Event == "expired" || e.Event == "at_risk") {
			t.Errorf("the step ended the lease of a living client: %+v", e)
		}
	}
}

func (i *incident) history(args []string) historyDoc {
	i.ensemble.Helper()
	return decode[historyDoc](i.cli, args...)
}

// leave writes the logs, without the space that servers preallocate, and the moments to the folder
// in incidentEnv. It does nothing if the variable is empty or the test has failed.
func (i *incident) leave() {
	dir := os.Getenv(incidentEnv)
	if dir == "" || i.ensemble.Failed() {
		return
	}
	var moments strings.Builder
	for _, a := range i.asked {
		fmt.Fprintf(&moments, "%s\t%s\t%s\t%d\t%s\n", a.time, a.zxid, a.owner, a.pid, a.what)
	}
	write := func(name string, data []byte) {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err == nil {
			err = os.WriteFile(name, data, 0o644)
			iferr.Error(i.ensemble, err)
		}
	}
	write(filepath.Join(dir, "moments.txt"), []byte(moments.String()))
	for n, s := range i.members.Servers() {
		files, err := filepath.Glob(filepath.Join(s.DataDir(), "*.*"))
		iferr.Error(i.ensemble, err)
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				i.ensemble.Error(err)
				continue
			}
			if strings.HasPrefix(filepath.Base(file), "log.") {
				data = []byte(strings.TrimRight(string(data), "\x00") + strings.Repeat("\x00", 64))
			}
			write(filepath.Join(dir, fmt.Sprintf("server-%d", n+1), filepath.Base(file)), data)
		}
	}
}
