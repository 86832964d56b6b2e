package bubble

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Env returns the number in an environment variable. If it is not set, Env returns otherwise. If it
// is no number, the test ends.
func Env(t testing.TB, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q: must be a number", name, text)
	}
	return n
}

// Seeded returns a source of random numbers for one part of what the seed determines. Each part has
// its own, so that no part depends on the order of the others.
func Seeded(seed uint64, part string) *rand.Rand { return rand.New(rand.NewPCG(seed, Hash(part))) }

// Hash returns a hash of the text, the same in each run.
func Hash(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// Between returns a random duration of at least least and at most most.
func Between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}

// OneIn returns true with a probability of 1/n.
func OneIn(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

// Locked returns a source of random numbers that begins with a number of r, and is safe for
// concurrent use.
func Locked(r *rand.Rand) *rand.Rand {
	return rand.New(&lockedSource{PCG: rand.NewPCG(r.Uint64(), r.Uint64())})
}

type lockedSource struct {
	mu sync.Mutex
	*rand.PCG
}

func (s *lockedSource) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.PCG.Uint64()
}
