// Histories as text: a header and one line for each step.

package sim

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// history is the plan of one run.
type history struct {
	plan
	steps []step // by time
}

// step is one line of a history: an operation of a worker, an event of a process, or a fault.
type step struct {
	at   time.Duration // when it begins, at the earliest; steps of one actor follow each other
	who  string        // process "p0", its worker "p0/1", or the source of a fault
	what string
	args []string // "name" or "name=value"
}

// grammar has the steps, and the arguments of each. A value is a duration (@), a number (#) or a
// text (=). Every argument may be left out.
//
//   - A target (on) is the first client of a process ("p0"), another one of it ("p0+1"), or
//     "reaper".
//   - client is the number of the process's client. try does not wait, within limits the wait;
//     otherwise it waits until it gets the lock.
//   - A hold lasts for the time hold. Meanwhile it is used as the other arguments say.
var grammar = map[string]string{
	"header": "seed# kind= lasts@ ttl@ grace@ window@ slow@ election@ members# permits# names= counts slews outlives keeps early",

	"start": "life# clients# shared", "kill": "", "close": "burst", "stop": "for@", "suspend": "for@", "setclock": "by@",
	"take":     use + " lock= read permits# priority# barge",
	"together": use + " lock=", "any": use + " lock=",
	"burst": "client# many hold@", "crowd": "client# dies hold@", "resize": "client# to# within@", "revoke": "client# lock= within@",
	"leader": "client# within@", "observe": "client#", "break": "client# within@", "attach": "client# within@",

	"cut": "on=", "expire": "on=", "partition": "on= from# for@", "restart": "member# leader for@ clock@",
	"lag": "member# by@", "land": "on= member# by@ for@", "losewatches": "on=", "refusewatches": "on= for@", "sleep": "by@",
	"clock": "member# by@", "lose": "odds# late after refuse told for@", "step": "by@", "forget": "", "spend": "lock= left#",
	"sweep": "fresh", "remake": "", "contend": "lock= kazoo within@ hold@",
}

// use has the arguments of all ways to take a lock.
const use = "client# try within@ ttl@ hold@ again extend txn proclaim downgrade doubt ticket detach beside"

// check returns an error that names an argument which the step does not have.
func (s step) check() error {
	known, ok := grammar[s.what]
	if !ok {
		return fmt.Errorf("%q is none of the steps %q", s.what, slices.Sorted(maps.Keys(grammar)))
	}
	for _, arg := range s.args {
		name, value, valued := strings.Cut(arg, "=")
		var err error
		switch fields := strings.Fields(known); {
		case slices.Contains(fields, name+"@"):
			_, err = time.ParseDuration(value)
		case slices.Contains(fields, name+"#"):
			_, err = strconv.ParseUint(value, 10, 64)
		case slices.Contains(fields, name+"=") && valued, slices.Contains(fields, name) && !valued:
		default:
			err = fmt.Errorf("its arguments are %q", fields)
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", s.what, arg, err)
		}
	}
	return nil
}

func (s step) get(name string) (value string, ok bool) {
	for _, arg := range s.args {
		if left, value, _ := strings.Cut(arg, "="); left == name {
			return value, true
		}
	}
	return "", false
}

// A value that is missing is 0 or empty.

func (s step) has(name string) bool { _, ok := s.get(name); return ok }

func (s step) text(name string) string { value, _ := s.get(name); return value }

func (s step) number(name string) int { n, _ := strconv.Atoi(s.text(name)); return n }

func (s step) time(name string) time.Duration { d, _ := time.ParseDuration(s.text(name)); return d }

func (s step) list(name string) []string {
	return slices.DeleteFunc(strings.Split(s.text(name), ","), func(one string) bool { return one == "" })
}

// with returns the step with one more argument, unless its value is zero.
func (s step) with(name string, value any) step {
	if reflect.ValueOf(value).IsZero() {
		return s
	}
	switch v := value.(type) {
	case bool:
	case []string:
		name += "=" + strings.Join(v, ",")
	default:
		name += fmt.Sprint("=", v)
	}
	s.args = append(slices.Clip(s.args), name)
	return s
}

// without returns the step without its argument of that index.
func (s step) without(i int) step {
	s.args = slices.Delete(slices.Clone(s.args), i, i+1)
	return s
}

func (s step) String() string {
	return strings.TrimRight(fmt.Sprintf("%10.3f %-8s %s %s", s.at.Seconds(), s.who, s.what, strings.Join(s.args, " ")), " ")
}

// id identifies the step in its history; random choices within a step depend on it alone.
func (s step) id() string { return fmt.Sprint(s.who, " ", s.what, " ", s.at) }

func (h history) String() string {
	lines := []string{"# when (s)  who  what"}
	for _, s := range append([]step{h.header()}, h.steps...) {
		lines = append(lines, s.String())
	}
	return strings.Join(lines, "\n") + "\n"
}

// parse reads a history. Lines that begin with # are comments.
func parse(text string) (history, error) {
	var h history
	headed, ids := false, map[string]bool{}
	for i, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		s, err := parseStep(words)
		switch {
		case err != nil:
		case ids[s.id()]:
			err = fmt.Errorf("a second %s of %s at %v", s.what, s.who, s.at)
		case s.what != "header":
			ids[s.id()] = true
			h.steps = append(h.steps, s)
		case headed:
			err = fmt.Errorf("a second header")
		default:
			headed, err = true, h.read(s)
		}
		if err != nil {
			return h, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	if !headed {
		return h, fmt.Errorf("no header")
	}
	slices.SortStableFunc(h.steps, func(a, b step) int { return int(a.at - b.at) })
	return h, nil
}

func parseStep(words []string) (step, error) {
	if len(words) < 3 {
		return step{}, fmt.Errorf("%q: want when, who, what", words)
	}
	at, err := time.ParseDuration(words[0] + "s")
	if err != nil {
		return step{}, fmt.Errorf("%q: want the time in seconds: %w", words[0], err)
	}
	s := step{at: at, who: words[1], what: words[2], args: words[3:]}
	return s, s.check()
}

// TestText: each history is read as it was written, and a wrong line is refused with its number.
func TestText(t *testing.T) {
	for seed := range uint64(300) {
		h := draw(seed, "")
		for _, s := range append(h.steps, h.header()) {
			if err := s.check(); err != nil {
				t.Fatal(err)
			}
		}
		read, err := parse(h.String())
		if err != nil || read.String() != h.String() {
			t.Fatalf("seed %d: %v; read:\n%swritten:\n%s", seed, err, read, h)
		}
	}
	const header = "0 all header seed=1 kind=faulty members=1 permits=4 ttl=2s grace=500ms\n"
	for text, want := range map[string]string{
		"":                                             "no header",
		header + header:                                "line 2: a second header",
		header + "1 p0":                                `line 2: ["1" "p0"]: want when, who, what`,
		header + "x p0 kill":                           `line 2: "x": want the time in seconds`,
		header + "1 p0 kill\n1 p0 kill":                "line 3: a second kill of p0 at 1s",
		header + "1 p0 fly":                            `line 2: "fly" is none of the steps`,
		header + "1 p0 kill now":                       "line 2: kill now: its arguments are []",
		header + "1 p0/1 take hold=3":                  "line 2: take hold=3: time: missing unit",
		header + "1 p0/1 take client=two":              "line 2: take client=two:",
		header + "1 p0/1 take lock":                    "line 2: take lock: its arguments are",
		header + "1 p0/1 take try=1":                   "line 2: take try=1: its arguments are",
		"0 all header kind=nice":                       `line 1: kind "nice" is none of`,
		"0 all header kind=calm":                       "line 1: members=0: there must be at least one",
		"0 all header members=1 kind=faulty permits=1": "line 1: permits=1: must be at least 2",
	} {
		if _, err := parse(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
