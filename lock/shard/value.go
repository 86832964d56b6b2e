package shard

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
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

// errNewer says that a plan is in a format of a newer release.
var errNewer = errors.New("the plan has the format of a newer release")

// record is what a candidate says of itself. Later releases may add fields.
type record struct {
	Reads  int    `json:"reads"` // highest format of plans that it reads
	ID     string `json:"id"`
	Shards int    `json:"shards"` // the group's number of shards
	Weight int    `json:"weight"`
	Name   string `json:"name,omitempty"`
}

// plan says which member is to own each shard.
type plan struct {
	at      time.Time // ensemble time at which it was made, in whole seconds
	members []string  // ids, sorted, of those without a shard too
	owners  []string  // ids by shard; "" for none
}

// newID returns the id of a new member.
func newID() string { return strings.ToLower(rand.Text()[:idSize]) }

// digits are those of a member's number in a plan; two digits a shard.
const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"

const unowned = ".." // stands for the number of a member

// encode returns the value of a candidate: its record as JSON, and on the lines after it the plan of
// a leader.
func encode(r record, p *plan) string {
	head, err := json.Marshal(r)
	if err != nil {
		panic(err) // numbers and strings can always be encoded
	}
	if p == nil {
		return string(head)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%d %d\n%s\n", head, format, p.at.Unix(), strings.Join(p.members, ""))
	for _, owner := range p.owners {
		m, ok := slices.BinarySearch(p.members, owner)
		if !ok {
			b.WriteString(unowned)
			continue
		}
		b.WriteByte(digits[m/len(digits)])
		b.WriteByte(digits[m%len(digits)])
	}
	return b.String()
}

// decode parses the value of a candidate. The plan is nil if the value has none. If only the plan
// cannot be read, decode returns the record and an error.
func decode(value string) (r record, p *plan, err error) {
	head, rest, planned := strings.Cut(value, "\n")
	if err := json.Unmarshal([]byte(head), &r); err != nil {
		return record{}, nil, fmt.Errorf("the value %.40q is not that of a member of a group of shards: %w", value, err)
	}
	if len(r.ID) != idSize || r.Shards < 1 || r.Weight < 1 {
		return record{}, nil, fmt.Errorf("the value %.40q is not that of a member of a group of shards", value)
	}
	if planned {
		p, err = decodePlan(rest, r.Shards)
	}
	return r, p, err
}

func decodePlan(text string, shards int) (*plan, error) {
	version, text, _ := strings.Cut(text, " ")
	switch v, err := strconv.Atoi(version); {
	case err != nil || v < 1:
		return nil, fmt.Errorf("the plan's format %.20q is no number", version)
	case v > format:
		return nil, fmt.Errorf("%w: %d, this one reads up to %d", errNewer, v, format)
	}
	lines := strings.Split(text, "\n")
	if len(lines) != 3 || len(lines[1])%idSize != 0 || len(lines[2]) != 2*shards {
		return nil, fmt.Errorf("the plan of %d shards is damaged", shards)
	}
	at, err := strconv.ParseInt(lines[0], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the plan's time %.20q is no number", lines[0])
	}
	p := &plan{at: time.Unix(at, 0), owners: make([]string, shards)}
	for ids := range slices.Chunk([]byte(lines[1]), idSize) {
		p.members = append(p.members, string(ids))
	}
	if !slices.IsSorted(p.members) {
		return nil, fmt.Errorf("the plan's members are not sorted")
	}
	for i := range p.owners {
		pair := lines[2][2*i : 2*i+2]
		if pair == unowned {
			continue
		}
		m := strings.IndexByte(digits, pair[0])*len(digits) + strings.IndexByte(digits, pair[1])
		if strings.IndexByte(digits, pair[0]) < 0 || strings.IndexByte(digits, pair[1]) < 0 || m >= len(p.members) {
			return nil, fmt.Errorf("the plan's owner %q of shard %d is no member", pair, i)
		}
		p.owners[i] = p.members[m]
	}
	return p, nil
}

// has reports whether the plan knows the member. A nil plan knows none.
func (p *plan) has(id string) bool {
	if p == nil {
		return false
	}
	_, ok := slices.BinarySearch(p.members, id)
	return ok
}
