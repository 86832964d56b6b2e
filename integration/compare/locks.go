package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/judge"
	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
)

// The workloads: a set in a store without a fence, and in one with.
const (
	lockSetWorkload = "lock-set"
	fencedWorkload  = "fenced"
)

var lockPeers = []peer{
	{name: holdfast, servers: startZooKeeper, work: takeLocks(openHoldfast, lockSetWorkload, fencedWorkload)},
	{name: "zk.Lock", servers: startZooKeeper, work: takeLocks(openZKLock, lockSetWorkload)},
	{name: "etcd", servers: startEtcd, work: takeLocks(openEtcd, lockSetWorkload, fencedWorkload)},
}

// locker takes a client's lock.
type locker func(ctx context.Context) (crew.Held, error)

// Times of all clients.
const (
	ttl           = 4 * time.Second  // of a lease, or a session
	grace         = 3 * time.Second  // Holdfast's: the time that other clients wait after a lease has expired before they delete the entry
	patience      = 20 * time.Second // for a lock, if the library takes a context
	leavePatience = 5 * time.Second
	root          = "/compare"

	sessionTimeout = 2500 * time.Millisecond // of Holdfast, whose leases do not end with the session
)

// moment returns the claim of a library that does not know for how long a lock stays held. If ask
// returns false, the error is [crew.ErrNotHeld].
func moment(ask func() bool) (*monotonic.Claim, error) {
	from := monotonic.Now()
	if !ask() {
		return nil, crew.ErrNotHeld
	}
	return &monotonic.Claim{From: from, To: monotonic.Now(), Until: from}, nil
}

func openHoldfast(w *worker, workload string) (locker, error) {
	c, err := lock.Dial(context.Background(), w.Servers, lock.WithRoot(root), lock.WithOwner(w.Worker),
		lock.WithTTL(ttl), lock.WithGrace(grace), lock.WithSessionTimeout(sessionTimeout), lock.WithUnlockTimeout(leavePatience))
	return func(ctx context.Context) (crew.Held, error) {
		h, err := c.Mutex(workload).Lock(ctx)
		return crew.Holdfast(h, err)
	}, err
}

// openZKLock returns a locker with a session for each hold, because a Lock that fails leaves its node in
// the queue until the session ends.
func openZKLock(w *worker, workload string) (locker, error) {
	return func(ctx context.Context) (crew.Held, error) {
		conn, _, err := zkserver.Connect(ctx, w.Servers, ttl, nil)
		if err != nil {
			return crew.Held{}, err
		}
		session, lock := conn.SessionID(), zk.NewLock(conn, root+"/"+workload, zk.WorldACL(zk.PermAll))
		if err := lock.Lock(); err != nil {
			conn.Close()
			return crew.Held{}, err
		}
		return crew.Held{
			// The lock is held if the client is connected with the session that it had before the grant.
			Ask: func() (*monotonic.Claim, error) {
				return moment(func() bool { return conn.State() == zk.StateHasSession && conn.SessionID() == session })
			},
			Unlock: func() error {
				defer conn.Close()
				return lock.Unlock()
			},
		}, nil
	}, nil
}

// openEtcd returns a locker of etcd's package concurrency, with a session for each hold.
func openEtcd(w *worker, workload string) (locker, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: w.Servers, Logger: zap.NewNop(), DialTimeout: time.Second,
		// Without these options a client stays with a silent server.
		DialKeepAliveTime: time.Second, DialKeepAliveTimeout: time.Second,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}, MinConnectTimeout: time.Second,
		})},
	})
	return func(ctx context.Context) (crew.Held, error) {
		lease, err := client.Grant(ctx, int64(ttl.Seconds()))
		if err != nil {
			return crew.Held{}, err
		}
		session, err := concurrency.NewSession(client, concurrency.WithLease(lease.ID), concurrency.WithTTL(int(ttl.Seconds())))
		if err != nil {
			return crew.Held{}, err
		}
		mutex := concurrency.NewMutex(session, root+"/"+workload)
		if err := mutex.Lock(ctx); err != nil {
			return crew.Held{}, errors.Join(err, session.Close())
		}
		return crew.Held{
			Ask:   func() (*monotonic.Claim, error) { return moment(func() bool { return session.Ctx().Err() == nil }) },
			Token: fmt.Sprintf("%016x", mutex.Header().Revision), // at which the lock was acquired, as in etcd's documentation
			Unlock: func() error {
				ctx, cancel := context.WithTimeout(context.Background(), leavePatience)
				defer cancel()
				return errors.Join(mutex.Unlock(ctx), session.Close())
			},
		}, nil
	}, err
}

const (
	opRead    = "read"    // of the set, which the act that follows writes back with one more element
	opRefused = "refused" // an act that the fenced set refused
)

// takeLocks returns the work of a client that runs the workloads at the same time. open connects it, for a
// workload's lock.
func takeLocks(open func(w *worker, workload string) (locker, error), workloads ...string) func(context.Context, *worker) error {
	return func(ctx context.Context, w *worker) error {
		return wait.All(len(workloads), func(i int) error {
			take, err := open(w, workloads[i])
			if err != nil {
				return err
			}
			for r := w.random(uint64(i)); wait.Sleep(ctx, wait.Between(r, 50*time.Millisecond, 500*time.Millisecond)) == nil; {
				if err := w.takeTurn(take, workloads[i], r); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// takeTurn takes a workload's lock once. A process reads the set, thinks, and then acts: it writes the
// set, see [keepSet], without asking again whether the lock is held. So one that is stopped while it
// thinks acts late, as any program may.
func (w *worker) takeTurn(take locker, workload string, r *rand.Rand) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return w.Turn(crew.Record{Lock: workload}, func() (crew.Held, error) { return take(ctx) }, func(t *crew.Turn) error {
		if held, err := t.Check(crew.OpCheck); err != nil || !held {
			return err
		}
		if err := t.Say(opRead, nil, ""); err != nil {
			return err
		}
		time.Sleep(wait.Between(r, 0, 600*time.Millisecond))
		if err := t.Say(crew.OpAct, nil, ""); err != nil {
			return err
		}
		_, err := t.Check(crew.OpCheck) // as a program that must know whether it held the lock all the time
		return err
	})
}

var lockHead = []string{"workload", "system", "attempts", "holds", "overlaps of claims", "acts", "acts outside of the hold", "elements lost", "fenced violations", "longest without a grant"}

func nothingDue(*system, period) breaches { return nil }

func judgeLocks(s *system, p period) (rows [][]any, broken breaches) {
	for _, w := range []string{lockSetWorkload, fencedWorkload} {
		records := slices.DeleteFunc(slices.Clone(s.History.All()), func(r *crew.Record) bool { return r.Lock != w })
		cells, wrong := judgeLock(w, records, p.begun, p.ended)
		if len(records) == 0 {
			cells = []any{"not offered"}
		}
		rows = append(rows, append([]any{w, s.Name}, cells...))
		for _, b := range wrong {
			broken.add(true, "%s: %s", w, b)
		}
	}
	return rows, broken
}

// judgeLock judges a system's records of one workload. The longest time without a grant is measured
// from start to stop.
func judgeLock(workload string, records []*crew.Record, start, stop monotonic.Instant) (cells []any, broken breaches) {
	records, lost := keepSet(records, workload == fencedWorkload)
	ops := map[string]int{}
	for _, r := range records {
		ops[r.Op]++
	}
	holds := judge.Holds(records)[workload]
	doubles, _ := judge.Doubles(judge.ByBegin(holds))
	overlaps := map[*judge.Hold]bool{} // holds that the library still claimed after it had given the lock to another client
	for _, d := range doubles {
		overlaps[d.Before] = true
		broken = append(broken, d.String())
	}
	var violations any = "" // of the fence
	if workload == fencedWorkload {
		wrong := judge.Tokens(holds)
		violations = lost + len(wrong)
		broken = append(broken, wrong...)
		broken.add(lost > 0, "%d elements were lost", lost)
	}
	broken.add(ops[crew.OpGrant] == 0, "no client got the lock")
	cells = []any{ops[crew.OpTry] + ops[crew.OpGrant], ops[crew.OpGrant], len(overlaps), ops[crew.OpAct], len(judge.Outside(holds)), lost, violations,
		fmt.Sprintf("%.1f s", judge.Gap(records, start, stop).Seconds())}
	return cells, broken[:min(10, len(broken))]
}

// keepSet is the store of a set: the clients' reads and writes take effect in the order of their times.
// A write replaces the set by the one that its client read before, with one more element. If the set is
// fenced, it refuses reads and writes with a token that is lower than one that it has seen. keepSet
// returns the records, with the refused acts as such, and how many elements of the other acts are not in
// the set at the end.
func keepSet(records []*crew.Record, fenced bool) (kept []*crew.Record, lost int) {
	highest, size, added := "", 0, 0
	read := map[string]int{} // sizes of the sets that were read, by hold
	for _, r := range slices.SortedStableFunc(slices.Values(records), func(a, b *crew.Record) int { return cmp.Compare(a.Call, b.Call) }) {
		switch refused := fenced && r.Token < highest; {
		case r.Op != opRead && r.Op != crew.OpAct:
		case refused && r.Op == crew.OpAct:
			act := *r
			act.Op, r = opRefused, &act
		case refused:
		case r.Op == opRead:
			read[r.Hold], highest = size, max(highest, r.Token)
		default:
			added, highest = added+1, max(highest, r.Token)
			size = read[r.Hold] + 1
		}
		kept = append(kept, r)
	}
	return kept, added - size
}
