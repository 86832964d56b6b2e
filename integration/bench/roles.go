package main

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/holdfast-io/holdfast/lock"
)

// role is a peer's implementation of another lock than a mutex, or of another use.
type role struct {
	title string
	open  opener   // of a peer that lives in this process
	args  []string // of a program
}

const (
	reading   = "reading"   // a read/write lock, to read
	writing   = "writing"   // the same, to write
	permits   = "permits"   // one of the permits of a semaphore
	plenty    = "plenty"    // one of many permits
	severally = "severally" // several locks together
	leading   = "leading"   // an election
	strictly  = "strictly"  // no entry is handed on within a client
	apart     = "apart"     // each contender has an entry of its own
	keeping   = "keeping"   // the lock is kept between uses
)

const (
	permitCount = 4  // of the semaphore
	plentyCount = 64 // of one that has many
	atATime     = 8  // locks together
	keepFor     = 500 * time.Millisecond
)

// as returns the peer in that role, or itself if it has no such role.
func (p *peer) as(name string) *peer {
	r, ok := p.roles[name]
	if !ok {
		return p
	}
	one := *p
	one.Title, one.open, one.args = r.title, r.open, r.args
	return &one
}

// plays returns a function that accepts the peers with that role.
func plays(role string) func(p *peer) bool {
	return func(p *peer) bool { _, ok := p.roles[role]; return ok }
}

var openHoldfast = openTaking(func(c *lock.Client, name string) take { return held(c.Mutex(name).Lock) })

var holdfastRoles = map[string]role{
	reading:   {title: "Holdfast RWMutex", open: openTaking(func(c *lock.Client, name string) take { return held(c.RWMutex(name).RLock) })},
	writing:   {title: "Holdfast RWMutex", open: openTaking(func(c *lock.Client, name string) take { return held(c.RWMutex(name).Lock) })},
	permits:   {title: "Holdfast Semaphore", open: openTaking(permitOf(permitCount))},
	plenty:    {title: "Holdfast Semaphore", open: openTaking(permitOf(plentyCount))},
	severally: {title: "Holdfast LockAll", open: openTaking(func(c *lock.Client, name string) take { return held(c.All(namesOf(name)).Lock) })},
	leading: {title: "Holdfast Election", open: openTaking(func(c *lock.Client, name string) take {
		e := c.Election(name)
		return held(func(ctx context.Context) (*lock.Leadership, error) { return e.Campaign(ctx, "node1:8080") })
	})},
	strictly: {title: "Holdfast, no window", open: openTaking(func(c *lock.Client, name string) take { return held(c.Mutex(name, lock.WithLocalWindow(0)).Lock) })},
	apart: {title: "Holdfast, an entry each", open: openTaking(func(c *lock.Client, name string) take {
		// Requests with different settings share no entry.
		own := map[string]string{"contender": strconv.FormatInt(contenders.Add(1), 10)}
		return held(c.Mutex(name, lock.WithMetadata(own)).Lock)
	})},
	keeping: {title: "Holdfast, kept", open: openTaking(func(c *lock.Client, name string) take { return held(c.Mutex(name, lock.WithIdle(keepFor)).Lock) })},
}

func permitOf(n int) func(c *lock.Client, name string) take {
	return func(c *lock.Client, name string) take {
		s := c.Semaphore(name, n)
		return held(func(ctx context.Context) (*lock.Hold, error) { return s.Acquire(ctx, 1) })
	}
}

// contenders numbers the contenders that need an entry each.
var contenders atomic.Int64

// namesOf returns the names of several locks that are taken together; the first is name.
func namesOf(name string) []string {
	names := []string{name}
	for i := 1; i < atATime; i++ {
		names = append(names, name+"-"+strconv.Itoa(i))
	}
	return names
}
