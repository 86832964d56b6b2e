package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// The examples run on a ZooKeeper in memory. A service leaves WithDialer out and
// names its servers.
func newEnsemble() *locktest.Ensemble {
	ensemble, err := locktest.New(locktest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return ensemble
}

func ship(ctx context.Context, token lock.Token) error { return nil }

func Example() {
	ensemble := newEnsemble()
	defer ensemble.Close()
	ctx := context.Background()

	start, cancel := context.WithTimeout(ctx, 30*time.Second) // without, Dial waits for servers for ever
	defer cancel()
	locks, err := lock.Dial(start, ensemble.Servers(), lock.WithTTL(30*time.Second), lock.WithDialer(ensemble.Dial))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	hold, err := locks.Mutex("orders/42").Lock(ctx) // waits its turn
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Unlock()

	// The context ends if the hold is lost. Whatever ship changes can refuse a
	// token that is lower than one it has seen.
	if err := ship(hold.Context(), hold.Token()); err != nil {
		log.Fatal(err)
	}
	fmt.Println("shipped under", hold.Name())
	// Output: shipped under orders/42
}

func ExampleMutex_Do() {
	ensemble := newEnsemble()
	defer ensemble.Close()
	ctx := context.Background()
	locks, err := lock.Dial(ctx, ensemble.Servers(), lock.WithDialer(ensemble.Dial))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	err = locks.Mutex("reports/daily").Do(ctx, func(ctx context.Context) error {
		fmt.Println("writing the report")
		return ctx.Err() // ends when the lock is lost
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: writing the report
}

func ExampleMutex_TryLock() {
	ensemble := newEnsemble()
	defer ensemble.Close()
	ctx := context.Background()
	locks, err := lock.Dial(ctx, ensemble.Servers(), lock.WithOwner("billing"), lock.WithDialer(ensemble.Dial))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	hold, err := locks.Mutex("invoices").TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Unlock()

	_, err = locks.Mutex("invoices").TryLock(ctx)
	var held *lock.HeldError
	if errors.Is(err, lock.ErrHeld) && errors.As(err, &held) {
		fmt.Printf("%s is at it\n", held.Owner)
	}
	// Output: billing is at it
}

// A context that comes from a hold can take the same lock again, so functions
// that need the lock can call each other.
func ExampleClient_LockAll() {
	ensemble := newEnsemble()
	defer ensemble.Close()
	ctx := context.Background()
	locks, err := lock.Dial(ctx, ensemble.Servers(), lock.WithDialer(ensemble.Dial))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	// Somebody who moves money the other way names them in the opposite order.
	holds, err := locks.LockAll(ctx, "accounts/7", "accounts/3")
	if err != nil {
		log.Fatal(err)
	}
	defer holds.Unlock()

	// The context ends as soon as one of them is lost. Each has a token of its own.
	for _, hold := range holds.Each() {
		if err := ship(holds.Context(), hold.Token()); err != nil {
			log.Fatal(err)
		}
		fmt.Println("under", hold.Name())
	}
	// Output:
	// under accounts/3
	// under accounts/7
}

func ExampleMutex_Lock_again() {
	ensemble := newEnsemble()
	defer ensemble.Close()
	ctx := context.Background()
	locks, err := lock.Dial(ctx, ensemble.Servers(), lock.WithDialer(ensemble.Dial))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	outer, err := locks.Mutex("stock").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	inner, err := locks.Mutex("stock").Lock(outer.Context())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("one hold:", inner.Token() == outer.Token())
	fmt.Println("first unlock:", inner.Unlock(), "- still held:", outer.Valid())
	fmt.Println("last unlock:", outer.Unlock(), "- still held:", outer.Valid())
	// Output:
	// one hold: true
	// first unlock: <nil> - still held: true
	// last unlock: <nil> - still held: false
}

func ExampleHold_Context() {
	ensemble := newEnsemble()
	defer ensemble.Close()
	ctx := context.Background()
	locks, err := lock.Dial(ctx, ensemble.Servers(), lock.WithDialer(ensemble.Dial))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	// A lease of 100 ms that nobody renews.
	hold, err := locks.Mutex("draw", lock.WithTTL(100*time.Millisecond), lock.WithoutRenewal()).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	<-hold.Context().Done()
	err = context.Cause(hold.Context())
	fmt.Println("lost:", errors.Is(err, lock.ErrLost))
	fmt.Println("expired:", errors.Is(err, lock.ErrExpired))
	// Output:
	// lost: true
	// expired: true
}

func ExampleHold_Token() {
	ensemble := newEnsemble()
	defer ensemble.Close()
	ctx := context.Background()
	locks, err := lock.Dial(ctx, ensemble.Servers(), lock.WithDialer(ensemble.Dial))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	// What the lock guards remembers the highest token.
	var highest lock.Token
	write := func(by lock.Token) string {
		if by.Compare(highest) < 0 {
			return "refused"
		}
		highest = by
		return "written"
	}

	var tokens []lock.Token
	for range 2 {
		hold, err := locks.Mutex("ledger").Lock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		tokens = append(tokens, hold.Token())
		hold.Unlock()
	}
	fmt.Println("second holder:", write(tokens[1]))
	fmt.Println("first holder, late:", write(tokens[0]))
	// Output:
	// second holder: written
	// first holder, late: refused
}

// New uses a connection that the service has already, and leaves it open.
func ExampleNew() {
	ensemble := newEnsemble()
	defer ensemble.Close()
	ctx := context.Background()

	conn, _, err := zk.Connect(ensemble.Servers(), 10*time.Second, zk.WithDialer(ensemble.Dial), zk.WithLogInfo(false))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	locks, err := lock.New(conn, lock.WithRoot("/shop/locks"), lock.WithSessionTimeout(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	err = locks.Mutex("till").Do(ctx, func(context.Context) error {
		fmt.Println("counting")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: counting
}
