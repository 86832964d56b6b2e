// Transactions.

package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// ledger is the node in which each applied transaction creates one child.
const ledger = "/ledger"

// told is a transaction and its reported result.
type told struct {
	label, name string
	token       lock.Token
	err         error
}

func (s *sim) makeLedger(z *zk.Conn) {
	if _, err := z.Create(ledger, nil, 0, open); err != nil {
		s.Fatalf("seed %d: create %s: %v", s.seed, ledger, err)
	}
}

func (p *process) transact(ctx context.Context, r *rand.Rand, label string, h held) {
	limited, cancel := p.limit(ctx, label, between(r, 0, p.ttl))
	defer cancel()
	id := fmt.Sprintf("%s/%016x-", ledger, r.Uint64())
	begun := time.Now()
	err := h.Txn(limited, lock.OpCreate(id, []byte(h.Name()+" "+h.Token().String()), zk.FlagSequence, open))
	p.inTime(label, "Txn", limited, begun)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sayLocked("%s: %s in a transaction of %s, token %v: %v", label, id, h.Name(), h.Token(), err)
	if begun.Before(p.forgotten) {
		return
	}
	p.txns[id] = told{label, h.Name(), h.Token(), err}
	switch {
	case err == nil:
		p.tally.count("transactions", 1)
	case errors.Is(err, lock.ErrInDoubt):
		p.tally.count("transactions in doubt", 1)
	default:
		p.tally.count("transactions not applied", 1)
	}
	ended := limited.Err() != nil || h.Err() != nil
	if err != nil && !ended && !isOne(err, lock.ErrUnavailable, lock.ErrClosed, lock.ErrUnlocked) && !p.refusalLocked(h.client, err) && p.forgotten.IsZero() {
		p.violatedLocked("%s: transaction of %s: %v", label, h.Name(), err)
	}
}

// checkLedger checks that each transaction was applied once or not at all, as its result says. The
// transactions of an exclusive lock must be in the order of their tokens.
func (s *sim) checkLedger() {
	marks := s.Dump(ledger)
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(marks, func(a, b locktest.Node) int { return cmp.Compare(a.Stat.Czxid, b.Stat.Czxid) })
	applied, last := map[string]int{}, map[string]string{}
	for _, n := range marks {
		if n.Path == ledger {
			continue
		}
		applied[n.Path[:len(n.Path)-10]]++ // path without the sequence
		name, token, _ := strings.Cut(string(n.Data), " ")
		if shared := name == slots || name == pages; token < last[name] && !shared {
			s.violatedLocked("%s: a transaction of token %s was applied after one of token %s", name, token, last[name])
		}
		last[name] = token
	}
	for id, t := range s.txns {
		times, wanted := applied[id], 0
		if t.err == nil {
			wanted = 1
		}
		if doubt := errors.Is(t.err, lock.ErrInDoubt); times > 1 || !doubt && times != wanted {
			s.violatedLocked("%s: %s of %s, token %v, was applied %d times; told: %v", t.label, id, t.name, t.token, times, t.err)
		}
	}
}
