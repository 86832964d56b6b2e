package integration_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
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
	code := zkserver.Main(m)
	if programsDir != "" {
		_ = os.RemoveAll(programsDir) // the folder of temporary files may keep it
	}
	os.Exit(code)
}

// programsDir is the folder of the programs, or "" before the first test that needs them.
var programsDir string

// built builds the programs once.
var built = sync.OnceValue(func() (err error) {
	// The go command caches test results, and does not see that this test depends on the programs.
	// It does see the files that a test opens or lists.
	err = filepath.WalkDir("../cmd", func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		return err
	}
	if programsDir, err = os.MkdirTemp("", "holdfast-programs-"); err != nil {
		return err
	}
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", programsDir+"/", "../cmd/holdfast", "../cmd/reaper").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
})

// programs returns the folder of the programs holdfast and reaper.
func programs(t *testing.T) (folder string) {
	t.Helper()
	iferr.Fatal(t, built())
	return programsDir
}
