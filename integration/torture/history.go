package main

import (
	"encoding/json"
	"io"
	"math"
	"sync"
)

// never is a time after every run.
const never instant = math.MaxInt64

// record is one operation of a run, or one fault.
type record struct {
	Op     string  `json:"op"`
	Worker string  `json:"worker,omitempty"` // w3.2: the third worker's second life
	Lock   string  `json:"lock,omitempty"`
	Kind   string  `json:"kind,omitempty"`   // of the lock
	Weight int     `json:"weight,omitempty"` // of the hold as it was granted
	Token  int64   `json:"token,omitempty"`
	Call   instant `json:"call"`
	Return instant `json:"return"`            // never: it is not known to have ended
	Unsure bool    `json:"unsure,omitempty"`  // the worker did not live to learn the outcome
	Claim  *claim  `json:"claim,omitempty"`   // of the hold, before the operation
	Value  string  `json:"value,omitempty"`   // written or read; of a candidate, that it gave or was shown
	Writer int64   `json:"writer,omitempty"`  // token of the value read
	Count  int     `json:"count,omitempty"`   // written or read
	Refuse bool    `json:"refused,omitempty"` // by the register or the counter
	Result string  `json:"result,omitempty"`  // of the library's call; of a fault: which
}

// history is all that happened in a run.
type history struct {
	mu      sync.Mutex
	records []*record
}

func (h *history) add(r *record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records = append(h.records, r)
}

// finish notes when an operation had ended.
func (h *history) finish(r *record, at instant, unsure bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r.Return, r.Unsure = at, unsure
}

// write writes the records as JSON lines.
func (h *history) write(w io.Writer) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := json.NewEncoder(w)
	for _, r := range h.records {
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	return nil
}
