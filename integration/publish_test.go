package integration_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// TestActionsArePinned: the workflows name each action by the digest of a commit, and its release in
// a comment.
func TestActionsArePinned(t *testing.T) {
	pinned := regexp.MustCompile(`^(\./|[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$)`)
	releases, uses := map[string]string{}, 0
	for _, file := range glob(t, "../.github/workflows/*.yml") {
		for _, m := range regexp.MustCompile(`(?m)\buses: (.*)$`).FindAllStringSubmatch(text(t, file), -1) {
			uses++
			if !pinned.MatchString(m[1]) {
				t.Errorf("%s: %q: must be action@digest # release", file, m[1])
			}
			name, release, _ := strings.Cut(m[1], "@")
			if known := releases[name]; known != "" && known != release {
				t.Errorf("%s: %s is %s here, and %s elsewhere", file, name, release, known)
			}
			releases[name] = release
		}
	}
	if uses < 10 {
		t.Errorf("%d actions", uses)
	}
}

// TestDependabotKnowsEachModule: dependabot looks at the go.mod of each module.
func TestDependabotKnowsEachModule(t *testing.T) {
	var config struct {
		Updates []struct {
			Ecosystem   string `yaml:"package-ecosystem"`
			Directories []string
		}
	}
	decodeYAML(t, "../.github/dependabot.yml", &config)
	var want []string
	for _, mod := range documents(t, "go.mod") {
		want = append(want, "/"+strings.Trim(strings.TrimPrefix(filepath.Dir(mod), ".."), "/"))
	}
	if got := config.Updates[0]; got.Ecosystem != "gomod" || !slices.Equal(slices.Sorted(slices.Values(got.Directories)), slices.Sorted(slices.Values(want))) {
		t.Errorf("%q, want %q", got, want)
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// decodeYAML decodes a YAML file.
func decodeYAML(t *testing.T, path string, to any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, to); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
