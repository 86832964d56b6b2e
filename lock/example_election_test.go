// The example of Election.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-io/holdfast/lock"
)

func ExampleElection() {
	ensemble := newEnsemble()
	defer ensemble.Close()
	ctx := context.Background()
	dial := func() *lock.Client {
		return must(lock.Dial(ctx, ensemble.Servers(), lock.WithDialer(ensemble.Dial)))
	}
	one, two := dial(), dial()
	defer one.Close()
	defer two.Close()

	// A candidate publishes a value, and waits until it leads.
	leadership := must(one.Election("scheduler").Campaign(ctx, "10.0.0.1:8080"))
	// Work with leadership.Context(), which ends before another candidate leads. Pass its token to
	// resources that refuse earlier leaders' tokens.

	next := make(chan *lock.Leadership)
	go func() {
		l := must(two.Election("scheduler").Campaign(ctx, "10.0.0.2:8080"))
		next <- l
	}()

	// An observer is no candidate.
	for leader, err := range one.Election("scheduler").Observe(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if !leader.Leads { // there is no leader for a moment
			continue
		}
		fmt.Println("leader:", leader.Value)
		if leader.Value == "10.0.0.2:8080" {
			break
		}
		check(leadership.Resign())
	}
	check((<-next).Resign())
	_, err := two.Election("scheduler").Leader(ctx)
	fmt.Println("no leader:", errors.Is(err, lock.ErrNoLeader))
	// Output:
	// leader: 10.0.0.1:8080
	// leader: 10.0.0.2:8080
	// no leader: true
}
