// The example of Hold.Revoked.

package lock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-io/holdfast/lock"
)

// A holder releases its lock when another client requests that.
func ExampleHold_Revoked() {
	ctx := context.Background()
	locks, done := newClient(lock.WithOwner("deploy"))
	defer done()

	hold := must(locks.Mutex("node3").Lock(ctx))
	// In another process:
	check(locks.Revoke(ctx, "node3", "node3 is drained"))

	select {
	case r := <-hold.Revoked():
		fmt.Printf("%s asks for %s: %s\n", r.Owner, hold.Name(), r.Reason)
	case <-hold.Context().Done():
		log.Fatal(hold.Err())
	}
	check(hold.Unlock())
	// Output: deploy asks for node3: node3 is drained
}
