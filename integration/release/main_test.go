package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// repository returns a folder with a main module, a published one, and an example.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	nested := "\n\ngo 1.25.0\n\nrequire " + module + " v0.0.0\n\nreplace " + module + " => ../..\n"
	for name, text := range map[string]string{
		"go.mod":                   "module " + module + "\n\ngo 1.25.0\n",
		"lock/one/go.mod":          "module " + module + "/lock/one" + nested,
		"lock/examples/two/go.mod": "module " + module + "/lock/examples/two" + nested,
		changelog:                  "# Changelog\n\n" + head + "\n- A feature.\n",
	} {
		path := filepath.Join(dir, name)
		iferr.Fatal(t, os.MkdirAll(filepath.Dir(path), 0o755))
		iferr.Fatal(t, os.WriteFile(path, []byte(text), 0o644))
	}
	git(t, dir, "init", "-q")
	commit(t, dir)
	return dir
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

func commit(t *testing.T, dir string) {
	t.Helper()
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", "c")
}

// TestRelease: what is written passes the check, once it has its tags.
func TestRelease(t *testing.T) {
	dir, version := repository(t), []string{"v1.2.3"}
	lacks := func(want ...string) {
		t.Helper()
		err := run(dir, version, true)
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("the check says %v, not %q", err, w)
			}
		}
		if err != nil && strings.Count(err.Error(), "\n")+1 != len(want) {
			t.Errorf("the check says %v, want %q", err, want)
		}
	}
	lacks("lock/one/go.mod", "lock/examples/two/go.mod", "CHANGELOG.md", "the tag v1.2.3", "the tag lock/one/v1.2.3")
	iferr.Fatal(t, run(dir, version, false))
	if err := run(dir, version, false); err == nil {
		t.Error("one version was written twice")
	}
	commit(t, dir)
	git(t, dir, "tag", "v1.2.3")
	lacks("the tag lock/one/v1.2.3")
	git(t, dir, "tag", "lock/one/v1.2.3")
	lacks()
	text, err := os.ReadFile(filepath.Join(dir, changelog))
	if err != nil || !strings.Contains(string(text), head+"\n## [1.2.3] - 2") || !strings.HasSuffix(string(text), "\n\n- A feature.\n") {
		t.Errorf("%v: %s", err, text)
	}
}

// TestVersion: versions that the module's path does not allow are refused.
func TestVersion(t *testing.T) {
	for _, args := range [][]string{nil, {"1.2.3"}, {"v1.2"}, {"v2.0.0"}, {"v1.02.3"}, {"v1.2.3", "v1.2.4"}, {"v1.2.3 "}} {
		if err := run(t.TempDir(), args, false); err == nil || !strings.Contains(err.Error(), "must be one version") {
			t.Errorf("%q: %v", args, err)
		}
	}
	if !canonical.MatchString("v0.1.0-rc.1") {
		t.Error("a candidate is refused")
	}
}
