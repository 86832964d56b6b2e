package shard

import (
	"cmp"
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

// candidate is a live candidate that is a member.
type candidate struct {
	Member
	number int   // of shards in its group
	plan   *plan // of the leader; nil: none, or not readable
}

// candidates returns the members among the live candidates of a group's election. It fails if there are
// other candidates only: that is no group. One beside members must not end them. A member counts once: it has
// another entry for a while if an error has kept its former one from being deleted.
func candidates(ctx context.Context, election *lock.Election) (members []candidate, err error) {
	all, err := election.Candidates(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		r, p, foreign := decode(c.Value)
		again := slices.ContainsFunc(members, func(m candidate) bool { return m.ID == r.ID })
		switch {
		case r.ID == "":
			err = fmt.Errorf("election %q: candidate %s: %w: %w", election.Name(), c.Entry, lock.ErrForeign, foreign)
		case !again:
			members = append(members, candidate{Member{ID: r.ID, Name: r.Name, Owner: c.Owner, Host: c.Host, PID: c.PID, Weight: r.Weight, Leads: c.Leads}, r.Shards, p})
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
		if s.Number == 0 || c.Leads {
			s.Number, s.Shards = c.number, make([]Shard, c.number)
		}
		if c.Leads && c.plan != nil {
			s.Planned = c.plan.at
			for i, owner := range c.plan.owners {
				s.Shards[i].Planned = owner
			}
		}
	}
	if !fast {
		owned, err := readOwners(ctx, admin.New(locks), group)
		if err != nil {
			return s, err
		}
		for i, shard := range owned {
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
		c.Shards, c.Owns = planned[c.ID], owned[c.ID]
		s.Members = append(s.Members, c.Member)
	}
	return s, nil
}

// readers is the number of shards that are read at once.
const readers = 16

// readOwners returns who owns each shard of a group, by index. The zero Shard has no owner.
func readOwners(ctx context.Context, tree admin.Tree, group string) ([]Shard, error) {
	children, _, err := tree.Children(ctx, tree.Path(group))
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	owned, errs := make([]Shard, MaxShards), make([]error, MaxShards)
	var reads sync.WaitGroup
	for first := range readers {
		reads.Go(func() {
			for i := first; i < MaxShards; i += readers {
				if name := strconv.Itoa(i); slices.Contains(children, name) {
					owned[i], errs[i] = readOwner(ctx, tree, group+"/"+name)
				}
			}
		})
	}
	reads.Wait()
	return owned, cmp.Or(errs...)
}

// readOwner returns who owns the shard of that name: its first contender holds the mutex, or will at once, if
// its lease runs. Its entry may not say so yet.
func readOwner(ctx context.Context, tree admin.Tree, name string) (shard Shard, err error) {
	state, err := tree.Inspect(ctx, name)
	if all := state.Contenders; len(all) > 0 && all[0].Ours && !all[0].Read.Earliest().After(all[0].Expires) {
		id, number, _ := strings.Cut(all[0].Metadata[markKey], "/")
		shard = Shard{Owner: id, Host: all[0].Host, PID: all[0].PID}
		if n, err := strconv.Atoi(number); err == nil && n >= 1 && n <= MaxShards {
			shard.number = n
		}
	}
	return shard, err
}
