package history

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/lock/znode"
)

const (
	gen = "9f86d081884c7d65"
	ttl = 30 * time.Second
)

var epoch0 = time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)

// tape is a log that a test writes.
type tape struct {
	now   time.Duration // of the leader's clock, after epoch0
	zxid  int64
	txns  []txnlog.Txn
	ahead time.Duration // the leader's clock minus the clients' estimates of it
}

func newTape() *tape { return &tape{zxid: 1 << 32} }

func (l *tape) after(d time.Duration) *tape { l.now += d; return l }

// leader begins a new epoch.
func (l *tape) leader() *tape { l.zxid = (l.zxid>>32 + 1) << 32; return l }

func (l *tape) do(session int64, ops ...txnlog.Op) *tape {
	l.zxid++
	l.txns = append(l.txns, txnlog.Txn{Zxid: l.zxid, Time: epoch0.Add(l.now), Session: session, Ops: ops})
	return l
}

func create(path string, data []byte) txnlog.Op {
	return txnlog.Op{Kind: txnlog.OpCreate, Path: path, Data: data}
}

func set(path string, data []byte) txnlog.Op {
	return txnlog.Op{Kind: txnlog.OpSetData, Path: path, Data: data}
}

func del(paths ...string) (ops []txnlog.Op) {
	for _, p := range paths {
		ops = append(ops, txnlog.Op{Kind: txnlog.OpDelete, Path: p})
	}
	return ops
}

func lockPath(name string) string   { return "/locks/" + name }
func anchorPath(name string) string { return lockPath(name) + "/" + znode.Anchor(gen) }
func entryPath(name string, role znode.Role, seq int32) string {
	return lockPath(name) + "/" + znode.Predict(znode.Prefix(gen, role), seq)
}

// e is the path of a mutex's entry.
func e(name string, seq int32) string { return entryPath(name, znode.Exclusive, seq) }

func parent(kind znode.Kind) []byte { return znode.Parent{Kind: kind, Generation: gen}.Encode() }

// record returns the data of an entry; change may alter it.
func (l *tape) record(owner string, change ...func(*znode.Record)) []byte {
	r := znode.Record{Version: znode.Version, Owner: owner, Host: "node-" + owner, PID: 1, TTL: ttl.Milliseconds()}
	r.ExpiresAt = epoch0.Add(l.now-l.ahead).UnixMilli() + r.TTL
	for _, f := range change {
		f(&r)
	}
	return r.Encode()
}

func (l *tape) granted(r *znode.Record) { r.AcquiredAt = epoch0.Add(l.now).UnixMilli() }

// take adds the join of a free lock.
func (l *tape) take(session int64, name, owner string) *tape {
	return l.do(session, create(lockPath(name), parent(znode.Mutex)), create(anchorPath(name), znode.AnchorData{}.Encode()),
		create(e(name, 0), l.record(owner)), set(lockPath(name), parent(znode.Mutex)))
}

// join adds the join of a lock that exists.
func (l *tape) join(session int64, name, owner string, seq int32) *tape {
	return l.do(session, txnlog.Op{Kind: txnlog.OpCheck, Path: anchorPath(name)}, create(e(name, seq), l.record(owner)), set(lockPath(name), parent(znode.Mutex)))
}

func (l *tape) renew(session int64, name, owner string, seq int32, change ...func(*znode.Record)) *tape {
	return l.do(session, set(e(name, seq), l.record(owner, change...)))
}

// play gives the log to a Machine, and returns the Machine and its events.
func (l *tape) play(o Options, begin ...txnlog.Node) (*Machine, []Event) {
	var events []Event
	if o.Root == "" {
		o.Root = "/locks"
	}
	m := New(o, func(e Event) { events = append(events, e) })
	err := m.Begin(1<<32, func(yield func(txnlog.Node, error) bool) {
		for _, n := range begin {
			if !yield(n, nil) {
				return
			}
		}
	})
	if err != nil {
		panic(err)
	}
	for i := range l.txns {
		m.Apply(&l.txns[i])
	}
	m.End()
	return m, events
}

// brief returns an event in a line: seconds, kind, lock, owner, and what else is set.
func brief(e Event) string {
	s := fmt.Sprintf("%v %s", e.Time.Sub(epoch0), e.Kind)
	if e.Lock != "" {
		s += " " + e.Lock
	}
	if e.Who.Known() {
		s += " " + e.Who.Owner
	}
	if e.By.Known() {
		s += " by=" + e.By.Owner
	}
	for text, set := range map[string]bool{" again": e.Again, " early": e.Early, " late": e.Late && e.Kind == Renewed} {
		if set {
			s += text
		}
	}
	if e.Role != "" {
		s += " " + e.Role
	}
	if e.From != e.To {
		s += fmt.Sprintf(" %d->%d", e.From, e.To)
	}
	if e.Step != 0 {
		s += fmt.Sprintf(" step=%v", e.Step)
	}
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s
}

func briefs(events []Event) (all []string) {
	for _, e := range events {
		all = append(all, brief(e))
	}
	return all
}

// TestEvents: a short log has the events of the table, and no others.
func TestEvents(t *testing.T) {
	sec := time.Second
	free := func(l *tape, session int64, name string, seq int32) *tape {
		return l.do(session, del(e(name, seq), anchorPath(name), lockPath(name))...)
	}
	for name, c := range map[string]struct {
		write func(l *tape)
		o     Options
		want  []string
	}{
		"taken, renewed, released": {
			write: func(l *tape) {
				l.take(1, "a/b", "x").after(10*sec).renew(1, "a/b", "x", 0, l.granted).after(10 * sec)
				free(l, 1, "a/b", 0)
			},
			want: []string{"0s made a/b by=x", "0s joined a/b x", "0s granted a/b x", "10s renewed a/b x", "10s recorded a/b x", "20s released a/b x", "20s deleted a/b by=x"},
		},
		"the next one waits, and is in by order": {
			write: func(l *tape) {
				l.take(1, "l", "x").after(sec).join(2, "l", "y", 1).after(sec).do(1, del(e("l", 0))...).after(sec)
				free(l, 2, "l", 1)
			},
			want: []string{"0s made l by=x", "0s joined l x", "0s granted l x", "1s joined l y", "2s released l x", "2s granted l y", "3s released l y", "3s deleted l by=y"},
		},
		"a waiter gives up": {
			write: func(l *tape) { l.take(1, "l", "x").join(2, "l", "y", 1).after(sec).do(2, del(e("l", 1))...) },
			want:  []string{"0s made l by=x", "0s joined l x", "0s granted l x", "0s joined l y", "1s withdrawn l y"},
		},
		"a holder dies and is purged by the next": {
			write: func(l *tape) {
				l.take(1, "l", "x").after(5*sec).join(2, "l", "y", 1).after(10*sec).renew(2, "l", "y", 1).after(10*sec).renew(2, "l", "y", 1).
					after(8*sec).do(2, del(e("l", 0))...)
			},
			o: Options{Grace: func(string) time.Duration { return 2 * sec }},
			want: []string{"0s made l by=x", "0s joined l x", "0s granted l x", "5s joined l y", "15s renewed l y", "25s renewed l y",
				"15s at_risk l x", "30s expired l x", "33s purged l x by=y", "33s granted l y"},
		},
		"purged before the grace is over": {
			write: func(l *tape) { l.take(1, "l", "x").join(2, "l", "y", 1).after(31*sec).do(2, del(e("l", 0))...) },
			o:     Options{Grace: func(string) time.Duration { return 2 * sec }},
			// y has not renewed either, so it does not hold the lock.
			want: []string{"0s made l by=x", "0s joined l x", "0s granted l x", "0s joined l y", "15s at_risk l x", "30s expired l x", "31s purged l x by=y early", "30s expired l y"},
		},
		"a waiter whose lease is over is in with its next renewal": {
			write: func(l *tape) {
				l.take(1, "l", "x").join(2, "l", "y", 1).after(31*sec).do(2, del(e("l", 0))...).after(sec).renew(2, "l", "y", 1)
			},
			want: []string{"0s made l by=x", "0s joined l x", "0s granted l x", "0s joined l y", "15s at_risk l x", "30s expired l x", "31s purged l x by=y", "30s expired l y", "32s renewed l y late", "32s granted l y"},
		},
		"deleted by hand": {
			write: func(l *tape) { l.take(1, "l", "x").join(2, "l", "y", 1).after(sec).do(99, del(e("l", 0))...) },
			want: []string{"0s made l by=x", "0s joined l x", "0s granted l x", "0s joined l y",
				"1s removed l x: by a session that wrote no entry: by hand, unless it is a new session of the entry's client", "1s granted l y"},
		},
		"deleted by another client": {
			write: func(l *tape) { l.take(1, "l", "x").join(2, "l", "y", 1).after(sec).do(2, del(e("l", 0))...) },
			want:  []string{"0s made l by=x", "0s joined l x", "0s granted l x", "0s joined l y", "1s removed l x by=y: by another client, during the lease", "1s granted l y"},
		},
		"released over a session that the log shows nothing else of": {
			write: func(l *tape) { l.take(1, "l", "x").after(sec); free(l, 7, "l", 0) },
			want:  []string{"0s made l by=x", "0s joined l x", "0s granted l x", "1s released l x", "1s deleted l"},
		},
		"released over a new session of the same client": {
			write: func(l *tape) { l.take(1, "l", "x").take(7, "m", "x").after(sec).do(7, del(e("l", 0))...) },
			want:  []string{"0s made l by=x", "0s joined l x", "0s granted l x", "0s made m by=x", "0s joined m x", "0s granted m x", "1s released l x"},
		},
		"released after the lease": {
			write: func(l *tape) { l.take(1, "l", "x").after(40*sec).do(1, del(e("l", 0))...) },
			want:  []string{"0s made l by=x", "0s joined l x", "0s granted l x", "15s at_risk l x", "30s expired l x", "40s released l x"},
		},
		"left and joined again in one transaction": {
			write: func(l *tape) {
				l.take(1, "l", "x").join(2, "l", "y", 1).after(sec)
				l.do(1, append(del(e("l", 0)), create(e("l", 2), l.record("x")), set(lockPath("l"), parent(znode.Mutex)))...)
			},
			want: []string{"0s made l by=x", "0s joined l x", "0s granted l x", "0s joined l y", "1s released l x again", "1s joined l x", "1s granted l y"},
		},
		"broken; its owner leaves": {
			write: func(l *tape) {
				mark := l.record("x", func(r *znode.Record) { r.Broken = &znode.Broken{Owner: "ops", Reason: "hangs"} })
				l.take(1, "l", "x").join(2, "l", "y", 1).after(sec).do(3, set(e("l", 0), mark), set(e("l", 0), mark)).after(sec).do(1, del(e("l", 0))...)
			},
			want: []string{"0s made l by=x", "0s joined l x", "0s granted l x", "0s joined l y", "1s broken l x by=ops: hangs", "2s released l x", "2s granted l y"},
		},
		"broken and deleted at once": {
			write: func(l *tape) {
				mark := l.record("x", func(r *znode.Record) { r.Broken = &znode.Broken{Owner: "ops"} })
				l.take(1, "l", "x").after(sec).do(3, set(e("l", 0), mark), set(e("l", 0), mark)).after(sec).do(3, del(e("l", 0))...)
			},
			want: []string{"0s made l by=x", "0s joined l x", "0s granted l x", "1s broken l x by=ops", "2s removed l x by=ops: by the client that broke it, before the end of the lease"},
		},
		"swept by the reaper": {
			write: func(l *tape) {
				l.take(5, "holdfast-reaper", "reaper").take(1, "l", "x").after(20*sec).renew(5, "holdfast-reaper", "reaper", 0).after(20*sec).
					do(5, del(e("l", 0), anchorPath("l"), lockPath("l"))...)
			},
			o:    Options{Reaper: "holdfast-reaper", Match: func(n string) bool { return n == "l" }},
			want: []string{"0s made l by=x", "0s joined l x", "0s granted l x", "15s at_risk l x", "30s expired l x", "40s swept l x by=reaper", "40s deleted l by=reaper"},
		},
		"detached and attached": {
			write: func(l *tape) {
				l.take(1, "l", "x").after(sec).renew(1, "l", "x", 0, l.granted, func(r *znode.Record) { r.Detached = true }).after(sec)
				taken := func(r *znode.Record) { r.Incarnation, r.Attachment = 1, gen }
				l.do(2, set(e("l", 0), l.record("y", l.granted, taken)), set(e("l", 0), l.record("y", l.granted, taken))).after(sec)
				free(l, 2, "l", 0)
			},
			want: []string{"0s made l by=x", "0s joined l x", "0s granted l x", "1s detached l x", "1s recorded l x", "2s attached l y by=x", "3s released l y", "3s deleted l by=y"},
		},
		"overwritten": {
			write: func(l *tape) { l.take(1, "l", "x").after(sec).do(9, set(e("l", 0), []byte("?"))) },
			want:  []string{"0s made l by=x", "0s joined l x", "0s granted l x", "1s overwritten l x: not Holdfast's data: invalid character '?' looking for beginning of value"},
		},
		"readers and a writer": {
			write: func(l *tape) {
				l.do(1, create(lockPath("l"), parent(znode.RW)), create(anchorPath("l"), znode.AnchorData{}.Encode()), create(entryPath("l", znode.Shared, 0), l.record("r0")))
				l.do(2, create(entryPath("l", znode.Shared, 1), l.record("r1"))).do(3, create(entryPath("l", znode.Writer, 2), l.record("w"))).do(4, create(entryPath("l", znode.Shared, 3), l.record("r3")))
				l.after(sec).do(1, del(entryPath("l", znode.Shared, 0))...).after(sec).do(2, del(entryPath("l", znode.Shared, 1))...).after(sec)
				l.do(3, set(entryPath("l", znode.Writer, 2), l.record("w", l.granted, func(r *znode.Record) { r.Shared = true })))
			},
			want: []string{"0s made l by=r0", "0s joined l r0 reads", "0s granted l r0", "0s joined l r1 reads", "0s granted l r1", "0s joined l w writes", "0s joined l r3 reads",
				"1s released l r0", "2s released l r1", "2s granted l w", "3s shared l w", "3s recorded l w", "3s granted l r3"},
		},
		"permits": {
			write: func(l *tape) {
				l.do(1, create(lockPath("l"), parent(znode.Semaphore)), create(anchorPath("l"), znode.AnchorData{Permits: 2}.Encode()), create(e("l", 0), l.record("a")))
				l.do(2, create(lockPath("l")+"/"+znode.Predict(znode.PermitsPrefix(gen, 2), 1), l.record("b"))).do(3, create(e("l", 2), l.record("c")))
				l.after(sec).do(1, set(anchorPath("l"), znode.AnchorData{Permits: 2, Resized: 3}.Encode())).after(sec).do(1, del(e("l", 0))...)
			},
			want: []string{"0s made l by=a 0->2", "0s joined l a 1 permit", "0s granted l a", "0s joined l b 2 permits", "0s joined l c 1 permit",
				"1s permits l by=a 2->3", "1s granted l b", "2s released l a", "2s granted l c"},
		},
		"a candidate leads once its grant is recorded": {
			write: func(l *tape) {
				value := func(r *znode.Record) { r.Metadata = map[string]string{znode.ValueKey: "v"} }
				l.take(1, "l", "x").do(2, create(e("l", 1), l.record("y", value))).after(sec).do(1, del(e("l", 0))...).after(sec).renew(2, "l", "y", 1, value, l.granted)
			},
			want: []string{"0s made l by=x", "0s joined l x", "0s granted l x", "0s joined l y priority 1", "1s released l x", "2s renewed l y", "2s granted l y", "2s recorded l y"},
		},
		"another library's entry ends with its session": {
			write: func(l *tape) {
				c := create(lockPath("l")+"/_c_0123-lock-0000000000", nil)
				c.Ephemeral = true
				l.do(1, c).join(2, "l", "y", 1).after(sec).do(1, txnlog.Op{Kind: txnlog.OpCloseSession})
			},
			want: []string{"0s joined l", "0s granted l", "0s joined l y", "0s adopted l by=y", "1s session_ended l", "1s granted l y"},
		},
		"asked to release": {
			write: func(l *tape) {
				r := znode.Revocation{Request: gen, Entry: "l/" + path.Base(e("l", 0)), Owner: "ops", Reason: "drain"}
				l.take(1, "l", "x").after(sec).do(3, create("/locks/.revoke/"+path.Base(e("l", 0)), r.Encode()))
			},
			want: []string{"0s made l by=x", "0s joined l x", "0s granted l x", "1s revoke_asked l x by=ops: drain"},
		},
		"runs of a job": {
			write: func(l *tape) {
				run := func(outcome string) []byte {
					return fmt.Appendf(nil, `{"holdfast":1,"job":"nightly","upto":"2026-11-26T03:00:00Z","runs":[{"tick":"2026-11-26T03:00:00Z","attempt":1,"outcome":%q,"owner":"x","token":"1","lock":"jobs/nightly"}]}`, outcome)
				}
				l.do(1, create("/holdfast-jobs/nightly", run("running"))).after(sec).do(1, set("/holdfast-jobs/nightly", run("running"))).after(sec).do(1, set("/holdfast-jobs/nightly", run("done")))
			},
			o:    Options{Jobs: "/holdfast-jobs"},
			want: []string{"0s tick jobs/nightly x: tick 2026-11-26T03:00:00Z: running", "2s tick jobs/nightly x: tick 2026-11-26T03:00:00Z: done"},
		},
		"an election with a clock behind": {
			write: func(l *tape) { l.take(1, "l", "x").leader().after(-5*sec).renew(1, "l", "x", 0).after(5 * sec) },
			want:  []string{"0s made l by=x", "0s joined l x", "0s granted l x", "-5s leader step=-5s", "-5s renewed l x"},
		},
		"2^32 transactions of a server that runs alone": {
			write: func(l *tape) {
				l.zxid |= 1<<32 - 2
				l.take(1, "l", "x").after(5*sec).renew(1, "l", "x", 0)
			},
			want: []string{"0s made l by=x", "0s joined l x", "0s granted l x", "5s renewed l x"},
		},
		"stepped ahead by an hour": {
			write: func(l *tape) {
				l.take(1, "l", "x").after(10*sec).renew(1, "l", "x", 0).after(10*sec + time.Hour)
				l.ahead = time.Hour
				l.renew(1, "l", "x", 0).after(10 * sec)
				l.ahead = 0
				l.renew(1, "l", "x", 0)
			},
			want: []string{"0s made l by=x", "0s joined l x", "0s granted l x", "10s renewed l x", "1h0m20s clock step=1h0m0s", "1h0m20s in_doubt l x", "1h0m20s renewed l x", "1h0m30s renewed l x"},
		},
		"paused, or stepped ahead: expired is told once the lease has ended in both cases": {
			write: func(l *tape) {
				l.take(1, "l", "x").take(2, "m", "y").after(26 * sec)
				l.ahead = 16 * sec
				l.renew(2, "m", "y", 0).after(6*sec).renew(1, "l", "x", 0).after(40 * sec)
				l.ahead = 0
				l.renew(1, "l", "x", 0)
			},
			o: Options{Match: func(n string) bool { return n == "l" }},
			want: []string{"0s made l by=x", "0s joined l x", "0s granted l x", "26s clock step=16s", "30s in_doubt l x", "32s renewed l x",
				"47s at_risk l x", "1m2s expired l x", "1m12s renewed l x late"},
		},
		"paused, or stepped ahead, as only another lock shows: in doubt until the next write": {
			write: func(l *tape) {
				l.take(1, "l", "x").take(2, "m", "y").after(26 * sec)
				l.ahead = 16 * sec
				l.renew(2, "m", "y", 0).after(14*sec).do(1, del(e("l", 0))...)
			},
			o:    Options{Match: func(n string) bool { return n == "l" }},
			want: []string{"0s made l by=x", "0s joined l x", "0s granted l x", "26s clock step=16s", "30s in_doubt l x", "40s released l x"},
		},
		"paused, or stepped ahead, by less than a lease": {
			write: func(l *tape) {
				l.take(1, "l", "x").after(20 * sec)
				l.ahead = 12 * sec
				l.renew(1, "l", "x", 0)
			},
			want: []string{"0s made l by=x", "0s joined l x", "0s granted l x", "20s clock step=12s", "20s renewed l x"},
		},
		"paused, or stepped ahead: another client is not accused of deleting an entry during its lease": {
			write: func(l *tape) {
				l.take(1, "l", "x").join(2, "l", "y", 1).after(26 * sec)
				l.ahead = 16 * sec
				l.renew(2, "l", "y", 1).after(7*sec).do(2, del(e("l", 0))...)
			},
			o: Options{Grace: func(string) time.Duration { return 2 * sec }},
			want: []string{"0s made l by=x", "0s joined l x", "0s granted l x", "0s joined l y", "26s clock step=16s", "26s renewed l y",
				"30s in_doubt l x", "33s purged l x by=y", "33s granted l y"},
		},
		"stepped back by an hour": {
			write: func(l *tape) {
				l.take(1, "l", "x").after(10*sec).renew(1, "l", "x", 0).after(10*sec - time.Hour)
				l.ahead = -time.Hour
				l.renew(1, "l", "x", 0)
			},
			want: []string{"0s made l by=x", "0s joined l x", "0s granted l x", "10s renewed l x", "-59m40s clock step=-59m50s", "-59m40s renewed l x"},
		},
		"slow, not stepped": {
			write: func(l *tape) {
				l.take(1, "l", "x").after(5*sec).take(2, "m", "y").after(5*sec).renew(2, "m", "y", 0).after(5*sec).renew(2, "m", "y", 0).after(sec)
				l.ahead = 11 * sec
				l.renew(1, "l", "x", 0)
			},
			o:    Options{Match: func(n string) bool { return n == "l" }},
			want: []string{"0s made l by=x", "0s joined l x", "0s granted l x", "16s renewed l x"},
		},
		"outside of the root": {
			write: func(l *tape) { l.do(1, create("/lockserver/x", nil), create("/other/"+path.Base(e("l", 0)), nil)) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newTape()
			c.write(l)
			_, events := l.play(c.o)
			if got := briefs(events); !slices.Equal(got, c.want) {
				t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(c.want, "\n\t"))
			}
		})
	}
}

// BenchmarkApply follows renewals of a thousand holds, and handoffs of a contended lock.
func BenchmarkApply(b *testing.B) {
	l := newTape()
	for i := range 1000 {
		l.take(int64(i+1), fmt.Sprintf("held/%d", i), fmt.Sprintf("client-%d", i))
	}
	l.take(5001, "busy", "x").join(5002, "busy", "y", 1)
	size := 0
	granted := func(r *znode.Record) { r.AcquiredAt = epoch0.UnixMilli() }
	for i := range 20_000 {
		l.after(5*time.Millisecond).renew(int64(i%1000+1), fmt.Sprintf("held/%d", i%1000), fmt.Sprintf("client-%d", i%1000), 0, granted)
	}
	for i := range int32(1000) {
		l.after(time.Millisecond).do(int64(5001+i%2), append(del(e("busy", i)), create(e("busy", i+2), l.record("x")), set(lockPath("busy"), parent(znode.Mutex)))...)
	}
	for _, t := range l.txns {
		size += 100
		for _, op := range t.Ops {
			size += len(op.Path) + len(op.Data) + 60
		}
	}
	b.SetBytes(int64(size))
	for b.Loop() {
		m := New(Options{Root: "/locks"}, func(Event) {})
		for i := range l.txns {
			m.Apply(&l.txns[i])
		}
	}
}
