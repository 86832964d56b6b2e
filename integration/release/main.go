// Command release prepares the commit of a release, and checks it.
//
//	go run ./integration/release v1.2.3          # writes the version
//	go run ./integration/release -check v1.2.3   # in the workflow of the release
//
// The modules in subfolders require the main module. In the repository a replace directive leads
// them to it; users do not get that directive, so in a release they must require a version that
// exists. All modules are tagged at one commit.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	module    = "github.com/holdfast-io/holdfast"
	changelog = "CHANGELOG.md"
	head      = "## [Unreleased]\n"
)

func main() {
	check := flag.Bool("check", false, "check that the version is written, and that HEAD has the tags")
	dir := flag.String("dir", ".", "the `folder` of the repository")
	flag.Parse()
	if err := run(*dir, flag.Args(), *check); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// canonical matches versions of a module whose path has no major version.
var canonical = regexp.MustCompile(`^v[01]\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

func run(dir string, args []string, check bool) error {
	if len(args) != 1 || !canonical.MatchString(args[0]) {
		return fmt.Errorf("%q: must be one version such as v1.2.3 or v1.2.3-rc.1; the path of the module allows v0 and v1", args)
	}
	version := args[0]
	modules, err := modules(dir)
	if err != nil {
		return err
	}
	if check {
		return errors.Join(checkFiles(dir, modules, version), checkTags(dir, modules, version))
	}
	if err := write(dir, modules, version); err != nil {
		return err
	}
	fmt.Printf("Written. Once CI is green:\n\n  git commit -am 'release %s'\n", version)
	fmt.Printf("  for tag in %s; do git tag -a -m %s $tag; done\n", strings.Join(tags(modules, version), " "), version)
	fmt.Printf("  git push --atomic origin main %s\n", strings.Join(tags(modules, version), " "))
	return nil
}

// modules returns the folders of the modules below dir, except the main module's.
func modules(dir string) (folders []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != dir && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.Name() == "go.mod" && filepath.Dir(path) != filepath.Clean(dir):
			folder, err := filepath.Rel(dir, filepath.Dir(path))
			folders = append(folders, filepath.ToSlash(folder))
			return err
		}
		return nil
	})
	return folders, err
}

// published reports whether other modules may import a module: the others are tests and examples.
func published(folder string) bool {
	return strings.HasPrefix(folder, "lock/") && !strings.HasPrefix(folder, "lock/examples/")
}

// tags returns the tags of a release.
func tags(modules []string, version string) []string {
	all := []string{version}
	for _, m := range modules {
		if published(m) {
			all = append(all, m+"/"+version)
		}
	}
	return all
}

// write writes the version into each go.mod, and the release's heading into the change log.
func write(dir string, modules []string, version string) error {
	for _, m := range modules {
		edit := exec.Command("go", "mod", "edit", "-require="+module+"@"+version)
		edit.Dir = filepath.Join(dir, m)
		if out, err := edit.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", m, err, out)
		}
	}
	path := filepath.Join(dir, changelog)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, after, found := strings.Cut(string(text), head)
	if !found || strings.Contains(string(text), heading(version)) {
		return fmt.Errorf("%s: must have the line %q, and no %q yet", changelog, strings.TrimSpace(head), heading(version))
	}
	dated := heading(version) + " - " + time.Now().UTC().Format(time.DateOnly) + "\n"
	return os.WriteFile(path, []byte(before+head+"\n"+dated+after), 0o644)
}

func heading(version string) string { return "## [" + strings.TrimPrefix(version, "v") + "]" }

// checkFiles says what write would have written and is not there.
func checkFiles(dir string, modules []string, version string) (errs error) {
	requires := regexp.MustCompile(`(?m)^(?:require)?\s+` + regexp.QuoteMeta(module) + ` (\S+)`)
	for _, m := range modules {
		text, err := os.ReadFile(filepath.Join(dir, m, "go.mod"))
		if err != nil {
			return err
		}
		if got := requires.FindStringSubmatch(string(text)); got == nil || got[1] != version {
			errs = errors.Join(errs, fmt.Errorf("%s/go.mod: must require %s %s, not %q", m, module, version, got))
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, changelog))
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), "\n"+heading(version)) {
		errs = errors.Join(errs, fmt.Errorf("%s: has no section %s", changelog, heading(version)))
	}
	return errs
}

// checkTags says which tags HEAD lacks.
func checkTags(dir string, modules []string, version string) (errs error) {
	list := exec.Command("git", "tag", "--points-at", "HEAD")
	list.Dir = dir
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("git tag: %w", err)
	}
	has := strings.Fields(string(out))
	for _, tag := range tags(modules, version) {
		if !slices.Contains(has, tag) {
			errs = errors.Join(errs, fmt.Errorf("HEAD must have the tag %s", tag))
		}
	}
	return errs
}
