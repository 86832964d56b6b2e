package fence_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/fence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errFailed = errors.New("failed")

func token(parts ...any) lock.Token {
	t, err := lock.ParseToken(fmt.Sprintf("%016x"+strings.Repeat("-%08x", len(parts)-1), parts...))
	if err != nil {
		panic(err)
	}
	return t
}

func TestGate(t *testing.T) {
	var g fence.Gate
	for i, tt := range []struct {
		resource string
		token    lock.Token
		f        error
		want     error
	}{
		{"a", token(5), nil, nil},
		{"a", token(5), nil, nil},
		{"a", token(4), nil, fence.ErrStale},
		{"b", token(4), nil, nil},
		{"a", token(5, 0, 1), nil, nil},
		{"a", token(5), nil, fence.ErrStale},
		{"a", token(7), errFailed, errFailed},
		{"a", token(6), nil, fence.ErrStale},
		{"a", token(7), nil, nil},
		{"a", lock.Token{}, nil, lock.ErrInvalid},
		{"c", lock.Token{}, nil, lock.ErrInvalid},
	} {
		ran := false
		err := g.Do(t.Context(), tt.resource, tt.token, func() error {
			ran = true
			return tt.f
		})
		if !errors.Is(err, tt.want) || ran != (err == nil || err == errFailed) {
			t.Errorf("%d: %v, ran %v, want %v", i, err, ran, tt.want)
		}
		if again := g.Raise(t.Context(), tt.resource, tt.token); (again == nil) != ran {
			t.Errorf("%d: shown again: %v", i, again)
		}
	}
	err := g.Raise(t.Context(), "a", token(6))
	var stale *fence.StaleError
	if !errors.As(err, &stale) || *stale != (fence.StaleError{Resource: "a", Token: token(6), Highest: token(7)}) {
		t.Errorf("%#v", err)
	}
	for _, part := range []string{`"a"`, token(6).String(), token(7).String()} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v: want one that says %s", err, part)
		}
	}
}

// TestGateRefuses: a call without a context or a function, or whose context has ended, returns an
// error, although no other call runs. It does not raise the highest token.
func TestGateRefuses(t *testing.T) {
	var g fence.Gate
	run := func() error {
		t.Error("the function was called")
		return nil
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errFailed)
	for range 20 { // a select between two ready cases picks one at random
		if err := g.Do(ended, "a", token(2), run); !errors.Is(err, context.Canceled) || !errors.Is(err, errFailed) || strings.Contains(err.Error(), "another call") {
			t.Fatal(err)
		}
	}
	for what, err := range map[string]error{
		"context":  g.Do(nil, "a", token(2), run), //lint:ignore SA1012 it is what is tested
		"function": g.Do(t.Context(), "a", token(2), nil),
	} {
		if !errors.Is(err, lock.ErrInvalid) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	iferr.Error(t, g.Raise(t.Context(), "a", token(1)))
}

// TestGateIsOneStep: a call waits until the admitted call of the same name has returned, or until
// its context ends. Calls of other names do not wait.
func TestGateIsOneStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g fence.Gate
		inside, goOn := make(chan bool), make(chan bool)
		var order []string
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := g.Do(t.Context(), "a", token(1), func() error {
				close(inside)
				<-goOn
				order = append(order, "first")
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
		<-inside
		wg.Go(func() {
			iferr.Error(t, g.Do(t.Context(), "a", token(2), func() error { order = append(order, "second"); return nil }))
		})
		iferr.Error(t, g.Raise(t.Context(), "other", token(1))) // other names do not wait
		ctx, cancel := context.WithCancelCause(t.Context())
		wg.Go(func() {
			err := g.Raise(ctx, "a", token(3))
			if !errors.Is(err, context.Canceled) || !errors.Is(err, errFailed) {
				t.Error(err)
			}
		})
		synctest.Wait()
		cancel(errFailed)
		synctest.Wait()
		close(goOn)
		wg.Wait()
		if fmt.Sprint(order) != "[first second]" {
			t.Errorf("%q", order)
		}
		if err := g.Raise(t.Context(), "a", token(1)); !errors.Is(err, fence.ErrStale) {
			t.Error(err)
		}
	})
}

func TestGateIsSafeForConcurrentUse(t *testing.T) {
	var g fence.Gate
	var wg sync.WaitGroup
	var highest [3]lock.Token
	for i := range 8 {
		wg.Go(func() {
			for n := range 200 {
				name, tok := fmt.Sprint(n%3), token(int64(1+(n*7+i)%50))
				err := g.Do(t.Context(), name, tok, func() error {
					if tok.Compare(highest[n%3]) < 0 { // only the gate guards this variable
						t.Errorf("%v after %v", tok, highest[n%3])
					}
					highest[n%3] = tok
					return nil
				})
				if err != nil && !errors.Is(err, fence.ErrStale) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
