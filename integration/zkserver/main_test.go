package zkserver

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// envHelper makes the test binary act as another process that starts servers.
const envHelper = "ZKSERVER_TEST_HELPER"

func TestMain(m *testing.M) {
	switch helper := os.Getenv(envHelper); helper {
	case "":
		os.Exit(Main(m))
	case "start":
		os.Exit(helperTests{}.Run())
	case "main":
		os.Exit(Main(helperTests{}))
	case "main-forgets":
		os.Exit(Main(helperTests{forget: true}))
	default:
		panic(envHelper + "=" + helper)
	}
}

// helperTests stands for a package's tests. Run starts a server, prints the server's process id,
// address and folder and the address of the shared server, and waits for a line on stdin. Then it
// stops the server, unless forget is set.
type helperTests struct{ forget bool }

func (h helperTests) Run() int {
	s, err := Start(context.Background(), Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(s.Pid(), s.Addr(), s.dir, os.Getenv(EnvServers))
	fmt.Scanln()
	if h.forget {
		return 0
	}
	if err := s.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
