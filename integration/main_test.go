package integration_test

import (
	"os"
	"testing"

	"github.com/holdfast-io/holdfast/integration/zkserver"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(workerEnv); role != "" {
		os.Exit(work(role))
	}
	os.Exit(zkserver.Main(m))
}
