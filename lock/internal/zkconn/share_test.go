package zkconn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// sharing is a connection whose transactions take 10 ms, with a limit of transactions in flight.
type sharing struct {
	*world
	*Conn
	wg sync.WaitGroup
}

func simulateSharing(t *testing.T, inFlight int, f func(s *sharing)) {
	t.Helper()
	link := locktest.Options{Latency: func(string, string) time.Duration { return 5 * time.Millisecond }}
	simulate(t, link, func(w *world) {
		cfg := w.config("a")
		cfg.InFlight = inFlight
		s := &sharing{world: w, Conn: w.dial(cfg)}
		s.make("/a")
		s.make("/b")
		f(s)
	})
}

func (s *sharing) make(path string) {
	iferr.Fatal(s, iferr.Of(s.Multi(s.ctx, create(path))))
}

// begin shares a member in the background, and stores its answer.
func (s *sharing) begin(ctx context.Context, m Member) *answer {
	a := new(answer)
	s.wg.Go(func() { a.replies, a.err = s.Share(ctx, m) })
	synctest.Wait()
	return a
}

type answer struct {
	replies []zk.MultiResponse
	err     error
}

func (s *sharing) transactions() int { return int(s.Transactions()) }

func create(path string) *zk.CreateRequest {
	return &zk.CreateRequest{Path: path, Acl: zk.WorldACL(zk.PermAll)}
}

func remove(path string) *zk.DeleteRequest { return &zk.DeleteRequest{Path: path, Version: -1} }

func (s *sharing) there(path string) bool { return len(s.Dump(path)) > 0 }

// TestShare: members go alone while fewer than the limit are in flight. Those that wait share the
// next transaction, and each gets the replies to its own operations.
func TestShare(t *testing.T) {
	simulateSharing(t, 2, func(s *sharing) {
		before := s.transactions()
		var as []*answer
		for i := range 10 {
			path := fmt.Sprintf("/a/%d", i)
			as = append(as, s.begin(s.ctx, Member{Ops: []any{create(path), &zk.SetDataRequest{Path: path}}, Locks: []string{path}}))
		}
		s.wg.Wait()
		for i, a := range as {
			if a.err != nil || len(a.replies) != 2 || a.replies[0].String != fmt.Sprintf("/a/%d", i) || a.replies[1].Stat == nil {
				t.Errorf("%d: %+v, %v", i, a.replies, a.err)
			}
		}
		if n := s.transactions() - before; n != 3 {
			t.Errorf("%d transactions for 10 members, want 2 single ones and one of 8", n)
		}
	})
}

// TestSole: a sole member is the only one of its locks in a transaction. Others of these locks wait
// for the next one.
func TestSole(t *testing.T) {
	for _, soles := range [][2]bool{{false, false}, {true, false}, {false, true}} {
		simulateSharing(t, 1, func(s *sharing) {
			before := s.transactions()
			s.begin(s.ctx, Member{Ops: []any{create("/a/first")}})
			s.begin(s.ctx, Member{Ops: []any{create("/a/1")}, Locks: []string{"/a"}, Sole: soles[0]})
			s.begin(s.ctx, Member{Ops: []any{create("/a/2")}, Locks: []string{"/a"}, Sole: soles[1]})
			s.begin(s.ctx, Member{Ops: []any{create("/b/1")}, Locks: []string{"/b"}, Sole: true})
			s.wg.Wait()
			want := 2
			if soles[0] || soles[1] {
				want = 3
			}
			if n := s.transactions() - before; n != want {
				t.Errorf("sole %v: %d transactions, want %d", soles, n, want)
			}
		})
	}
}

// TestShareRefused: the member whose operation the server refuses gets its answer. The others are
// applied. What they were told to do after a wrong guess depends on Guess and Sure.
func TestShareRefused(t *testing.T) {
	wrong := func(path string) []any { return []any{create(path), remove("/none")} }
	right := func(path string) []any { return []any{create(path), &zk.CheckVersionRequest{Path: "/a", Version: -1}} }
	for _, c := range []struct {
		name         string
		refused      Member
		other        Member
		replies      [2]int // number of replies; -1: refused; -2: ErrNeighbor
		transactions int    // after the first
	}{
		{"no guess", Member{Ops: wrong("/a/1")}, Member{Ops: right("/a/2"), Guess: true}, [2]int{-1, 2}, 2},
		{"a guess, the other is none", Member{Ops: wrong("/a/1"), Guess: true}, Member{Ops: right("/a/2")}, [2]int{-1, 2}, 2},
		{"two guesses", Member{Ops: wrong("/a/1"), Guess: true}, Member{Ops: right("/a/2"), Guess: true}, [2]int{-1, -2}, 1},
		{"surely one operation", Member{Ops: wrong("/a/1"), Guess: true, Sure: 1}, Member{Ops: right("/a/2"), Guess: true, Sure: 1}, [2]int{1, 1}, 2},
		{"surely one, no guess", Member{Ops: wrong("/a/1"), Sure: 1}, Member{Ops: right("/a/2"), Guess: true, Sure: 1}, [2]int{1, 2}, 2},
		{"the sure one is refused", Member{Ops: []any{remove("/none"), create("/a/1")}, Sure: 1}, Member{Ops: right("/a/2")}, [2]int{-1, 2}, 2},
	} {
		for _, first := range []bool{true, false} {
			simulateSharing(t, 1, func(s *sharing) {
				s.begin(s.ctx, Member{Ops: []any{create("/a/first")}})
				before := s.transactions()
				var a [2]*answer
				if first {
					a[0] = s.begin(s.ctx, c.refused)
				}
				a[1] = s.begin(s.ctx, c.other)
				if !first {
					a[0] = s.begin(s.ctx, c.refused)
				}
				s.wg.Wait()
				for i, a := range a {
					op, cause := RefusedOp(a.err)
					switch want := c.replies[i]; {
					case want == -1 && (op < 0 || op >= 2 || !errors.Is(cause, zk.ErrNoNode)),
						want == -2 && (!errors.Is(a.err, ErrNeighbor) || OutcomeOf(a.err) != Retryable),
						want >= 0 && (a.err != nil || len(a.replies) != want):
						t.Errorf("%s: member %d: %+v, %v, want %d", c.name, i, a.replies, a.err, want)
					}
					if path := fmt.Sprintf("/a/%d", i+1); s.there(path) != (c.replies[i] > 0) {
						t.Errorf("%s: %s is there: %v", c.name, path, s.there(path))
					}
				}
				if n := s.transactions() - before - 1; n != c.transactions {
					t.Errorf("%s: %d transactions, want %d", c.name, n, c.transactions)
				}
			})
		}
	}
}

// TestShareRefusedTwice: after a second refusal in a group the others go alone, so that no member
// waits for all wrong ones before it.
func TestShareRefusedTwice(t *testing.T) {
	simulateSharing(t, 1, func(s *sharing) {
		s.begin(s.ctx, Member{Ops: []any{create("/a/first")}})
		began := time.Now()
		var wrong, right []*answer
		for i := range 20 {
			wrong = append(wrong, s.begin(s.ctx, Member{Ops: []any{remove("/none")}}))
			right = append(right, s.begin(s.ctx, Member{Ops: []any{create(fmt.Sprintf("/a/%d", i))}}))
		}
		s.wg.Wait()
		for i := range wrong {
			if op, _ := RefusedOp(wrong[i].err); op != 0 || right[i].err != nil {
				t.Errorf("%d: %v, %v", i, wrong[i].err, right[i].err)
			}
		}
		if took := time.Since(began); took > 45*time.Millisecond {
			t.Errorf("%v, want four replies' time", took)
		}
	})
}

// TestShareNotSent: what waits is not sent once its caller has given up, the session is lost or the
// connection closes, except deletes of a caller that has given up.
func TestShareNotSent(t *testing.T) {
	for _, c := range []struct {
		name   string
		happen func(s *sharing, giveUp func())
		stays  bool
		sent   bool
		is     error
	}{
		{"gives up", func(_ *sharing, giveUp func()) { giveUp() }, false, false, context.Canceled},
		{"gives up, stays", func(_ *sharing, giveUp func()) { giveUp() }, true, true, context.Canceled},
		{"lost", func(s *sharing, _ func()) { s.Partition("a") }, false, false, ErrUnavailable},
		{"lost, stays", func(s *sharing, _ func()) { s.Partition("a") }, true, false, ErrUnavailable},
	} {
		simulateSharing(t, 1, func(s *sharing) {
			s.begin(s.ctx, Member{Ops: []any{create("/a/first")}})
			ctx, cancel := context.WithCancel(s.ctx)
			defer cancel()
			sends := 0
			a := s.begin(ctx, Member{Ops: []any{create("/a/1")}, Stays: c.stays, Sending: func() { sends++ }})
			c.happen(s, cancel)
			s.wg.Wait()
			mustBe(t, a.err, c.is)
			if got := OutcomeOf(a.err); got == Ambiguous != c.sent {
				t.Errorf("%s: outcome %d", c.name, got)
			}
			s.Heal("a")
			time.Sleep(2 * sessionTimeout)
			if s.there("/a/1") != c.sent || sends == 1 != c.sent {
				t.Errorf("%s: sent %d times, is there: %v", c.name, sends, s.there("/a/1"))
			}
		})
	}
}

// TestShareSize: a transaction has at most BatchBytes, and what fills it does not wait.
func TestShareSize(t *testing.T) {
	simulateSharing(t, 1, func(s *sharing) {
		s.begin(s.ctx, Member{Ops: []any{create("/a/first")}})
		before, began := s.transactions(), time.Now()
		for i := range 8 {
			op := create(fmt.Sprintf("/a/%d", i))
			op.Data = make([]byte, BatchBytes/3-200)
			s.begin(s.ctx, Member{Ops: []any{op}})
		}
		s.wg.Wait()
		if n, took := s.transactions()-before, time.Since(began); n != 4 || took > 25*time.Millisecond {
			t.Errorf("%d transactions in %v, want 4 in two replies' time", n, took)
		}
	})
}

// kind is one kind of member: whether the server refuses its first or second operation, and what the
// member says of itself.
type kind struct {
	refuses int // number of the refused operation; 0: none
	guess   bool
	sure    int
}

func kinds() (all []kind) {
	for refuses := range 3 {
		for _, guess := range []bool{false, true} {
			for sure := range 2 {
				all = append(all, kind{refuses, guess, sure})
			}
		}
	}
	return all
}

// member returns a member of the kind, which creates two nodes.
func (k kind) member(name string) Member {
	m := Member{Ops: []any{create("/a/" + name + ".1"), create("/a/" + name + ".2")}, Guess: k.guess, Sure: k.sure}
	if k.refuses > 0 {
		m.Ops[k.refuses-1] = create("/b")
	}
	return m
}

// check reports what is wrong with the answer to a member: nodes are the numbers of its nodes that
// exist; lost: replies were lost.
func (k kind) check(a *answer, name string, nodes []bool, neighborWrong, lost bool) string {
	applied := 0
	for i, there := range nodes {
		if there && i+1 != k.refuses {
			applied++
		}
	}
	for i, r := range a.replies {
		if a.err == nil && r.String != fmt.Sprintf("/a/%s.%d", name, i+1) {
			return "replies of another member"
		}
	}
	op, cause := RefusedOp(a.err)
	switch {
	case a.err == nil && len(a.replies) == 2:
		if applied != 2 {
			return "told as applied, and is not"
		}
	case a.err == nil && len(a.replies) == 1:
		if k.sure != 1 || !nodes[0] || nodes[1] || k.refuses != 2 && !(k.guess && neighborWrong) {
			return "reduced without a reason, or not applied"
		}
	case a.err == nil:
		return "no replies"
	case op >= 0:
		if applied > 0 || op != k.refuses-1 || !errors.Is(cause, zk.ErrNodeExists) || k.refuses == 2 && k.sure == 1 {
			return "refused without a reason, or applied"
		}
	case errors.Is(a.err, ErrNeighbor):
		if applied > 0 || !k.guess || k.sure > 0 || !neighborWrong {
			return "told of a neighbor without a reason, or applied"
		}
	case OutcomeOf(a.err) == Ambiguous:
		if !lost {
			return "in doubt, and no reply was lost"
		}
	case OutcomeOf(a.err) == Retryable:
		if applied > 0 || !lost {
			return "told as not sent, and was applied, or could be sent"
		}
	default:
		return "another error"
	}
	return ""
}

// TestShareExhaustively: all pairs and triples of kinds in one transaction, and pairs with the loss of
// each reply. What a member is told is what has become of it, and no member's answer depends on
// another one but by a guess.
func TestShareExhaustively(t *testing.T) {
	var groups [][]kind
	for _, one := range kinds() {
		for _, two := range kinds() {
			groups = append(groups, []kind{one, two})
			for _, three := range kinds() {
				groups = append(groups, []kind{one, two, three})
			}
		}
	}
	try := func(s *sharing, number int, group []kind, lost bool) {
		var as []*answer
		var names []string
		guessesWrong := 0
		for i, k := range group {
			names = append(names, fmt.Sprintf("%d.%d.%v", number, i, lost))
			as = append(as, s.begin(s.ctx, k.member(names[i])))
			if k.guess && k.refuses > 0 {
				guessesWrong++
			}
		}
		s.wg.Wait()
		for i, k := range group {
			others := guessesWrong
			if k.guess && k.refuses > 0 {
				others--
			}
			nodes := []bool{s.there("/a/" + names[i] + ".1"), s.there("/a/" + names[i] + ".2")}
			if why := k.check(as[i], names[i], nodes, others > 0, lost); why != "" {
				t.Errorf("%+v: member %d: %s: nodes %v, %d replies, %v", group, i, why, nodes, len(as[i].replies), as[i].err)
			}
		}
	}
	simulateSharing(t, 1, func(s *sharing) {
		for number, group := range groups {
			s.begin(s.ctx, Member{Ops: []any{create(fmt.Sprint("/a/first", number))}})
			try(s, number, group, false)
		}
	})
	for reply := range 3 {
		for _, drop := range []locktest.Drop{locktest.BeforeApply, locktest.AfterApply} {
			simulateSharing(t, 1, func(s *sharing) {
				for number, group := range groups {
					if len(group) > 2 {
						continue
					}
					s.begin(s.ctx, Member{Ops: []any{create(fmt.Sprint("/a/first", number))}})
					n := -1 // the first member is not counted
					s.Intercept(func(r locktest.Request) locktest.Fault {
						if r.Op != "multi" {
							return locktest.Fault{}
						}
						if n++; n == reply+1 {
							return locktest.Fault{Drop: drop}
						}
						return locktest.Fault{}
					})
					try(s, number, group, true)
					s.Intercept(nil)
					iferr.Fatal(t, s.Ready(s.ctx))
				}
			})
		}
	}
}
