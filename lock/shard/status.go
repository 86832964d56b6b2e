package shard

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
)

// Member is a live member of a group.
type Member struct {
	ID     string `json:"id"`    // new at each join
	Name   string `json:"name"`  // Options.Name
	Owner  string `json:"owner"` // see [lock.WithOwner]
	Host   string `json:"host"`
	PID    int    `json:"pid"`
	Weight int    `json:"weight"`
	Leads  bool   `json:"leads"`
	Shards int    `json:"shards"` // number that it is to own by the plan
	Owns   int    `json:"owns"`   // number that it owns; 0 if that was not read
}

// Status is the state of a group, read node by node: if the group is in use, its parts may be from
// slightly different times.
type Status struct {
	Group   string    `json:"group"`
	Number  int       `json:"number"`           // of shards; 0 if it is not known
	Planned time.Time `json:"planned,omitzero"` // ensemble time of the plan; zero: there is no leader, or it has not planned yet
	Members []Member  `json:"members"`          // in the order in which they joined
	Shards  []Shard   `json:"shards"`           // by index; none if the number is not known
}

// Shard is the state of one shard.
type Shard struct {
	Planned string `json:"planned"` // id of the member that is to own it; "" for none
	Owner   string `json:"owner"`   // id of the member that owns it now; "" for none, or if that was not read
	Host    string `json:"host"`    // of the owner
	PID     int    `json:"pid"`     // of the owner

	number int // of shards in the owner's group; 0: the owner is no member of a group
}

// Unowned returns how many shards have no owner now.
func (s Status) Unowned() (n int) {
	for _, shard := range s.Shards {
		if shard.Owner == "" {
			n++
		}
	}
	return n
}

// Moving returns how many shards have another owner than the plan says.
func (s Status) Moving() (n int) {
	for _, shard := range s.Shards {
		if shard.Owner != "" && shard.Planned != "" && shard.Owner != shard.Planned {
			n++
		}
	}
	return n
}

// Read returns the state of a group. With fast it reads the members and the plan only, and not which
// member owns each shard, which takes two reads a shard. Without members the state is that of the
// shards that still have an owner. A missing group is no error: it has neither members nor shards.
func Read(ctx context.Context, locks *lock.Client, group string, fast bool) (Status, error) {
	if locks == nil {
		return Status{}, invalid("client", "nil", "must come from lock.Dial or lock.New")
	}
	return read(ctx, locks, locks.Election(group+planName), group, fast)
}

func read(ctx context.Context, locks *lock.Client, election *lock.Election, group string, fast bool) (Status, error) {
	s := Status{Group: group}
	present, err := candidates(ctx, election)
	if err != nil {
		return s, err
	}
	for _, c := range present {
		if s.Number == 0 || c.entry.Leads {
			s.Number, s.Shards = c.Shards, make([]Shard, c.Shards)
		}
		if c.entry.Leads && c.plan != nil {
			s.Planned = c.plan.at
			for i, owner := range c.plan.owners {
				s.Shards[i].Planned = owner
			}
		}
	}
	if !fast {
		holders, err := readHolders(ctx, admin.New(locks), group)
		if err != nil {
			return s, err
		}
		for i, shard := range holders {
			if s.Number == 0 {
				s.Number, s.Shards = shard.number, make([]Shard, shard.number)
			}
			if i < s.Number && shard.number == s.Number {
				shard.Planned = s.Shards[i].Planned
				s.Shards[i] = shard
			}
		}
	}
	s.Members = s.members(present)
	return s, nil
}

// members returns the members, with the numbers of their shards.
func (s *Status) members(present []candidate) (members []Member) {
	planned, owned := map[string]int{}, map[string]int{}
	for _, shard := range s.Shards {
		planned[shard.Planned]++
		owned[shard.Owner]++
	}
	for _, c := range present {
		members = append(members, Member{
			ID: c.ID, Name: c.Name, Owner: c.entry.Owner, Host: c.entry.Host, PID: c.entry.PID, Weight: c.Weight, Leads: c.entry.Leads,
			Shards: planned[c.ID], Owns: owned[c.ID],
		})
	}
	return members
}

// readers is the number of shards that are read at once.
const readers = 16

// readHolders returns those shards of a group that have an owner, by index.
func readHolders(ctx context.Context, tree admin.Tree, group string) (map[int]Shard, error) {
	children, _, err := tree.Children(ctx, tree.Path(group))
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	var mu sync.Mutex
	var failed error
	var work sync.WaitGroup
	holders, slot := map[int]Shard{}, make(chan struct{}, readers)
	for _, child := range children {
		shard, err := strconv.Atoi(child)
		if err != nil || strconv.Itoa(shard) != child || shard < 0 {
			continue
		}
		slot <- struct{}{}
		work.Go(func() {
			defer func() { <-slot }()
			state, err := tree.Inspect(ctx, group+"/"+child)
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
			if h, ok := holderOf(state); ok {
				holders[shard] = h
			}
		})
	}
	work.Wait()
	return holders, failed
}

// holderOf returns the owner of a shard: the first contender, if its lease runs. It holds the mutex, or will
// at once; its entry may not say so yet.
func holderOf(state admin.State) (Shard, bool) {
	if len(state.Contenders) == 0 {
		return Shard{}, false
	}
	c := state.Contenders[0]
	if !c.Ours || c.Read.Earliest().After(c.Expires) {
		return Shard{}, false
	}
	_, number, _ := strings.Cut(c.Metadata[markKey], "/")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > MaxShards {
		n = 0 // it is no member's
	}
	return Shard{Owner: memberOf(c), Host: c.Host, PID: c.PID, number: n}, true
}

// memberOf returns the id of the member that a shard's contender is of; "" for none.
func memberOf(c admin.Contender) string {
	id, _, _ := strings.Cut(c.Metadata[markKey], "/")
	return id
}
