package shard

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
)

// reader is what reads of package admin's Tree.
type reader interface {
	Path(name string) string
	Children(ctx context.Context, path string) ([]string, *zk.Stat, error)
	Get(ctx context.Context, path string) ([]byte, *zk.Stat, error)
}

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
	all, err := election.Candidates(ctx)
	if err != nil {
		return s, err
	}
	for _, c := range all {
		r, p, err := decode(c.Value)
		if r.ID == "" {
			return s, err
		}
		s.Members = append(s.Members, Member{
			ID: r.ID, Name: r.Name, Owner: c.Owner, Host: c.Host, PID: c.PID, Weight: r.Weight, Leads: c.Leads,
		})
		if s.Number == 0 || c.Leads {
			s.resize(r.Shards)
		}
		if c.Leads && p != nil {
			s.Planned = p.at
			for i, owner := range p.owners {
				s.Shards[i].Planned = owner
			}
		}
	}
	if !fast {
		holders, err := readHolders(ctx, admin.New(locks), group)
		if err != nil {
			return s, err
		}
		for _, h := range holders {
			if s.Number == 0 {
				s.resize(h.number)
			}
			if h.shard < s.Number && h.number == s.Number {
				shard := &s.Shards[h.shard]
				shard.Owner, shard.Host, shard.PID = h.member, h.host, h.pid
			}
		}
	}
	for i := range s.Members {
		m := &s.Members[i]
		for _, shard := range s.Shards {
			if shard.Planned == m.ID {
				m.Shards++
			}
			if shard.Owner == m.ID {
				m.Owns++
			}
		}
	}
	return s, nil
}

func (s *Status) resize(number int) { s.Number, s.Shards = number, make([]Shard, number) }

// List returns the names of all groups that have members, sorted. It lists all nodes below the
// client's root.
func List(ctx context.Context, locks *lock.Client) ([]string, error) {
	if locks == nil {
		return nil, invalid("client", "nil", "must come from lock.Dial or lock.New")
	}
	tree := admin.New(locks)
	var groups []string
	for names := []string{""}; len(names) > 0; names = names[1:] {
		children, _, err := tree.Children(ctx, tree.Path(names[0]))
		if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth) {
			return nil, err
		}
		for _, child := range children {
			if names[0] != "" && "/"+child == planName {
				if s, err := Read(ctx, locks, names[0], true); err == nil && len(s.Members) > 0 {
					groups = append(groups, names[0])
				}
			}
			names = append(names, strings.TrimPrefix(names[0]+"/"+child, "/"))
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	slices.Sort(groups)
	return groups, nil
}

// holder is the owner of a shard.
type holder struct {
	shard, number int // number of the group's shards, as the holder states it; 0: none
	member, host  string
	pid           int
}

// readers is the number of shards that are read at once.
const readers = 16

// readHolders returns the owners of a group's shards, as far as their mutexes have nodes.
func readHolders(ctx context.Context, tree admin.Tree, group string) ([]holder, error) {
	children, _, err := tree.Children(ctx, tree.Path(group))
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	var mu sync.Mutex
	var holders []holder
	var failed error
	var work sync.WaitGroup
	slot := make(chan struct{}, readers)
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
			if failed = errors.Join(failed, err); err != nil {
				return
			}
			if h, ok := holderOf(shard, state); ok {
				holders = append(holders, h)
			}
		})
	}
	work.Wait()
	return holders, failed
}

// holderOf returns the owner of a shard: the first contender, if it holds the mutex and its lease
// runs.
func holderOf(shard int, state admin.State) (holder, bool) {
	if len(state.Contenders) == 0 {
		return holder{}, false
	}
	c := state.Contenders[0]
	if !c.Ours || c.Acquired.IsZero() || c.Read.Earliest().After(c.Expires) {
		return holder{}, false
	}
	number, _ := strconv.Atoi(c.Metadata[keyNumber])
	return holder{shard, number, c.Metadata[keyMember], c.Host, c.PID}, true
}
