package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-io/holdfast/integration/crew"
	"github.com/holdfast-io/holdfast/integration/monotonic"
)

// play makes the records of a lock's history of steps, which commas separate. Each moment is 10 after
// the one before. The steps, with worker a and token 1:
//
//	a in 1 100      gets the whole lock, with a lease of 100 moments; of 0: it has no claim
//	a part 1 100 2  gets 2 of the lock's room
//	a share 1       writes no more, and reads
//	a check 1 9     finds its hold valid for 9 moments
//	a out 1 CLASS   unlocks, with that result
//	a shown 1 b     asks for the leader, and is shown token 1, which b got; 0: none
//	a asked         began to wait for what it gets next
//	a late 10       learns that its first claim stood only 10 after what was last
//	wait 50         time passes
func play(kind, steps string) []*crew.Record {
	var at instant
	asked := map[string]instant{}
	tick := func() instant { at += 10; return at }
	var records []*crew.Record
	for _, step := range strings.Split(steps, ", ") {
		var worker, word, token, result string
		var n, weight int
		if _, err := fmt.Sscanf(step, "wait %d", &n); err == nil {
			at += instant(n)
			continue
		}
		switch fmt.Sscan(step, &worker, &word, &token, &result, &weight); word {
		case "part", "in", "check":
			fmt.Sscan(result, &n)
		case "late":
			fmt.Sscan(token, &n)
		}
		r := &crew.Record{Worker: worker, Lock: "x", Kind: kind, Token: token, Hold: worker + "/" + token, Weight: Rooms[kind]}
		switch word {
		case "asked":
			asked[worker] = tick()
			continue
		case "late":
			records[0].Claim.To = at + instant(n)
			continue
		case "in", "part":
			if r.Op, r.Value = crew.OpGrant, "of "+worker; word == "part" {
				r.Weight = weight
			}
			r.Call, r.Return = tick(), tick()
			r.Call = cmp.Or(asked[worker], r.Call)
		case "check":
			r.Op, r.Return, r.Call = crew.OpCheck, tick(), tick()
		case "share":
			r.Op, r.Call, r.Return = OpShare, tick(), tick()
		case "out":
			records = append(records, &crew.Record{Op: crew.OpLeave, Worker: worker, Lock: "x", Kind: kind, Token: token, Hold: r.Hold, Call: tick(), Return: never}) // only its call counts
			r.Op, r.Call, r.Return, r.Result = crew.OpLeft, tick(), tick(), result
		case "shown":
			if r.Op, r.Hold, r.Value = OpShown, "", "of "+result; token == "0" {
				r.Token, r.Value = "", ""
			}
			r.Call, r.Return = tick(), tick()
		default:
			panic(step)
		}
		if n > 0 {
			r.Claim = &monotonic.Claim{From: r.Return, To: r.Return + 1, Until: r.Return + instant(n)*10}
		}
		records = append(records, r)
	}
	return records
}

// TestVerdicts: DoubleEntries and Linearizable accept the correct histories, and refuse the others.
func TestVerdicts(t *testing.T) {
	for _, test := range []struct {
		kinds, name, steps string
		double             string // part of the message of DoubleEntries; "": the history is correct
	}{
		{"all", "one after the other", "a in 1 100, a out 1, b in 2 100, b out 2", ""},
		{"all", "after a killed one's lease", "a in 1 5, wait 50, b in 2 100", ""},
		{"all", "unlock not confirmed", "a in 1 100, a out 1 unsure, b in 2 100", ""},
		{"all", "waited for, and overtaken in the telling", "a in 1 100, b asked, a out 1, b in 2 100", ""},
		{"all", "stopped at once, and told so", "a in 1 0, b in 2 100", ""},
		{"all", "stopped while it asked, and went on while b held the lock", "a in 1 5, wait 50, b in 2 100, a late 10", ""},
		{"all", "granted and lost before the next one, and told so later", "a asked, b in 2 100, a in 1 0", ""},
		{"all", "whose grant no record tells", "a in 1 100, a out 1, b check 2 100", ""},
		{"all", "while a killed one's lease runs", "a in 1 100, b in 2 100", "b was in with token 2 at 41, 979ns before the hold of a with token 1 ended"},
		{"all", "while a lease runs that was found valid later", "a in 1 5, wait 30, a check 1 9, b in 2 100, b out 2, c in 3 100", "b was in with token 2 at 91, 59ns before"},
		{"all", "while a lease runs of which a shorter claim was told later", "a in 1 100, a check 1 1, wait 50, b in 2 100", "b was in with token 2"},
		{"all", "against the order of the tokens", "a in 2 100, a out 2, b in 1 100, b out 1", "a was in with token 2"},
		{"all", "a token twice", "a in 1 100, a out 1, b in 1 100", "b and another hold had the same token 1"},

		{RWMutex, "readers together, then a writer", "a part 1 100 1, b part 2 100 1, a out 1, b out 2, c in 3 100", ""},
		{RWMutex, "readers that notice in another order", "a asked, b part 2 100 1, a part 1 100 1", ""},
		{RWMutex, "readers against the order of the tokens", "b part 2 100 1, b out 2, a in 1 100", "b was in with token 2"},
		{RWMutex, "a reader beside a writer that was downgraded", "a in 1 100, a share 1, b part 2 100 1, a check 1 100", ""},
		{RWMutex, "a reader after the lease of a writer that may have been downgraded", "a in 1 5, wait 50, b part 2 100 1, a share 1", ""},
		{RWMutex, "a reader while a writer renews unseen, which is downgraded later", "a in 1 5, wait 50, b part 2 100 1, a share 1, a check 1 100", "b was in with token 2"},
		{RWMutex, "a writer beside a reader", "a part 1 100 1, b in 2 100", "b was in with token 2"},
		{RWMutex, "a reader beside a writer", "a in 1 100, b part 2 100 1, a share 1", "b was in with token 2"},
		{RWMutex, "a writer beside one that was downgraded", "a in 1 100, a share 1, b in 2 100", "b was in with token 2"},
		{RWMutex, "a writer beside the second of two readers", "a part 1 100 1, b part 2 100 1, a out 1, c in 3 100", "c was in with token 3"},

		{Semaphore, "no more than there are", "a part 1 100 1, b part 2 100 2, b out 2, c part 3 100 1, d part 4 100 1", ""},
		{Semaphore, "one lease has ended", "a part 1 100 1, b part 2 5 2, wait 50, c part 3 100 2", ""},
		{Semaphore, "more than there are", "a part 1 100 2, b part 2 100 2", "together a weight of 4, with room for 3"},
		{Semaphore, "more than there are, by many", "a part 1 100 1, b part 2 100 1, c part 3 100 1, d part 4 100 1", "d was in with token 4"},
		{Semaphore, "more than there are, and the first ends last", "a part 1 300 1, b part 2 200 1, c part 3 100 1, d part 4 100 1", "before the hold of a"},
		{Semaphore, "more than there are, and the second ends last", "a part 1 200 1, b part 2 300 1, c part 3 100 1, d part 4 100 1", "before the hold of b"},
		{Semaphore, "more than the rest", "a part 1 100 1, b part 2 100 2, a out 1, c part 3 100 2", "c was in with token 3"},
	} {
		kinds := []string{test.kinds}
		if test.kinds == "all" {
			kinds = slices.AppendSeq([]string{""}, maps.Keys(Rooms))
		}
		for _, kind := range kinds {
			byLock := Holds(play(kind, test.steps))
			found, _ := DoubleEntries(byLock)
			if got := strings.Join(found, "; "); (got == "") != (test.double == "") || !strings.Contains(got, test.double) || !slices.IsSorted(found) {
				t.Errorf("%s, %s: double entries %q, want %q", kind, test.name, got, test.double)
			}
			want := porcupine.Ok
			if test.double != "" {
				want = porcupine.Illegal
			}
			if got := Linearizable(byLock["x"], time.Now().Add(time.Minute)); got != want {
				t.Errorf("%s, %s: porcupine: %v, want %v", kind, test.name, got, want)
			}
		}
	}
}

// TestBeside: DoubleEntries counts the holds that had room beside another one, of all locks.
func TestBeside(t *testing.T) {
	all := map[string][]*Hold{}
	sum := 0
	for steps, want := range map[string]int{
		"a part 1 100 1":                                 0,
		"a part 1 100 1, b part 2 100 2":                 1,
		"a part 1 5 1, wait 50, b part 2 100 1":          0,
		"a part 1 100 1, b part 2 0 1":                   0,
		"a part 1 100 1, b part 2 100 1, c part 3 100 1": 2,
	} {
		holds := Holds(play(Semaphore, steps))
		if _, got := DoubleEntries(holds); got != want {
			t.Errorf("%s: %d, want %d", steps, got, want)
		}
		all[steps] = holds["x"]
		sum += want
	}
	if found, got := DoubleEntries(all); got != sum || len(found) > 0 {
		t.Errorf("together: %d, want %d; %q", got, sum, found)
	}
}

// TestHolds: records without a hold make none, each lock has its own, and a hold was valid at the answer
// only if its claim lasted for longer.
func TestHolds(t *testing.T) {
	claim := func(to, until instant) *crew.Record {
		return &crew.Record{Op: crew.OpCheck, Lock: fmt.Sprint(to), Hold: fmt.Sprint(to, until), Claim: &monotonic.Claim{From: 1, To: to, Until: until}}
	}
	byLock := Holds([]*crew.Record{crew.NewRecord(crew.OpFault, "a"), claim(4, 5), claim(5, 5), claim(6, 5)})
	if len(byLock) != 3 || byLock["4"][0].Begin != 4 || byLock["5"][0].Begin != never || byLock["6"][0].Begin != never {
		t.Errorf("%v", byLock)
	}
}

// TestWeights: a hold takes its room until it is shared or ends.
func TestWeights(t *testing.T) {
	h := &Hold{weight: 9, share: &crew.Record{Call: 5}, leave: &crew.Record{Call: 7}, claims: []*monotonic.Claim{{Until: 8}}}
	for at, want := range map[instant]int{4: 9, 5: 1, 6: 1, 7: 0, 8: 0} {
		if got := h.weightAt(at); got != want {
			t.Errorf("at %d: %d, want %d", at, got, want)
		}
	}
}

// TestDeadline: Linearizable gives up at the deadline, also if it has passed. If holds do not overlap the
// wrong one, their number does not matter.
func TestDeadline(t *testing.T) {
	var before, asked, beside []string
	for i := range 20 {
		before = append(before, fmt.Sprintf("a part %02d 5 1, wait 50", i))
		asked = append(asked, fmt.Sprintf("r%d asked", i))
		beside = append(beside, fmt.Sprintf("r%d part %02d 0 1", i, i))
	}
	wrong := []string{"b part 50 100 1, c in 51 100"}
	for want, c := range map[porcupine.CheckResult]struct {
		steps    []string
		patience time.Duration
	}{
		porcupine.Illegal: {slices.Concat(before, wrong), time.Minute},
		porcupine.Unknown: {slices.Concat(asked, wrong, beside), 0},
	} {
		if got := Linearizable(Holds(play(RWMutex, strings.Join(c.steps, ", ")))["x"], time.Now().Add(c.patience)); got != want { // wall clock: the checker's limit
			t.Errorf("porcupine: %v, want %v", got, want)
		}
	}
}

// TestLeadersShown: wrong answers about the leader are found, and right ones accepted.
func TestLeadersShown(t *testing.T) {
	for name, test := range map[string]struct {
		steps  string
		change func(r []*crew.Record)
		want   string // part of the finding; "": the answers are right
	}{
		"the leader":                           {"a in 1 100, c shown 1 a, c shown 1 a, a out 1, c shown 0, b in 2 100, c shown 2 b", nil, ""},
		"one that was killed before it knew":   {"c shown 1 a, b in 2 100", nil, ""},
		"one whose election no record tells":   {"a check 1 100, c shown 1 a", nil, ""},
		"none, when a lease is over":           {"a in 1 5, wait 50, c shown 0", nil, ""},
		"none, while one leads":                {"a in 1 100, c shown 0", nil, "while a led with token 1"},
		"another one, while one leads":         {"b in 2 100, c shown 3 d", nil, "while b led with token 2"},
		"another one's value":                  {"a in 1 100, c shown 1 b", nil, `with the value "of b", and a gave "of a"`},
		"one before, though the next is not":   {"c shown 2 b, d shown 1 a", nil, "after c had been shown token 2"},
		"one before, of a leader that is over": {"b in 2 5, wait 50, c shown 1 a", nil, "after b had been elected with token 2"},
		"an answer that came late":             {"a in 1 100, c shown 1 a, a out 1, b in 2 100", func(r []*crew.Record) { r[1].Return = never }, ""},
		"no answer":                            {"a in 1 100, c shown 0", func(r []*crew.Record) { r[1].Result = crew.GaveUp }, ""},
		"none, just as long as one leads": {"a in 1 100, c shown 0", func(r []*crew.Record) { r[1].Call, r[1].Return = r[0].Claim.To, r[0].Claim.Until },
			"while a led with token 1"},
		"none, as the next begins to lead":   {"a in 1 100, c shown 0", func(r []*crew.Record) { r[1].Call = r[0].Claim.To - 1 }, ""},
		"none, as the lease ends":            {"a in 1 100, c shown 0", func(r []*crew.Record) { r[1].Return = r[0].Claim.Until + 1 }, ""},
		"one before, as the next is elected": {"b in 2 5, wait 50, c shown 1 a", func(r []*crew.Record) { r[1].Call = r[0].Return }, ""},
		"one before, as the next is shown":   {"c shown 2 b, d shown 1 a", func(r []*crew.Record) { r[1].Call = r[0].Return }, ""},
		"that of another election":           {"b in 2 100, c shown 2 b, d shown 1 a", func(r []*crew.Record) { r[2].Lock = "y" }, ""},
	} {
		records := play(Election, test.steps)
		if test.change != nil {
			test.change(records)
		}
		found, shown, none := LeadersShown(records, Holds(records))
		if got := strings.Join(found, "; "); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: found %q, want %q", name, got, test.want)
		}
		if answers := strings.Count(test.steps, "shown"); name != "no answer" && (shown != answers || none != strings.Count(test.steps, "shown 0")) {
			t.Errorf("%s: %d were shown, %d none", name, shown, none)
		}
	}
}

// story makes the records of one hold, whose times are in seconds. It was granted at from, and
// unlocked at to; 0: never. Claims without an end are moments.
type story struct {
	name, token string
	from        float64
	claims      [][]float64 // from, until, and to, if that is not from
	acts        []float64
	to          float64
}

func sec(s float64) instant { return instant(s * float64(time.Second)) }

func (s story) records() []*crew.Record {
	add := func(op string, call, ret float64, c *monotonic.Claim) *crew.Record {
		return &crew.Record{Op: op, Worker: s.name, Lock: "x", Hold: s.name, Token: s.token, Call: sec(call), Return: sec(ret), Claim: c}
	}
	rs := []*crew.Record{add(crew.OpGrant, s.from-0.5, s.from, nil)}
	for _, c := range s.claims {
		to := slices.Concat(c, c[:1])[2]
		rs = append(rs, add(crew.OpCheck, c[0], to, &monotonic.Claim{From: sec(c[0]), To: sec(to), Until: sec(c[1])}))
	}
	for _, a := range s.acts {
		rs = append(rs, add(crew.OpAct, a, a+1, nil))
	}
	if s.to != 0 {
		rs = append(rs, add(crew.OpLeave, s.to, s.to, nil))
	}
	return rs
}

// TestLibraries: Doubles, Outside and Tokens count each violation, and nothing else, also of libraries
// that do not know for how long a lock stays held.
func TestLibraries(t *testing.T) {
	type figures struct{ overlaps, outside, tokens int }
	lease := func(from, until float64) [][]float64 { return [][]float64{{from, until}} }
	paused := story{name: "a", token: "1", from: 1, claims: [][]float64{{1, 1}, {9, 9}}, acts: []float64{9.5}}
	for name, c := range map[string]struct {
		stories []story
		want    figures
	}{
		"nothing":                              {nil, figures{}},
		"one after other":                      {[]story{{"a", "1", 1, lease(1, 5), []float64{2.5}, 3}, {"b", "2", 3.1, lease(3.1, 7), []float64{4}, 0}}, figures{}},
		"a lease ends, and the next begins":    {[]story{{"a", "1", 1, lease(1, 5), nil, 0}, {"b", "2", 5, lease(5, 9), nil, 0}}, figures{}},
		"leases overlap":                       {[]story{{"a", "1", 1, lease(1, 5), nil, 0}, {"b", "2", 4.9, lease(4.9, 9), nil, 0}}, figures{overlaps: 1}},
		"leases overlap, and a moment in both": {[]story{{"a", "1", 1, lease(1, 9), nil, 0}, {"b", "2", 2, lease(2, 12), nil, 0}, {"c", "3", 3, lease(3, 3), nil, 0}}, figures{overlaps: 1}},
		"a lease that ended, and a late act": {[]story{{"a", "1", 1, lease(1, 5), []float64{6}, 0},
			{"b", "2", 5.5, lease(5.5, 9), []float64{6.5}, 0}}, figures{outside: 1}},
		"a late act, after the next client left":                            {[]story{{"a", "1", 1, lease(1, 5), []float64{8}, 0}, {"b", "2", 5.5, lease(5.5, 9), nil, 6}}, figures{outside: 1}},
		"a late act at the moment of the next grant, which was told before": {[]story{{"b", "2", 5.5, lease(5.5, 9), nil, 6}, {"a", "1", 1, lease(1, 5), []float64{5.5}, 0}}, figures{outside: 1}},
		"a late act while no client is in":                                  {[]story{{"a", "1", 1, lease(1, 5), []float64{6}, 0}}, figures{}},
		"paused, and still told it holds": {[]story{paused,
			{"b", "2", 5, [][]float64{{5, 5}, {6, 6}}, []float64{5.5}, 6},
			{"c", "3", 7, [][]float64{{7, 7}, {10, 10}}, []float64{8}, 0}}, figures{overlaps: 1, outside: 1}},
		"stopped while it asked, and valid again later": {[]story{{"a", "1", 1, [][]float64{{1, 5, 8}, {20, 25}}, nil, 0}, {"b", "2", 5.5, lease(5.5, 9), nil, 0}}, figures{}},
		"the same token twice":                          {[]story{{"a", "1", 1, nil, nil, 0}, {"b", "1", 1.2, nil, nil, 0}}, figures{tokens: 1}},
		"the same token beside another one":             {[]story{{"a", "1", 1, nil, nil, 0}, {"b", "2", 1.1, nil, nil, 0}, {"c", "1", 1.2, nil, nil, 0}}, figures{tokens: 1}},
		"the same token later":                          {[]story{{"a", "1", 1, nil, nil, 0}, {"b", "1", 5, nil, nil, 0}}, figures{tokens: 1}},
		"a lower token than the first":                  {[]story{{"a", "3", 1, nil, nil, 0}, {"b", "1", 1.1, nil, nil, 0}, {"c", "2", 5, nil, nil, 0}}, figures{tokens: 1}},
		"a lower token than the second":                 {[]story{{"b", "1", 1.1, nil, nil, 0}, {"a", "3", 1, nil, nil, 0}, {"c", "2", 5, nil, nil, 0}}, figures{tokens: 1}},
		"a lower token, asked for at the other grant":   {[]story{{"a", "2", 1, nil, nil, 0}, {"b", "1", 1.5, nil, nil, 0}}, figures{}},
		"a lower token later":                           {[]story{{"a", "2", 1, nil, nil, 0}, {"b", "1", 5, nil, nil, 0}}, figures{tokens: 1}},
		"a lower token, which waited for longer":        {[]story{{"a", "2", 1, nil, nil, 0}, {"b", "1", 1.2, nil, nil, 0}}, figures{}},
	} {
		var all []*crew.Record
		for _, s := range c.stories {
			all = append(all, s.records()...)
		}
		hs := Holds(all)["x"]
		double, _ := Doubles(ByBegin(hs))
		before := map[*Hold]bool{}
		for _, d := range double {
			before[d.Before] = true
		}
		if got := (figures{len(before), len(Outside(hs)), len(Tokens(hs))}); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestGap(t *testing.T) {
	for want, moments := range map[float64][]float64{10: nil, 6: {4, 2}, 9: {1, 30}, 5: {-1, 5, 12}} {
		records := []*crew.Record{{Op: crew.OpTry, Return: sec(3)}}
		for _, m := range moments {
			records = append(records, &crew.Record{Op: crew.OpGrant, Return: sec(m)})
		}
		if got := Gap(records, 0, sec(10)); got != time.Duration(sec(want)) {
			t.Errorf("%v: %v, want %v s", moments, got, want)
		}
	}
}
