package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// candidates returns the members among the live candidates of a group's election. It fails if there are
// other candidates only: that is no group. One beside members must not end them.
func candidates(ctx context.Context, election *lock.Election) (members []candidate, err error) {
	all, err := election.Candidates(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		r, p, foreign := decode(c.Value)
		if r.ID != "" {
			members = append(members, candidate{record: r, host: c.Owner + "@" + c.Host, plan: p, entry: c})
		} else {
			err = fmt.Errorf("election %q: candidate %s: %w: %w", election.Name(), c.Entry, lock.ErrForeign, foreign)
		}
	}
	if len(members) > 0 {
		err = nil
	}
	return members, err
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
	planned, owned := map[string]int{}, map[string]int{}
	for _, shard := range s.Shards {
		planned[shard.Planned]++
		owned[shard.Owner]++
	}
	for _, c := range present {
		s.Members = append(s.Members, Member{
			ID: c.ID, Name: c.Name, Owner: c.entry.Owner, Host: c.entry.Host, PID: c.entry.PID, Weight: c.Weight, Leads: c.entry.Leads,
			Shards: planned[c.ID], Owns: owned[c.ID],
		})
	}
	return s, nil
}

// readers is the number of shards that are read at once.
const readers = 16

// readHolders returns those shards of a group that have an owner, by index.
func readHolders(ctx context.Context, tree admin.Tree, group string) (map[int]Shard, error) {
	children, _, err := tree.Children(ctx, tree.Path(group))
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	var shards []int
	for i := range MaxShards {
		if slices.Contains(children, strconv.Itoa(i)) {
			shards = append(shards, i)
		}
	}
	states, errs := make([]admin.State, len(shards)), make([]error, len(shards))
	var reads sync.WaitGroup
	for first := range readers {
		reads.Go(func() {
			for i := first; i < len(shards); i += readers {
				states[i], errs[i] = tree.Inspect(ctx, fmt.Sprintf("%s/%d", group, shards[i]))
			}
		})
	}
	reads.Wait()
	holders := map[int]Shard{}
	for i, shard := range shards {
		if errs[i] != nil {
			return nil, errs[i]
		}
		// The first contender holds the mutex, or will at once, if its lease runs; its entry may not say so yet.
		if all := states[i].Contenders; len(all) > 0 && all[0].Ours && !all[0].Read.Earliest().After(all[0].Expires) {
			id, number := markOf(all[0])
			holders[shard] = Shard{Owner: id, Host: all[0].Host, PID: all[0].PID, number: number}
		}
	}
	return holders, nil
}

// markOf returns the id of the member that a shard's contender is of, and its group's number of shards; ""
// and 0 for no member.
func markOf(c admin.Contender) (id string, number int) {
	id, text, _ := strings.Cut(c.Metadata[markKey], "/")
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxShards {
		return id, 0
	}
	return id, n
}
