package integration_test

import (
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// pulse is a node that is written again and again, to know of outages.
type pulse struct {
	*bench
	path string

	mu      sync.Mutex
	served  time.Time // when it was written last; zero: not yet
	outages []outage
}

// outage is a time in which nobody could write.
type outage struct{ began, ended time.Time }

// noOutage is how long a write may take that is none.
const noOutage = time.Second

func (b *bench) newPulse() *pulse {
	b.Helper()
	return &pulse{bench: b, path: b.create("/pulse-", "", zk.FlagSequence)}
}

// beat writes it once, and notes what outage has ended by that.
func (p *pulse) beat() {
	if _, err := p.raw.Set(p.path, nil, -1); err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !p.served.IsZero() && now.Sub(p.served) > noOutage {
		p.outages = append(p.outages, outage{p.served, now})
	}
	p.served = now
}

// seen are the outages that were noted.
func (p *pulse) seen() []outage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.outages)
}

// longest is how long the longest outage was, be it one that has not ended.
func (p *pulse) longest() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var most time.Duration
	if !p.served.IsZero() {
		most = time.Since(p.served)
	}
	for _, o := range p.outages {
		most = max(most, o.ended.Sub(o.began))
	}
	return most
}
