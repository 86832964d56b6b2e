// No history leaves a goroutine behind, or breaks an invariant of a lock's state.

package sim

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast/lock/internal/queue"
)

func TestMain(m *testing.M) {
	queue.Broken = func(err error) { panic(err) }
	goleak.VerifyTestMain(m)
}
