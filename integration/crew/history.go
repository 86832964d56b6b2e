package crew

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/integration/monotonic"
	"github.com/holdfast-io/holdfast/integration/wait"
)

// Kinds of records.
const (
	OpTry   = "try"   // an attempt that did not get the lock; Result says why
	OpGrant = "grant" // the client has got the lock
	OpCheck = "check" // the client asked its library, which says that the lock is held
	OpAct   = "act"   // the client did what the lock protects, between Call and Return
	OpLost  = "lost"  // the library says that the lock is lost; Result says why
	OpLeave = "leave" // the client is about to unlock; from Call on, it claims nothing
	OpLeft  = "left"  // the client has unlocked; Result says how

	OpFault     = "fault" // Result has its name
	OpKilled    = "killed"
	OpStopped   = "stopped"
	OpContinued = "continued"
)

// Record is one step of a client, or one fault.
type Record struct {
	Op     string            `json:"op"`
	Worker string            `json:"worker,omitempty"` // w3.2: second process of the client with index 3
	Lock   string            `json:"lock,omitempty"`   // or what else is owned
	Kind   string            `json:"kind,omitempty"`   // of the lock
	Weight int               `json:"weight,omitempty"` // part of the lock's room that the hold got
	Hold   string            `json:"hold,omitempty"`   // name of the hold; unique in a history
	Token  string            `json:"token,omitempty"`
	Call   monotonic.Instant `json:"call"`
	Return monotonic.Instant `json:"return"`
	Claim  *monotonic.Claim  `json:"claim,omitempty"`
	Tick   int64             `json:"tick,omitempty"`   // of a job, in ns of right time
	Value  string            `json:"value,omitempty"`  // that a candidate set or read
	Result string            `json:"result,omitempty"` // class of an error; "": there was none
}

// NewRecord returns a record of something that happens to a client now.
func NewRecord(op, worker string) *Record {
	now := monotonic.Now()
	return &Record{Op: op, Worker: worker, Call: now, Return: now}
}

// History has the records of all clients, in the order in which they arrived. Methods may be called
// concurrently.
type History struct {
	mu      sync.Mutex
	records []*Record
}

// Add appends a record.
func (h *History) Add(r *Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records = append(h.records, r)
}

// All returns the records so far. The caller must not change them.
func (h *History) All() []*Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.records[:len(h.records):len(h.records)]
}

// Count returns how many records are of an operation.
func (h *History) Count(op string) (n int) {
	for _, r := range h.All() {
		if r.Op == op {
			n++
		}
	}
	return n
}

// Await waits until a record that is added from now on matches. It fails after patience, or when ctx
// ends.
func (h *History) Await(ctx context.Context, patience time.Duration, match func(*Record) bool) error {
	seen := len(h.All())
	return wait.Until(ctx, patience, "a record matches", func() (bool, error) {
		for _, r := range h.All()[seen:] {
			if seen++; match(r) {
				return true, nil
			}
		}
		return false, nil
	})
}

// Keep makes the folder dir, and writes the records to its history.jsonl, as JSON lines.
func (h *History) Keep(dir string) error {
	var lines bytes.Buffer
	e := json.NewEncoder(&lines)
	for _, r := range h.All() {
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	return errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "history.jsonl"), lines.Bytes(), 0o644))
}
