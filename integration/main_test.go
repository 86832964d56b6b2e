package integration_test

import (
	"flag"
	"os"
	"testing"

	"github.com/holdfast-io/holdfast/integration/peers"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

func TestMain(m *testing.M) {
	peers.ServeIfPeer()
	if role := os.Getenv(workerEnv); role != "" {
		os.Exit(work(role))
	}
	// The tests mostly wait, so many can run at once. -parallel on the command line takes
	// precedence.
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	os.Exit(zkserver.Main(m))
}
