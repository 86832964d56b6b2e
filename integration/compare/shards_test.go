package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/localhost"
	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/zkserver"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestJudgeHistory: the numbers of short logs, with times in seconds.
func TestJudgeHistory(t *testing.T) {
	for name, c := range map[string]struct {
		log  string
		want shardFigures
	}{
		"handed over":                 {"begin 0 0 a 1 false,end 5 0 a 1 false,begin 6 0 b 2 false,write 7 0 b 2 false", shardFigures{writes: 3, moves: 2, longest: time.Second}},
		"two at once":                 {"begin 0 0 a - false,begin 4 0 b - false,write 6 0 a - false,end 7 0 a - false", shardFigures{writes: 3, moves: 2, accepted: 1, double: 3 * time.Second}},
		"goes on after its successor": {"begin 0 0 a - false,stopped 1 0 a - false,begin 2 0 b - false,continued 3 0 a - false,write 3 0 a - false,end 4 0 b - false,write 4 0 a - false", shardFigures{writes: 4, moves: 2, accepted: 1, double: time.Second, longest: time.Second}},
		"killed":                      {"begin 0 0 a 1 false,killed 3 0 a - false,begin 9 0 b 2 false", shardFigures{writes: 2, moves: 2, longest: 6 * time.Second}},
		"late write of a paused one":  {"begin 0 0 a 1 false,stopped 1 0 a - false,begin 4 0 b 2 false,continued 6 0 a - false,write 6 0 a 1 false,end 6 0 a 1 false", shardFigures{writes: 3, moves: 2, refused: 1, longest: 3 * time.Second}},
		"beside a stopped successor":  {"begin 0 0 a - false,begin 1 0 b - false,stopped 2 0 b - false,write 3 0 a - false", shardFigures{writes: 3, moves: 2, double: time.Second}},
		"refused in time":             {"begin 0 0 a 1 true,begin 1 0 b 2 true,write 2 0 a 1 true,write 3 0 a 1 false", shardFigures{writes: 4, moves: 2, refused: 2, inTime: 1, double: 9 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			var records []*crew.Record
			for line := range strings.SplitSeq(c.log, ",") {
				var at int
				var r crew.Record
				var inTime bool
				fmt.Sscan(line, &r.Op, &at, &r.Lock, &r.Worker, &r.Token, &inTime)
				if r.Call, r.Token = monotonic.Instant(at)*1e9, strings.Trim(r.Token, "-"); inTime {
					r.Claim = new(monotonic.Claim)
				}
				records = append(records, &r)
			}
			j := judgeHistory(records, 0, 10e9)
			got := j.shardFigures
			got.none, got.fullness = 0, 0
			if got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// TestJudgeHistoryFrom: what was before the first moment is known and does not count.
func TestJudgeHistoryFrom(t *testing.T) {
	var records []*crew.Record
	for at, op := range []string{opBegin, opWrite, opWrite, opWrite} {
		records = append(records, &crew.Record{Op: op, Lock: "0", Worker: "a", Call: monotonic.Instant(at) * 1e9})
	}
	l := judgeHistory(records, 2e9, 4e9)
	if l.writes != 2 || l.moves != 0 || l.shards[0].owner != "a" {
		t.Errorf("%+v", l.shardFigures)
	}
}

// TestSharesDue: shares are due if one of Holdfast's processes has more shards than another, if a shard
// has no owner, or if one has none and another one two.
func TestSharesDue(t *testing.T) {
	for name, c := range map[string]struct {
		owner func(shard int) int
		even  bool
	}{
		"even":                {func(i int) int { return i % processes }, true},
		"one has more":        {func(i int) int { return max(i, 1) % processes }, false},
		"none and two owners": {func(i int) int { return i % processes }, false},
	} {
		team := &system{peer{name: holdfast}, new(crew.Team)}
		for i := range shards {
			r := crew.NewRecord(opBegin, crew.Name(c.owner(i), 1))
			if r.Lock = strconv.Itoa(i); name == "none and two owners" && i == 0 {
				r.Lock = "1"
			}
			team.History.Add(r)
		}
		if got := sharesDue(team, period{settled: math.MaxInt64}); (len(got) == 0) != c.even {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestMemberList: a process that cannot become a member says so, and does not try for ever.
func TestMemberList(t *testing.T) {
	_, addr := localhost.InMemory(t, locktest.Options{})
	z, _, err := zkserver.Connect(t.Context(), []string{addr}, time.Minute, nil)
	iferr.Fatal(t, err)
	defer z.Close()
	_, err = z.Create(members, nil, 0, zk.WorldACL(zk.PermRead))
	iferr.Fatal(t, err)
	w := &worker{client: client{Servers: []string{addr}}, Teller: crew.Teller{Worker: "w0.1"}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := memberList(ctx, w); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("%v", err)
	}
}

// TestRendezvous: each shard has one owner, each member about as many, and only the shards of a member
// that goes move.
func TestRendezvous(t *testing.T) {
	list := []string{"p0.1", "p1.1", "p2.1", "p3.1", "p4.1", "p5.1", "p6.1", "p7.1"}
	own := map[string]int{}
	for index := range shards {
		owner := ownerOf(index, list)
		own[owner]++
		if next := ownerOf(index, list[1:]); next != owner && owner != list[0] {
			t.Errorf("shard %d moves from %s to %s", index, owner, next)
		}
	}
	for _, member := range list {
		if own[member] < 16 || own[member] > 50 {
			t.Errorf("%s has %d shards", member, own[member])
		}
	}
}
