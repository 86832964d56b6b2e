// No history leaves a goroutine behind, or breaks an invariant of an entry or a lock's state.

package sim

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast/lock/internal/lease"
)

func TestMain(m *testing.M) {
	lease.Broken = func(err error) { panic(err) }
	goleak.VerifyTestMain(m)
}
