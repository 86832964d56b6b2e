// Package wait waits for times, conditions and goroutines, in tests and benchmarks.
package wait

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Sleep waits for d. If the context ends first, it returns the cause.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Until polls until yes returns true or an error, for at most patience. Its own error names what
// did not happen.
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
