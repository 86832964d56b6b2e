package waits

import (
	"testing"
	"time"
)

func Settle(t *testing.T) {
	t.Helper()
	time.Sleep(time.Second) // want
}
