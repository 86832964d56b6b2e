package integration_test

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// released is the version by which TestReleasedModules releases this repository.
const released = "v1.987.654"

// TestReleasedModules: with the versions that integration/release writes, each published module can
// be fetched from a proxy into an empty module, and builds the code that documents show of it. The
// proxy is a folder: nothing is fetched from elsewhere that go's cache of modules has. The code of a
// module that is not published is built where it is. Run it with `make released`.
func TestReleasedModules(t *testing.T) {
	if os.Getenv("HOLDFAST_RELEASE") == "" {
		t.Skip("only by make released: it compiles all dependencies of the modules in a cache of its own")
	}
	tree := copyOfTree(t)
	command(t, "..", "go", "run", "./integration/release", "-dir", tree, released)
	proxy, cache := t.TempDir(), t.TempDir()
	programs := map[string][]goFile{}
	for i, s := range slices.Concat(fenced(t, "go"), commented(t)) {
		if s.isProgram() {
			continue
		}
		file, err := compilable(s, fmt.Sprintf("snippet%d", i))
		iferr.Fatal(t, err)
		programs[file.module] = append(programs[file.module], file)
	}
	publish(t, proxy, tree, "")
	var modules []string
	for _, module := range slices.Sorted(maps.Keys(programs)) {
		switch {
		case strings.HasPrefix(module, "lock/"):
			publish(t, proxy, tree, module)
			modules = append(modules, module)
		case module != "": // TestGoSnippets builds and runs the code of the main module
			t.Run(module, func(t *testing.T) { buildSnippets(t, module, programs[module]) })
		}
	}
	if len(modules) != 5 {
		t.Errorf("published with code in the documents: %q", modules)
	}
	from := strings.TrimSpace(command(t, ".", "go", "env", "GOMODCACHE"))
	env := []string{
		"GOPROXY=file://" + proxy + ",file://" + filepath.Join(from, "cache", "download") + "," + strings.TrimSpace(command(t, ".", "go", "env", "GOPROXY")),
		"GOMODCACHE=" + cache, "GOFLAGS=-mod=mod -modcacherw -buildvcs=false -trimpath", "GOSUMDB=off", "GOWORK=off",
	}
	for _, m := range modules {
		t.Run(m, func(t *testing.T) {
			dir := t.TempDir()
			for i, f := range programs[m] { // the names tell where the code stands
				at := strings.NewReplacer("/", "-", "_", "-", ":", "-", ".", "-").Replace(f.at)
				writeFile(t, filepath.Join(dir, fmt.Sprintf("s%d-%s.go", i, at)), f.source)
			}
			writeFile(t, filepath.Join(dir, "scene.go"), text(t, filepath.Join("testdata/snippets", filepath.Base(m)+".go")))
			writeFile(t, filepath.Join(dir, "list.go"), "package main\n\nvar snippets any\n")
			command(t, dir, "go", "mod", "init", "example")
			command(t, dir, "env", append(slices.Clone(env), "go", "get", module+"/"+m+"@"+released)...)
			command(t, dir, "env", append(slices.Clone(env), "go", "build", "-gcflags=-e", "-o", os.DevNull, ".")...)
			if mod := text(t, filepath.Join(dir, "go.mod")); !strings.Contains(mod, module+" "+released) {
				t.Errorf("the main module is not at the release:\n%s", mod)
			}
		})
	}
}

// copyOfTree returns a copy of the files that git has or would add.
func copyOfTree(t *testing.T) string {
	t.Helper()
	tree := t.TempDir()
	for name := range strings.SplitSeq(command(t, "..", "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00") {
		data, err := os.ReadFile(filepath.Join("..", name))
		if name == "" || os.IsNotExist(err) { // deleted, and not committed yet
			continue
		}
		iferr.Fatal(t, err)
		writeFile(t, filepath.Join(tree, name), string(data))
	}
	return tree
}

// publish puts the module of a folder into a proxy.
func publish(t *testing.T, proxy, tree, folder string) {
	t.Helper()
	path := strings.TrimSuffix(module+"/"+folder, "/")
	root, at := filepath.Join(tree, folder), filepath.Join(proxy, path, "@v", released)
	info, err := json.Marshal(map[string]any{"Version": released, "Time": time.Now().UTC()})
	iferr.Fatal(t, err)
	writeFile(t, at+".info", string(info))
	writeFile(t, at+".mod", text(t, filepath.Join(root, "go.mod")))
	file, err := os.Create(at + ".zip")
	iferr.Fatal(t, err)
	archive := zip.NewWriter(file)
	err = filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil && p != root {
				return filepath.SkipDir // another module
			}
			return nil
		}
		entry, err := archive.Create(path + "@" + released + "/" + filepath.ToSlash(name))
		if err == nil {
			_, err = entry.Write([]byte(text(t, p)))
		}
		return err
	})
	iferr.Fatal(t, err)
	iferr.Fatal(t, archive.Close())
	iferr.Fatal(t, file.Close())
}

// command runs a command in a folder, and returns its output.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v\n%s%s", args, err, out, complaint.String())
	}
	return string(out)
}
