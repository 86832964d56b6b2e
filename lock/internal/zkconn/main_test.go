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

// leaks returns an error if goroutines stay, other than those that the options let. A look
// takes half a second, and go-zookeeper's Close waits for a second for a server that is silent.
func leaks(options ...goleak.Option) (err error) {
	for range 10 {
		if err = goleak.Find(options...); err == nil {
			return nil
		}
	}
	return err
}
