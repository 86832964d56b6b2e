package crew

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/lock/history/audit"
)

// TestPlague: the same seed makes the same faults with the same choices in all systems; each round
// has each fault once; and what is broken when the time is over is mended.
func TestPlague(t *testing.T) {
	plague := func(seed uint64) (made []string, chosen map[string][]uint64) {
		var mu sync.Mutex
		chosen = map[string][]uint64{}
		broken := 0
		one := func(system string) func(name string) Fault {
			return func(name string) Fault {
				return Break(name, 0, time.Microsecond, func(_ context.Context, r *rand.Rand) ([]string, error) {
					mu.Lock()
					defer mu.Unlock()
					chosen[system] = append(chosen[system], r.Uint64())
					return []string{name}, nil
				}, Way[string]{Each(Always(func(string) { mu.Lock(); broken++; mu.Unlock() })), AtOnce(Always(func(string) { mu.Lock(); broken--; mu.Unlock() }))})
			}
		}
		var faults []Fault
		for _, name := range []string{"a", "b", "c"} {
			faults = append(faults, Together(name, one("first")(name), one("second")(name)))
		}
		ctx, cancel := context.WithCancel(t.Context())
		err := Plague(ctx, seed, []Series{{0, time.Microsecond, faults}}, func(_ int, f Fault, _, _ monotonic.Instant) {
			if made = append(made, f.Name); len(made) == 6 {
				cancel()
			}
		})
		if err != nil || broken != 0 {
			t.Errorf("%v, %d are still broken", err, broken)
		}
		return made, chosen
	}
	made, chosen := plague(1)
	again, choices := plague(1)
	if !slices.Equal(made, again) || !slices.Equal(chosen["first"][:6], choices["first"][:6]) || !slices.Equal(chosen["first"], chosen["second"]) {
		t.Errorf("%v with %v, then %v with %v", made, chosen, again, choices)
	}
	for _, round := range [][]string{made[:3], made[3:6]} {
		if sorted := slices.Sorted(slices.Values(round)); strings.Join(sorted, "") != "abc" {
			t.Errorf("a round has %v", round)
		}
	}
}

// TestPlagueEnds: a fault that is going on when the time is over is mended, and is no error; a fault
// that fails is. Without faults it ends.
func TestPlagueEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	mended := false
	long := Break("long", time.Hour, time.Hour, func(context.Context, *rand.Rand) ([]int, error) { return []int{1}, nil },
		Way[int]{Each(Always(func(int) { cancel() })), Each(Always(func(int) { mended = true }))})
	if err := Plague(ctx, 1, []Series{{0, 0, []Fault{long}}}, func(int, Fault, monotonic.Instant, monotonic.Instant) {}); err != nil || !mended {
		t.Errorf("%v, mended %v", err, mended)
	}
	why := errors.New("no leader")
	fails := Break("fails", 0, 0, func(context.Context, *rand.Rand) ([]int, error) { return nil, why }, Way[int]{})
	endless := Series{time.Hour, time.Hour, []Fault{long}} // ends with the other series
	if err := Plague(t.Context(), 1, []Series{endless, {0, 0, []Fault{fails}}}, nil); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
	if err := Plague(t.Context(), 1, []Series{{}}, nil); err != nil {
		t.Errorf("without faults: %v", err)
	}
}

// TestClients: what a process said before it was killed is in the history; a kill is no failure, an
// end with an error is; and a process that does not end in time is killed, and its last record told.
func TestClients(t *testing.T) {
	team := &Team{Name: "the team"}
	defer team.Close()
	if err := team.Start(Places{N: 1, Command: func(index, life int, _ []string) (*exec.Cmd, error) {
		say := fmt.Sprintf(`echo '{"op":"act","worker":"%s"}'; `, Name(index, life))
		return exec.Command("sh", "-c", say+[]string{"", "exec sleep 1000", "echo why >&2; exit 3", "exec sleep 1000"}[life]), nil
	}}); err != nil {
		t.Fatal(err)
	}
	c := team.Clients[0]
	for life := 1; life <= 3; life++ {
		iferr.Fatal(t, wait.Until(t.Context(), time.Minute, "it speaks", func() (bool, error) { return team.History.Count(OpAct) == life, nil }))
		switch life {
		case 1:
			c.Kill()
		case 2:
			if stuck := team.Finish(t.Context()); len(stuck) > 0 {
				t.Errorf("the second life did not end by itself: %q", stuck)
			}
		case 3:
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if stuck := team.Finish(ctx); len(stuck) != 1 || !strings.Contains(stuck[0], "Worker:w0.3") {
				t.Errorf("the third life ended by itself: %q", stuck)
			}
			continue
		}
		iferr.Fatal(t, c.Start())
	}
	if died := team.Died(); len(died) != 1 || !strings.Contains(died[0], "w0.2 of the team ended: exit status 3 why") {
		t.Errorf("failed: %q", died)
	}
	for _, r := range team.History.All() {
		if !c.Said(r) || (&Client{Index: 1}).Said(r) {
			t.Errorf("whose is %+v?", r)
		}
	}
}

// TestWrong: logs that contradict themselves are a fault of the servers, and prove nothing about locks.
func TestWrong(t *testing.T) {
	found := &audit.Findings{}
	found.Violations = []audit.Violation{{}}
	if all, void := Wrong(found); len(all) != 1 || void != "" {
		t.Errorf("a violation: %q, void %q", all, void)
	}
	found.Restored = []int64{7}
	if all, void := Wrong(found); len(all) != 0 || !strings.Contains(void, "contradict themselves at [0x7]") {
		t.Errorf("a contradiction: %q, void %q", all, void)
	}
}
