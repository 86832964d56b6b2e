package main

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

//go:embed patches
var patches embed.FS

// mutant is one deliberate breakage of the protocol.
type mutant struct {
	name   string
	breaks string   // clause that says what is broken
	tests  []string // tests that must fail, such as "lock.TestX"
	wire   string   // rule of the audit that its writes break; "": it breaks none
	file   string   // the patch file
	diff   string   // the output of git diff in that file
	number int      // selects the mutant in the test binaries that mutants share; 0: the unchanged code
	alone  bool     // the mutant has its own test binaries
}

var (
	patchFile   = regexp.MustCompile(`^breaks: (\S.*)\ntests:((?: [\w/]+\.Test\w+)+)\n(?:wire: (\w+)\n)?\n(diff --git a/(?s:.*))$`)
	changedFile = regexp.MustCompile(`(?m)^diff --git a/(\S+) b/`)
)

// load reads all patches, in the order of their paths.
func load(fsys fs.FS) ([]mutant, error) {
	var mutants []mutant
	files := map[string]string{} // by the name of the mutant
	err := fs.WalkDir(fsys, "patches", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(file) != ".patch" {
			return err
		}
		data, err := fs.ReadFile(fsys, file)
		if err != nil {
			return err
		}
		found := patchFile.FindStringSubmatch(string(data))
		if found == nil {
			return fmt.Errorf(`%s: want the line "breaks: CLAUSE", the line "tests: PACKAGE.TestX ...", perhaps the line "wire: RULE", an empty line, and what git diff prints`, file)
		}
		name := strings.TrimSuffix(path.Base(file), ".patch")
		if files[name] != "" {
			return fmt.Errorf("%s: %s has the same name", file, files[name])
		}
		files[name] = file
		mutants = append(mutants, mutant{name: name, breaks: found[1], tests: strings.Fields(found[2]), wire: found[3], file: file, diff: found[4]})
		return nil
	})
	return mutants, err
}

// apply copies the files that the patch changes from the module at root into folder, and patches
// the copies. It returns the copy of each file.
func (m mutant) apply(root, folder string) (map[string]string, error) {
	sources, replace := map[string][]byte{}, map[string]string{}
	for _, found := range changedFile.FindAllStringSubmatch(m.diff, -1) {
		file, changed := filepath.Join(root, found[1]), filepath.Join(folder, found[1])
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.file, err)
		}
		if err := os.MkdirAll(filepath.Dir(changed), 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(changed, source, 0o600); err != nil {
			return nil, err
		}
		sources[file], replace[file] = source, changed
	}
	// One line of context on each side of a change must match. Without GIT_DIR, git apply would
	// skip the files if folder were in another repository.
	git := exec.Command("git", "apply", "-C1", "--whitespace=nowarn")
	git.Dir, git.Env, git.Stdin = folder, append(os.Environ(), "GIT_DIR="+os.DevNull), strings.NewReader(m.diff)
	if out, err := git.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s does not apply, patches/README.md says how to mend it: %w\n%s", m.file, err, bytes.TrimSpace(out))
	}
	for file, changed := range replace {
		becomes, err := os.ReadFile(changed)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.file, err)
		}
		if bytes.Equal(becomes, sources[file]) {
			return nil, fmt.Errorf("%s changes nothing in %s", m.file, file)
		}
	}
	return replace, nil
}
