// Package wait waits for times, conditions and goroutines, in tests and benchmarks.
package wait

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Sleep waits for d. If the context has ended by then, it returns the cause.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// Until polls until yes returns true, for at most patience. It returns the error of yes, the cause
// if the context ends, or after patience an error that names what did not happen.
func Until(ctx context.Context, patience time.Duration, what string, yes func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it did not happen in %v that %s", patience, what))
	defer cancel()
	for {
		if done, err := yes(); done || err != nil {
			return err
		}
		if err := Sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// Between returns a random duration from least to most.
func Between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}

// All runs f for 0 to n-1 in parallel, waits for all calls, and joins their errors.
func All(n int, f func(i int) error) error {
	errs := make([]error, n)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() { errs[i] = f(i) })
	}
	running.Wait()
	return errors.Join(errs...)
}
