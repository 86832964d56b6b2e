package shard

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// Limits of a group.
const (
	MaxShards  = 1024 // largest number of shards
	MaxMembers = 200  // largest number of members, see [Room]
	MaxWeight  = 1000 // largest weight of a member
	MaxName    = 64   // longest name of a member, in bytes

	maxPlan = 3500 // bytes of a plan's members and shards: they fit into an entry's metadata
	idSize  = 8
	format  = 1 // highest format of plans that this release reads, and the one that it writes
)

// Room returns how many members a group of that many shards can have: a plan has eight bytes for
// each member and two for each shard, at most 3,500 together.
func Room(shards int) int { return min(MaxMembers, (maxPlan-2*shards)/idSize) }

// record is the value of a candidate, as JSON. Later releases may add fields.
type record struct {
	Reads  int    `json:"reads"` // highest format of plans that it reads
	ID     string `json:"id"`
	Shards int    `json:"shards"` // the group's number of shards
	Weight int    `json:"weight"`
	Name   string `json:"name,omitempty"`
	Plan   string `json:"plan,omitempty"` // of a leader: format, time, members' ids, and members' numbers by shard
}

// plan says which member is to own each shard.
type plan struct {
	at      time.Time // ensemble time at which it was made, in whole seconds
	members []string  // ids, of those without a shard too
	owners  []string  // ids by shard; "" for none
}

// newID returns the id of a new member.
func newID() string { return strings.ToLower(rand.Text()[:idSize]) }

// encode returns the value of a candidate; with the plan of a leader unless p is nil.
func encode(r record, p *plan) string {
	if p != nil {
		r.Plan = p.text()
	}
	value, err := json.Marshal(r)
	if err != nil {
		panic(err) // numbers and strings can always be encoded
	}
	return string(value)
}

func (p *plan) text() string {
	numbers := make([]byte, len(p.owners))
	for i, owner := range p.owners {
		numbers[i] = byte(slices.Index(p.members, owner))
	}
	return fmt.Sprintf("%d %d %s %x", format, p.at.Unix(), strings.Join(p.members, ""), numbers)
}

// decode parses the value of a candidate. The plan is nil if the value has none. If only the plan
// cannot be read, decode returns the record and an error.
func decode(value string) (r record, p *plan, err error) {
	err = json.Unmarshal([]byte(value), &r)
	if err == nil && (len(r.ID) != idSize || r.Shards < 1 || r.Shards > MaxShards || r.Weight < 1 || r.Weight > MaxWeight) {
		err = errors.New("a field is missing, or out of range")
	}
	if err != nil {
		return record{}, nil, fmt.Errorf("the value %.40q is not that of a member of a group of shards: %w", value, err)
	}
	text := r.Plan
	if r.Plan = ""; text != "" {
		p, err = decodePlan(text, r.Shards)
	}
	return r, p, err
}

func decodePlan(text string, shards int) (*plan, error) {
	fields := append(strings.Split(text, " "), "", "", "") // of damaged text the plan has another text, see below
	version, _ := strconv.Atoi(fields[0])
	at, _ := strconv.ParseInt(fields[1], 10, 64)
	members := fields[2] // "" in a plan without members
	numbers, _ := hex.DecodeString(fields[3])
	if version > format {
		return nil, fmt.Errorf("the plan: %w: format %d, this one reads up to %d", znode.ErrNewer, version, format)
	}
	p := &plan{at: time.Unix(at, 0), owners: make([]string, shards)}
	for id := range slices.Chunk([]byte(members), idSize) {
		p.members = append(p.members, string(id))
	}
	for i, m := range numbers[:min(shards, len(numbers))] {
		if int(m) < len(p.members) { // else it has none
			p.owners[i] = p.members[m]
		}
	}
	if p.text() != text || len(members)%idSize != 0 {
		return nil, fmt.Errorf("the plan %.40q of %d shards is damaged", text, shards)
	}
	return p, nil
}

// has reports whether the plan knows the member. A nil plan knows none.
func (p *plan) has(id string) bool {
	return p != nil && slices.Contains(p.members, id)
}
