package zkconn

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := leaks(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// leaks returns an error if goroutines remain, except those that the options allow. It tries ten times:
// a try takes half a second, and go-zookeeper's Close waits for a silent server for a second.
func leaks(options ...goleak.Option) (err error) {
	for range 10 {
		if err = goleak.Find(options...); err == nil {
			return nil
		}
	}
	return err
}
