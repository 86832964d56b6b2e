package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/judge"
	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock"
)

// The workloads.
const (
	lockWorkload    = "lock"
	lockSetWorkload = "lock-set"
	fencedWorkload  = "fenced"
)

var workloads = []string{lockWorkload, lockSetWorkload, fencedWorkload}

// locker takes a client's lock.
type locker func(ctx context.Context) (crew.Held, error)

var lockPeers = []peer{
	{name: holdfast, servers: &service{startZooKeeper}, offers: workloads, open: openHoldfast},
	{name: "zk.Lock", servers: &service{startZooKeeper}, offers: workloads[:2], open: openZKLock},
	{name: "etcd", servers: &service{startEtcd}, offers: workloads, open: openEtcd},
}

// Times of all clients.
const (
	ttl           = 4 * time.Second  // of a lease, or a session
	grace         = 3 * time.Second  // Holdfast's: the time that other clients wait after a lease has expired before they delete the entry
	patience      = 20 * time.Second // for a lock, if the library takes a context
	leavePatience = 5 * time.Second
	// sessionTimeout is the timeout of Holdfast's session. Holdfast's leases do not end with the
	// session.
	sessionTimeout = 2500 * time.Millisecond
	root           = "/compare"
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

func openHoldfast(servers []string, name, workload string) (locker, error) {
	c, err := lock.Dial(context.Background(), servers, lock.WithRoot(root), lock.WithOwner(name),
		lock.WithTTL(ttl), lock.WithGrace(grace), lock.WithSessionTimeout(sessionTimeout), lock.WithUnlockTimeout(leavePatience))
	return func(ctx context.Context) (crew.Held, error) {
		h, err := c.Mutex(workload).Lock(ctx)
		return crew.Holdfast(h, err)
	}, err
}

// openZKLock returns a locker with a session of its own: after an error it closes the session, because
// a Lock that fails leaves its node in the queue.
func openZKLock(servers []string, _, workload string) (locker, error) {
	var conn *zk.Conn
	closeAfter := func(err error) error {
		if err != nil && conn != nil {
			conn.Close()
			conn = nil
		}
		return err
	}
	return func(ctx context.Context) (_ crew.Held, err error) {
		defer func() { err = closeAfter(err) }()
		if conn == nil {
			if conn, _, err = zkserver.Connect(ctx, servers, ttl, nil); err != nil {
				return crew.Held{}, err
			}
		}
		own, session, lock := conn, conn.SessionID(), zk.NewLock(conn, root+"/"+workload, zk.WorldACL(zk.PermAll))
		if err := lock.Lock(); err != nil {
			return crew.Held{}, err
		}
		if own.SessionID() != session {
			return crew.Held{}, zk.ErrSessionExpired
		}
		return crew.Held{
			// The lock is held if the client is connected with the session that it had at the grant.
			Ask: func() (*monotonic.Claim, error) {
				return moment(func() bool { return own.State() == zk.StateHasSession && own.SessionID() == session })
			},
			Unlock: func() error { return closeAfter(lock.Unlock()) },
		}, nil
	}, nil
}

// openEtcd returns a locker of etcd's package concurrency. After an error it uses a new session, and
// revokes the lease of the old one. If that fails, the lease expires.
func openEtcd(servers []string, _, workload string) (locker, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: servers, Logger: zap.NewNop(), DialTimeout: time.Second,
		// Without these options a client stays with a silent server.
		DialKeepAliveTime: time.Second, DialKeepAliveTimeout: time.Second,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}, MinConnectTimeout: time.Second,
		})},
	})
	var session *concurrency.Session
	closeAfter := func(err error) error {
		if err != nil && session != nil {
			err = errors.Join(err, session.Close())
			session = nil
		}
		return err
	}
	return func(ctx context.Context) (crew.Held, error) {
		if session == nil || session.Ctx().Err() != nil {
			lease, err := client.Grant(ctx, int64(ttl.Seconds()))
			if err != nil {
				return crew.Held{}, err
			}
			if session, err = concurrency.NewSession(client, concurrency.WithLease(lease.ID), concurrency.WithTTL(int(ttl.Seconds()))); err != nil {
				return crew.Held{}, err
			}
		}
		own, mutex := session, concurrency.NewMutex(session, root+"/"+workload)
		if err := mutex.Lock(ctx); err != nil {
			return crew.Held{}, closeAfter(err)
		}
		return crew.Held{
			Ask:   func() (*monotonic.Claim, error) { return moment(func() bool { return own.Ctx().Err() == nil }) },
			Token: fmt.Sprintf("%016x", mutex.Header().Revision), // at which the lock was acquired, as in etcd's documentation
			Unlock: func() error {
				ctx, cancel := context.WithTimeout(context.Background(), leavePatience)
				defer cancel()
				return closeAfter(mutex.Unlock(ctx))
			},
		}, nil
	}, err
}

const (
	// opRead is a record of a read of the set, which the act that follows it writes back with one more
	// element.
	opRead = "read"
	// opRefused is the operation of an act that the fenced set refused.
	opRefused = "refused"
)

// takeLocks is the work of a client. It runs all workloads that the system offers at the same time.
func takeLocks(ctx context.Context, w *worker) error {
	own := peerOf(lockPeers, w.System)
	return wait.All(len(own.offers), func(i int) error {
		workload, r := own.offers[i], w.random(uint64(i))
		take, err := own.open(w.Servers, w.Worker, workload)
		if err != nil {
			return err
		}
		for wait.Sleep(ctx, wait.Between(r, 50*time.Millisecond, 500*time.Millisecond)) == nil {
			// A process thinks and then acts, without asking again whether the lock is held. So one that
			// is stopped while it thinks acts late, as any program may. It reads a set before it thinks,
			// and the act writes the set: see [keepSet].
			acts, think := 1, 600*time.Millisecond
			if workload == lockWorkload {
				acts, think = 1+r.IntN(3), 200*time.Millisecond
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			err := w.Turn(crew.Record{Lock: workload}, func() (crew.Held, error) { return take(ctx) }, func(t *crew.Turn) error {
				for range acts {
					if held, err := t.Check(crew.OpCheck); err != nil || !held {
						return err
					}
					if workload != lockWorkload {
						if err := t.Say(opRead, nil, ""); err != nil {
							return err
						}
					}
					time.Sleep(wait.Between(r, 0, think))
					if err := t.Say(crew.OpAct, nil, ""); err != nil {
						return err
					}
				}
				_, err := t.Check(crew.OpCheck) // as a program that must know whether it held the lock all the time
				return err
			})
			if cancel(); err != nil {
				return err
			}
		}
		return nil
	})
}

// allWork reports whether all clients of a system have said something.
func allWork(s *system, _ period) bool {
	return !slices.ContainsFunc(s.Clients, func(c *crew.Client) bool { return !slices.ContainsFunc(s.History.All(), c.Said) })
}

var lockHead = []string{"workload", "system", "attempts", "holds", "overlaps of claims", "acts", "acts outside of the hold", "elements added", "lost", "fenced violations", "longest without a grant", "calls that were not a success, by class"}

func judgeLocks(s *system, p period) (rows [][]any, broken breaches) {
	for _, w := range workloads {
		if !slices.Contains(s.offers, w) {
			rows = append(rows, []any{w, s.Name, "not offered"})
			continue
		}
		cells, wrong := judgeLock(w, s.History.All(), p.begun, p.ended)
		rows = append(rows, append([]any{w, s.Name}, cells...))
		for _, b := range wrong {
			broken.add(true, "%s: %s", w, b)
		}
	}
	return rows, broken
}

// judgeLock judges a system's records of one workload. The longest time without a grant is measured
// from start to stop.
func judgeLock(workload string, all []*crew.Record, start, stop monotonic.Instant) (cells []any, broken breaches) {
	records := slices.DeleteFunc(slices.Clone(all), func(r *crew.Record) bool { return r.Lock != workload })
	added, lost := 0, 0
	if workload != lockWorkload {
		records, added, lost = keepSet(records, workload == fencedWorkload)
	}
	ops, results := map[string]int{}, map[string]int{} // of those that were not a success
	for _, r := range records {
		ops[r.Op]++
		switch {
		case r.Op == opRefused:
			results["refused by the fenced store"]++
		case r.Result == "":
		case slices.Contains(classes, r.Result):
			results[r.Op+": "+r.Result]++
		default:
			results[r.Op+": other"]++
		}
	}
	var errs []string
	for _, result := range slices.Sorted(maps.Keys(results)) {
		errs = append(errs, fmt.Sprintf("%s %d×", result, results[result]))
	}
	holds := judge.Holds(records)[workload]
	doubles, _ := judge.Doubles(judge.ByBegin(holds))
	overlaps := map[*judge.Hold]bool{} // holds that the library still claimed after it had given the lock to another client
	for _, d := range doubles {
		overlaps[d.Before] = true
		broken = append(broken, d.String())
	}
	cells = []any{ops[crew.OpTry] + ops[crew.OpGrant], ops[crew.OpGrant], len(overlaps), ops[crew.OpAct], len(judge.Outside(holds)), "", "", "",
		fmt.Sprintf("%.1f s", judge.Gap(records, start, stop).Seconds()), strings.Join(errs, ", ")}
	if workload != lockWorkload {
		cells[5], cells[6] = added, lost
	}
	if workload == fencedWorkload {
		wrong := judge.Tokens(holds)
		cells[7] = lost + len(wrong)
		broken = append(broken, wrong...)
		broken.add(lost > 0, "%d elements were lost", lost)
	}
	broken.add(ops[crew.OpGrant] == 0, "no client got the lock")
	return cells, broken[:min(10, len(broken))]
}

// keepSet is the store of a set: the clients' reads and writes take effect in the order of their times.
// A write replaces the set by the one that its client read before, with one more element. If the set is
// fenced, it refuses reads and writes with a token that is lower than one that it has seen. keepSet
// returns the records, with the refused acts as such, and how many elements were added, and how many of
// them are not in the set at the end.
func keepSet(records []*crew.Record, fenced bool) (kept []*crew.Record, added, lost int) {
	highest, size := "", 0
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
	return kept, added, added - size
}

// connError is the class of errors when the connection to the servers broke, or they could not serve.
// The others are those of package crew.
const connError = "connection"

// classes has all classes. A result that is not in classes is the text of an error.
var classes = []string{crew.GaveUp, crew.Expired, crew.NotHeld, crew.Unsure, crew.Removed, crew.Written, connError}

// classify returns the class of an error, or the text of an error without a class. It returns ""
// for nil.
func classify(err error) string {
	var network *net.OpError
	class := crew.Classify(err)
	switch {
	case slices.Contains([]string{"", crew.Removed, crew.Written, crew.NotHeld}, class):
		return class
	case errors.Is(err, zk.ErrSessionExpired), errors.Is(err, zk.ErrNoNode), errors.Is(err, concurrency.ErrSessionExpired), code(err) == codes.NotFound:
		return crew.Expired
	case code(err) == codes.DeadlineExceeded:
		return crew.GaveUp
	case slices.Contains(classes, class):
		return class
	case errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, zk.ErrNoServer), errors.Is(err, zk.ErrClosing), errors.Is(err, zk.ErrSessionMoved),
		errors.As(err, &network), code(err) == codes.Unavailable:
		return connError
	}
	return class
}

// code returns the gRPC code of an error; Unknown if it has none.
func code(err error) codes.Code {
	var coded interface{ Code() codes.Code }
	if errors.As(err, &coded) {
		return coded.Code()
	}
	return status.Code(err)
}
