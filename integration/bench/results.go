package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// resultsFile has a line of JSON about the machine, and one for each experiment. Tables and charts
// are made from this file alone.
const resultsFile = "results.jsonl"

// report has the results of a run.
type report struct {
	Head    string `json:"measured"`
	results []*result
}

// result has the results of an experiment.
type result struct {
	table
	Peers  []*peer  `json:"peers"`
	Rounds [][]turn `json:"rounds"` // turns of each peer, in the order of Peers
}

// table describes an experiment's table: its title, its columns, and the bars for them.
type table struct {
	Workload string   `json:"workload"` // the workload's letter
	Title    string   `json:"title"`
	Figures  []figure `json:"figures"`
	Bars     []bar    `json:"bars,omitempty"`
}

// figure is a column of a table.
type figure struct {
	Title string `json:"title"`
	Unit  unit   `json:"unit"`
}

// unit is the format of values: they are multiplied by Scale and printed with Format.
type unit struct {
	Scale  float64 `json:"scale"`
	Format string  `json:"format"`
}

var (
	decimals     = unit{1, "%.2f"}
	thousandths  = unit{1, "%.3f"}
	perSecond    = unit{1, "%.0f/s"}
	wholeBytes   = unit{1, "%.0f B"}
	kilobytes    = unit{1e-3, "%.2f kB"}             // for values in bytes
	mebibytes    = unit{1.0 / (1 << 20), "%.1f MiB"} // for values in bytes
	milliseconds = unit{1e3, "%.3f ms"}              // for values in seconds
	microseconds = unit{1e6, "%.1f µs"}              // for values in seconds
	percent      = unit{100, "%.1f %%"}
)

func (u unit) format(v float64) string { return fmt.Sprintf(u.Format, v*u.Scale) }

// bar is a limit for a figure of Holdfast: for its median, for its ratio to another peer's figure,
// or for its ratio to Holdfast's median in another experiment.
type bar struct {
	Figure  int     `json:"figure"`            // index in the table's figures
	Against string  `json:"against,omitempty"` // name of a peer; "": none
	Beside  string  `json:"beside,omitempty"`  // title of another experiment of the same workload; "": none
	Least   bool    `json:"least,omitempty"`   // the limit is a minimum; otherwise a maximum
	Limit   float64 `json:"limit"`
	// Counted means that the value does not depend on the machine's speed or load. A miss makes the
	// exit status 1.
	Counted bool `json:"counted,omitempty"`
}

// turn has the values of an experiment's figures, in their order.
type turn []float64

// none is the value of a missing figure; null in JSON.
var none = math.NaN()

func (t turn) MarshalJSON() ([]byte, error) {
	values := make([]*float64, len(t))
	for i := range t {
		if !math.IsNaN(t[i]) {
			values[i] = &t[i]
		}
	}
	return json.Marshal(values)
}

func (t *turn) UnmarshalJSON(text []byte) error {
	var values []*float64
	err := json.Unmarshal(text, &values)
	*t = nil
	for _, v := range values {
		if v == nil {
			v = &none
		}
		*t = append(*t, *v)
	}
	return err
}

// fits reports whether all peers have the same number of turns, with a value for each figure, and
// each bar refers to an existing figure.
func (r *result) fits() bool {
	fits := len(r.Peers) > 0 && len(r.Rounds) == len(r.Peers)
	for _, turns := range r.Rounds {
		fits = fits && len(turns) == len(r.Rounds[0])
		for _, turn := range turns {
			fits = fits && len(turn) == len(r.Figures)
		}
	}
	for _, b := range r.Bars {
		fits = fits && 0 <= b.Figure && b.Figure < len(r.Figures)
	}
	return fits
}

// check returns an error if a figure is missing. Holdfast must have all figures; each other peer at
// least one.
func (r *result) check() error {
	for _, p := range r.Peers {
		measured := 0
		for i, f := range r.Figures {
			v := r.median(p.Name, i)
			switch {
			case !math.IsNaN(v) && !math.IsInf(v, 0):
				measured++
			case p.Name == holdfastName:
				return fmt.Errorf("%s has no figure of %q", p.Title, f.Title)
			}
		}
		if measured == 0 {
			return fmt.Errorf("%s has no figure", p.Title)
		}
	}
	return nil
}

// find returns the result of an experiment, or nil.
func (r *report) find(workload, title string) *result {
	i := slices.IndexFunc(r.results, func(one *result) bool { return one.Workload == workload && one.Title == title })
	if i < 0 {
		return nil
	}
	return r.results[i]
}

// index returns the index of a peer, or -1 if it did not take part.
func (r *result) index(name string) int {
	return slices.IndexFunc(r.Peers, func(p *peer) bool { return p.Name == name })
}

// median returns the median of a figure over the turns of a peer, which must have taken part.
func (r *result) median(name string, figure int) float64 {
	var all []float64
	for _, turn := range r.Rounds[r.index(name)] {
		all = append(all, turn[figure])
	}
	return median(all)
}

// ratio divides one peer's figure by another's in each turn, and returns the median of the
// quotients. It returns false if a peer did not take part, or the median is no number.
func (r *result) ratio(name, to string, figure int) (float64, bool) {
	ours, theirs := r.index(name), r.index(to)
	if ours < 0 || theirs < 0 {
		return 0, false
	}
	var all []float64
	for i, turn := range r.Rounds[ours] {
		all = append(all, turn[figure]/r.Rounds[theirs][i][figure])
	}
	mid := median(all)
	return mid, !math.IsNaN(mid)
}

func median(v []float64) float64 { return quantile(v, 0.5) }

// quantile returns the value below which the given share of the values lies, interpolated; NaN
// without values.
func quantile(v []float64, share float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	at := share * float64(len(v)-1)
	low := int(at)
	high := min(low+1, len(v)-1)
	return v[low] + (at-float64(low))*(v[high]-v[low])
}

// save writes the report in the format that restore reads.
func (r *report) save(w io.Writer) error {
	lines := json.NewEncoder(w)
	err := lines.Encode(r)
	for _, one := range r.results {
		err = errors.Join(err, lines.Encode(one))
	}
	return err
}

func restore(from io.Reader) (*report, error) {
	lines := json.NewDecoder(from)
	lines.DisallowUnknownFields()
	r := new(report)
	if err := lines.Decode(r); err != nil {
		return nil, err
	}
	for {
		one := new(result)
		err := lines.Decode(one)
		switch {
		case errors.Is(err, io.EOF):
			return r, nil
		case err == nil && !one.fits():
			err = errors.New("the turns do not fit the peers, figures and bars")
		case err == nil:
			err = one.check()
		}
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", one.Workload, one.Title, err)
		}
		r.results = append(r.results, one)
	}
}

func loadFile(name string) (*report, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := restore(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// write writes the results, the tables and the charts to a directory that ready has checked. tables
// is the name of the tables' file, and text its content.
func (r *report) write(dir, tables, text string) error {
	var lines bytes.Buffer
	err := errors.Join(r.save(&lines),
		os.WriteFile(filepath.Join(dir, resultsFile), lines.Bytes(), 0o644), os.WriteFile(filepath.Join(dir, tables), []byte(text), 0o644))
	for _, c := range r.charts() {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, chartsDir, c.file), c.svg(), 0o644))
	}
	return err
}
