package zkserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

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
