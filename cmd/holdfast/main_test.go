package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/supervise"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/localhost"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// envProgram makes the test binary run as holdfast.
const envProgram = "HOLDFAST_TEST_PROGRAM"

func TestMain(m *testing.M) {
	supervise.Helper() // run starts this program as a helper
	if os.Getenv(envProgram) != "" {
		app.Main(run)
	}
	os.Exit(m.Run())
}

// holdfast runs a command line in this process, without input. What run itself tells goes to os.Stderr.
func holdfast(t *testing.T, args ...string) (out, errs string, status int) {
	t.Helper()
	var o, e bytes.Buffer
	status = run(t.Context(), args, strings.NewReader(""), &o, &e)
	return o.String(), e.String(), status
}

// stderrOf returns what f writes to os.Stderr.
func stderrOf(t *testing.T, f func()) string {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "stderr")
	iferr.Fatal(t, err)
	defer file.Close()
	defer func(old *os.File) { os.Stderr = old }(os.Stderr)
	os.Stderr = file
	f()
	text, err := os.ReadFile(file.Name())
	iferr.Fatal(t, err)
	return string(text)
}

// served returns an in-memory ensemble and a client of it. It sets the environment so that commands
// connect to the ensemble.
func served(t *testing.T, opts ...lock.Option) (*locktest.Ensemble, *lock.Client) {
	t.Helper()
	ens, server := localhost.InMemory(t, locktest.Options{})
	t.Setenv(app.EnvConfig, "")
	t.Setenv(app.EnvServers, server)
	locks, err := lock.Dial(t.Context(), []string{server}, opts...)
	iferr.Fatal(t, err)
	t.Cleanup(func() { locks.Close() })
	return ens, locks
}

// held returns the hold of a lock that a client has locked.
func held(t *testing.T, locks *lock.Client, name string) *lock.Hold {
	t.Helper()
	hold, err := locks.Mutex(name).Lock(t.Context())
	iferr.Fatal(t, err)
	return hold
}

// create creates a node as another program does. An ephemeral one stays until the end of the test.
func create(t *testing.T, path, data string, flags int32, acl []zk.ACL) {
	t.Helper()
	z, _, err := zk.Connect([]string{os.Getenv(app.EnvServers)}, 10*time.Second, zk.WithLogInfo(false))
	iferr.Fatal(t, err)
	t.Cleanup(z.Close)
	if _, err := z.Create(path, []byte(data), flags, acl); err != nil {
		t.Fatal(path, err)
	}
}
