package zkserver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

func TestExternal(t *testing.T) {
	for value, want := range map[string][]string{
		"":              nil,
		" , ":           nil,
		"a:1":           {"a:1"},
		"a:1, b:2,,c:3": {"a:1", "b:2", "c:3"},
	} {
		t.Setenv(EnvServers, value)
		if got := External(); !slices.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("External() of %q is %q", value, got)
		}
	}
}

func TestFindRefusesAnotherFolder(t *testing.T) {
	t.Setenv("ZOOKEEPER_HOME", t.TempDir())
	if _, err := Find(t.Context()); err == nil || !strings.Contains(err.Error(), "must be an unpacked release") {
		t.Errorf("Find: %v", err)
	}
}

func TestFindPrefersJavaHome(t *testing.T) {
	NeedReal(t)
	home := t.TempDir()
	java := writeScript(t, filepath.Join(home, "bin"), "java", "")
	t.Setenv("JAVA_HOME", home)
	found, err := Find(t.Context())
	iferr.Fatal(t, err)
	if found.Java != java {
		t.Errorf("java is %s", found.Java)
	}
}

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

// TestLockFile: a second lock waits for the first one, at most until its context ends.
func TestLockFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(t.Context(), path)
	iferr.Fatal(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lockFile(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("while it is locked: %v", err)
	}
	unlock()
	if unlock, err = lockFile(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]string{
		"3.9.5":                                "3.9.5",
		"3.9.5-src":                            "3.9.5",
		"3.8.0--1":                             "3.8.0",
		"3.4.14-4c25d480e66aadd371de8bd2fd8da": "3.4.14",
		"apache-zookeeper-3.8.6-bin":           "3.8.6",
		"zookeeper-3.4.14":                     "3.4.14",
		"3.10-snapshot":                        "3.10.0, a snapshot",
		"3.10.0-SNAPSHOT-1a2b":                 "3.10.0, a snapshot",
		"3.5.0-alpha":                          "3.5.0, a snapshot",
		"":                                     "error",
		"deps":                                 "error",
		"README.md":                            "error",
		"3":                                    "error",
		"3.9.5.1":                              "error",
	} {
		got := "error"
		if v, err := ParseVersion(text); err == nil {
			got = v.String()
		}
		if got != want {
			t.Errorf("ParseVersion(%q) is %s, want %s", text, got, want)
		}
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

// unpack creates a folder of releases, each with only its jar.
func unpack(t *testing.T, releases ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range releases {
		lib := filepath.Join(dir, name, "lib")
		iferr.Fatal(t, os.MkdirAll(lib, 0o700))
		v, err := ParseVersion(name)
		if err != nil {
			continue // not a release
		}
		v.Snapshot = false // the jars' names lack it
		iferr.Fatal(t, os.WriteFile(filepath.Join(lib, "zookeeper-"+v.String()+".jar"), nil, 0o600))
	}
	return dir
}

func TestNewestFixed(t *testing.T) {
	for name, test := range map[string]struct {
		releases []string
		want     string
	}{
		"newest of those that are fixed": {[]string{"3.8.6", "3.9.5", "3.9.3", "3.7.2", "3.10-snapshot", "deps"}, "3.9.5"},
		"numbers, not text":              {[]string{"3.9.12", "3.9.5"}, "3.9.12"},
		"an older line's fix":            {[]string{"3.8.0", "3.8.6", "3.9.3"}, "3.8.6"},
		"a later line":                   {[]string{"3.9.5", "3.10.1"}, "3.10.1"},
		"Apache's own names":             {[]string{"apache-zookeeper-3.8.6-bin", "apache-zookeeper-3.9.5-bin"}, "apache-zookeeper-3.9.5-bin"},
		"none":                           {[]string{"3.8.5", "3.9.4", "3.10.0-SNAPSHOT", "deps"}, ""},
		"nothing":                        {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := unpack(t, test.releases...)
			want := ""
			if test.want != "" {
				want = filepath.Join(dir, test.want)
			}
			if got, err := newestFixed(dir); got != want || err != nil {
				t.Errorf("newestFixed is %q, %v; want %q", got, err, want)
			}
		})
	}
}

func TestFindFixed(t *testing.T) {
	NeedReal(t)
	dir, home := unpack(t, "3.8.6", "3.9.5"), filepath.Join(unpack(t, "3.7.2"), "3.7.2")
	for name, test := range map[string]struct{ releases, home, want string }{
		"from the folder":             {dir, "", filepath.Join(dir, "3.9.5")},
		"ZOOKEEPER_HOME comes first":  {dir, home, home},
		"none of the folder's is one": {filepath.Dir(home), "", jarDir},
		"no folder":                   {"", "", jarDir},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(EnvReleases, test.releases)
			t.Setenv(EnvHome, test.home)
			if found, err := FindFixed(t.Context()); err != nil || !strings.HasPrefix(found.ClassPath, test.want) {
				t.Errorf("FindFixed is %+v, %v; want %s", found, err, test.want)
			}
		})
	}
	t.Setenv(EnvHome, "")
	t.Setenv(EnvReleases, filepath.Join(dir, "missing"))
	if _, err := FindFixed(t.Context()); err == nil || !strings.Contains(err.Error(), `HOLDFAST_SERVERS="`+dir) {
		t.Errorf("FindFixed with a folder that is not there: %v", err)
	}
}
