package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
)

// A file of results has a line of JSON for what was measured on and with, and one
// for each experiment: all that tables and charts are made of.
const resultsFile = "results.jsonl"

type savedHead struct {
	Head string `json:"measured"`
}

type savedResult struct {
	Workload string        `json:"workload"`
	Title    string        `json:"title"`
	Figures  []savedFigure `json:"figures"`
	Bars     []savedBar    `json:"bars,omitempty"`
	Peers    []savedPeer   `json:"peers"`
	Rounds   [][][]number  `json:"rounds"` // by peer, turn and figure
}

type savedFigure struct {
	Title string `json:"title"`
	Unit  unit   `json:"unit"`
}

type savedBar struct {
	Figure  int     `json:"figure"`
	Against string  `json:"against,omitempty"`
	Beside  string  `json:"beside,omitempty"`
	Least   bool    `json:"least,omitempty"`
	Limit   float64 `json:"limit"`
	Counted bool    `json:"counted,omitempty"`
}

type savedPeer struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Bare  bool   `json:"bare,omitempty"`
	Note  string `json:"note,omitempty"`
}

// number is a value; null in JSON if it was not measured, and NaN here.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

func (n *number) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*n = number(math.NaN())
		return nil
	}
	return json.Unmarshal(text, (*float64)(n))
}

// save writes a report so that restore has it again.
func (r *report) save(w io.Writer) error {
	lines := json.NewEncoder(w)
	if err := lines.Encode(savedHead{r.head}); err != nil {
		return err
	}
	for _, one := range r.results {
		s := savedResult{Workload: one.workload, Title: one.title}
		for _, f := range one.figures {
			s.Figures = append(s.Figures, savedFigure{f.title, f.unit})
		}
		for _, b := range one.bars {
			s.Bars = append(s.Bars, savedBar{b.figure, b.against, b.beside, b.least, b.limit, b.counted})
		}
		for _, p := range one.peers {
			s.Peers = append(s.Peers, savedPeer{p.name, p.title, p.bare, p.note})
		}
		s.Rounds = convert[number](one.rounds)
		if err := lines.Encode(s); err != nil {
			return err
		}
	}
	return nil
}

// fits returns an error unless each turn has a value of each figure, and bars are
// set on figures that there are.
func (s *savedResult) fits() error {
	if len(s.Peers) == 0 || len(s.Rounds) != len(s.Peers) {
		return fmt.Errorf("%d peers, and turns of %d", len(s.Peers), len(s.Rounds))
	}
	for i, turns := range s.Rounds {
		for _, turn := range turns {
			if len(turns) != len(s.Rounds[0]) || len(turn) != len(s.Figures) {
				return fmt.Errorf("%s: the turns do not fit the figures", s.Peers[i].Title)
			}
		}
	}
	for _, b := range s.Bars {
		if b.Figure < 0 || b.Figure >= len(s.Figures) {
			return fmt.Errorf("a bar is set on figure %d of %d", b.Figure, len(s.Figures))
		}
	}
	return nil
}

func restore(from io.Reader) (*report, error) {
	lines := json.NewDecoder(from)
	lines.DisallowUnknownFields()
	var head savedHead
	if err := lines.Decode(&head); err != nil {
		return nil, err
	}
	r := &report{head: head.Head}
	for {
		var s savedResult
		if err := lines.Decode(&s); errors.Is(err, io.EOF) {
			return r, nil
		} else if err != nil {
			return nil, err
		}
		one := &result{experiment: &experiment{workload: s.Workload, title: s.Title}, rounds: convert[float64](s.Rounds)}
		for _, f := range s.Figures {
			one.figures = append(one.figures, figure{f.Title, f.Unit})
		}
		for _, b := range s.Bars {
			one.bars = append(one.bars, bar{b.Figure, b.Against, b.Beside, b.Least, b.Limit, b.Counted})
		}
		for _, p := range s.Peers {
			one.peers = append(one.peers, &peer{name: p.Name, title: p.Title, bare: p.Bare, note: p.Note})
		}
		err := s.fits()
		if err == nil {
			err = one.check()
		}
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", s.Workload, s.Title, err)
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

func convert[To, From ~float64](rounds [][][]From) [][][]To {
	to := make([][][]To, len(rounds))
	for i, peer := range rounds {
		to[i] = make([][]To, len(peer))
		for j, turn := range peer {
			for _, v := range turn {
				to[i][j] = append(to[i][j], To(v))
			}
		}
	}
	return to
}

// write writes into a directory that is ready: the results, the tables in a file
// of that name, and the charts.
func (r *report) write(dir, tables, text string) error {
	results, err := os.Create(filepath.Join(dir, resultsFile))
	if err != nil {
		return err
	}
	err = errors.Join(r.save(results), results.Close(), os.WriteFile(filepath.Join(dir, tables), []byte(text), 0o644))
	for _, c := range r.charts() {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, chartsDir, c.file), c.svg(), 0o644))
	}
	return err
}
