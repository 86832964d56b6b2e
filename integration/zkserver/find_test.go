package zkserver

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

func writeScript(t *testing.T, dir, name, body string) (path string) {
	t.Helper()
	iferr.Fatal(t, os.MkdirAll(dir, 0o700))
	path = filepath.Join(dir, name)
	iferr.Fatal(t, os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700))
	return path
}

// withoutJava simulates a machine without java. aptGet is the script of its apt-get; "": it has
// none. bin is the only folder in PATH.
func withoutJava(t *testing.T, aptGet string) (bin string) {
	t.Helper()
	bin = t.TempDir()
	writeScript(t, bin, "sudo", `shift; exec "$@"`) // used only without root
	for _, tool := range []string{"env", "true", "chmod"} {
		for _, dir := range []string{"/usr/bin", "/bin"} {
			if err := os.Symlink(filepath.Join(dir, tool), filepath.Join(bin, tool)); err == nil {
				break
			}
		}
	}
	if aptGet != "" {
		writeScript(t, bin, "apt-get", aptGet)
	}
	t.Setenv("PATH", bin)
	t.Setenv("JAVA_HOME", "")
	t.Setenv("ZOOKEEPER_HOME", "")
	t.Setenv("TMPDIR", t.TempDir()) // has the lock file
	return bin
}

func TestFindInstallsOnceForAll(t *testing.T) {
	NeedReal(t)
	bin := withoutJava(t, `
here=${0%/*}
echo "$@" >>$here/calls
case "$*" in *install*)
	echo >$here/java '#!/bin/sh'
	chmod +x $here/java
esac`)
	t.Setenv(EnvNoInstall, "")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			found, err := Find(t.Context())
			if err != nil || found.Java != filepath.Join(bin, "java") {
				t.Errorf("Find: %+v, %v", found, err)
			}
		})
	}
	wg.Wait()
	calls, err := os.ReadFile(filepath.Join(bin, "calls"))
	iferr.Fatal(t, err)
	const want = "-q -o DPkg::Lock::Timeout=300 update\n" +
		"-q -o DPkg::Lock::Timeout=300 install --yes --no-install-recommends default-jre-headless\n"
	if string(calls) != want {
		t.Errorf("apt-get was called with\n%swant\n%s", calls, want)
	}
}

func TestFindSaysWhatToInstall(t *testing.T) {
	NeedReal(t)
	const advice = "install it (apt-get install default-jre-headless), or set HOLDFAST_ZOOKEEPER=host:port of one that runs " +
		"(docker run --rm -p 127.0.0.1:2181:2181 zookeeper:3.9)"
	for _, test := range []struct{ name, aptGet, noInstall, want string }{
		{"forbidden", "exit 0", "1", "no ZooKeeper to run: it is not installed: HOLDFAST_NO_INSTALL forbids installing it; " + advice},
		{"no apt-get", "", "", "there is no apt-get here to install it with; " + advice},
		{"apt-get fails", "echo E: no such thing; exit 100", "", "install --yes --no-install-recommends default-jre-headless: exit status 100:\nE: no such thing; " + advice},
		{"apt-get lies", "exit 0", "", "apt-get succeeded, but what should come with default-jre-headless is still not there"},
	} {
		t.Run(test.name, func(t *testing.T) {
			withoutJava(t, test.aptGet)
			t.Setenv(EnvNoInstall, test.noInstall)
			if _, err := Find(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Find: %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestMayDiverge(t *testing.T) {
	for text, want := range map[string]bool{
		"3.4.14": true, "3.7.2": true, "3.8.0": true, "3.8.5": true, "3.8.6": false, "3.8.10": false,
		"3.9.0": true, "3.9.3": true, "3.9.4": true, "3.9.5": false, "3.10.0": false, "4.0.0": false,
	} {
		v, err := ParseVersion(text)
		iferr.Fatal(t, err)
		if got := v.MayDiverge(); got != want {
			t.Errorf("%s may diverge: %v", text, got)
		}
	}
}
