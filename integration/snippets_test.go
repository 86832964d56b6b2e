package integration_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// The tests compile all Go code in the documents. They also run the Go code of Markdown pages,
// against a ZooKeeper server. Commands are run or checked by the rules in snippets_sh_test.go. A
// snippet of a language without a test fails the tests.

// snippet is a piece of code in a document.
type snippet struct {
	at       string // file:line
	language string
	text     string
}

// isProgram reports whether a snippet is a whole program.
func (s snippet) isProgram() bool { return strings.Contains("\n"+s.text, "\npackage main\n") }

// languages has the languages of snippets, each with the test that checks it.
var languages = map[string]string{
	"go":     "TestGoSnippets",
	"sh":     "TestCommandsOfDocs",
	"yaml":   "TestYAMLOfDocs",
	"java":   "none: it is how Curator is used, as integration/peers does in TestMixed",
	"python": "none: it is how kazoo is used, as integration/peers does in TestMixed",
	"text":   "none: it is to be read",
}

// documents returns the paths of all files whose names end in ext, except tests, testdata, and
// folders that are hidden or named bin.
func documents(t *testing.T, ext string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "bin" || d.Name() == "testdata" || path != ".." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case strings.HasSuffix(path, ext) && !strings.HasSuffix(path, "_test.go"):
			paths = append(paths, path)
		}
		return nil
	})
	iferr.Fatal(t, err)
	return paths
}

// fenced returns the snippets of the Markdown pages in a language. There must be at least one
// snippet.
func fenced(t *testing.T, language string) (found []snippet) {
	t.Helper()
	for _, path := range documents(t, ".md") {
		var open *snippet
		for i, line := range strings.Split(text(t, path), "\n") {
			fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
			switch {
			case isFence && open == nil:
				open = &snippet{at: fmt.Sprintf("%s:%d", strings.TrimPrefix(path, "../"), i+1), language: fence}
			case isFence:
				if languages[open.language] == "" {
					t.Errorf("%s: a snippet of language %q, which no test looks at; one of ours, or text?", open.at, open.language)
				}
				if open.language == language {
					found = append(found, *open)
				}
				open = nil
			case open != nil:
				open.text += line + "\n"
			}
		}
		if open != nil {
			t.Errorf("%s: the snippet does not end", open.at)
		}
	}
	if len(found) == 0 {
		t.Fatalf("no snippet of language %q", language)
	}
	return found
}

// commented returns the Go code in comments, except those of programs in integration.
func commented(t *testing.T) (found []snippet) {
	t.Helper()
	looksLikeGo := regexp.MustCompile(`(?m):= |^\w+(\.\w+)+\(|func\(`)
	for _, path := range documents(t, ".go") {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		iferr.Fatal(t, err)
		if strings.HasPrefix(path, "../integration/") && file.Name.Name == "main" {
			continue
		}
		for _, group := range file.Comments {
			var p comment.Parser
			for _, block := range p.Parse(group.Text()).Content {
				code, ok := block.(*comment.Code)
				if ok && looksLikeGo.MatchString(code.Text) {
					found = append(found, snippet{strings.TrimPrefix(files.Position(group.Pos()).String(), "../"), "go", code.Text})
				}
			}
		}
	}
	return found
}

const module = "github.com/holdfast-io/holdfast"

// packages has the packages that snippets may use without an import. A snippet that uses packages
// of another module is compiled in that module.
var packages = map[string]string{
	"context": "context", "errors": "errors", "fmt": "fmt", "fs": "io/fs", "http": "net/http", "log": "log", "os": "os", "slog": "log/slog", "sql": "database/sql",
	"synctest": "testing/synctest", "testing": "testing", "time": "time",
	"zk":       "github.com/go-zookeeper/zk",
	"lock":     module + "/lock",
	"admin":    module + "/lock/admin",
	"fence":    module + "/lock/fence",
	"audit":    module + "/lock/history/audit",
	"history":  module + "/lock/history",
	"txnlog":   module + "/lock/history/txnlog",
	"config":   module + "/lock/config",
	"kerberos": module + "/lock/kerberos",
	"locktest": module + "/lock/locktest",
	"policy":   module + "/lock/policy",
	"schedule": module + "/lock/schedule",
	"shard":    module + "/lock/shard",
	"cron":     "github.com/robfig/cron/v3",
	"zerolog":  module + "/lock/observe/zerolog",
	"zkserver": module + "/integration/zkserver",

	"otel":        module + "/lock/observe/otel",
	"prometheus":  module + "/lock/observe/prometheus",
	"gooselock":   module + "/lock/adapters/gooselock",
	"migratelock": module + "/lock/adapters/migratelock",
	"gocronlock":  module + "/lock/adapters/gocronlock",
	"goose":       "github.com/pressly/goose/v3",
	"migrate":     "github.com/golang-migrate/migrate/v4",
	"database":    "github.com/golang-migrate/migrate/v4/database",
	"iofs":        "github.com/golang-migrate/migrate/v4/source/iofs",
	"gocron":      "github.com/go-co-op/gocron/v2",
	"redislock":   "github.com/bsm/redislock",
	"redis":       "github.com/redis/go-redis/v9",
}

// elsewhere has the modules of the packages that are not in the main module.
var elsewhere = map[string]string{
	"otel": "lock/observe/otel", "prometheus": "lock/observe/prometheus",
	"gooselock": "lock/adapters/gooselock", "goose": "lock/adapters/gooselock",
	"migratelock": "lock/adapters/migratelock", "migrate": "lock/adapters/migratelock",
	"gocronlock": "lock/adapters/gocronlock", "gocron": "lock/adapters/gocronlock",
	"redislock": "integration/bench", "redis": "integration/bench",
}

// notRun has identifiers. A snippet that uses one is compiled but not run, for the reason given.
var notRun = map[string]string{
	"db":  "there is no database: integration/sql runs the statements of a fence, integration/bench those of a lock table",
	"rdb": "there is no Redis: integration/bench runs locks on one",
	"t":   "the package's own tests do it",
	"ens": "the package's own tests do it",
	"tap": "the package's own tests do it",

	"consume": "a member works until its context ends: the tests of lock/shard run members",
	"poll":    "the same",
}

// goFile is a snippet as a file of package main.
type goFile struct {
	snippet
	source string
	module string // "": the main module
	runs   bool
}

// onlyImport matches a snippet that is only an import.
var onlyImport = regexp.MustCompile(`^package main\nimport ("\S+")\n$`)

// compilable makes a Go file of a snippet. It wraps statements into a function, and adds the
// imports.
func compilable(s snippet, function string) (goFile, error) {
	code := strings.ReplaceAll(s.text, `[]string{"zk1:2181", "zk2:2181", "zk3:2181"}`, "servers")
	result, end := goFile{snippet: s, runs: true}, ""
	wrapped := func() string {
		return "package main\nfunc " + function + "() error {\n" + code + "\n" + end + "return nil\n}\n"
	}
	source := "package main\n" + code // if the snippet is declarations
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, s.at, source, parser.SkipObjectResolution)
	if err != nil {
		if file, err = parser.ParseFile(files, s.at, wrapped(), parser.SkipObjectResolution); err != nil {
			return result, fmt.Errorf("it is no Go: %w", err)
		}
		for _, name := range declared(file.Decls[0].(*ast.FuncDecl)) {
			end += "_ = " + name + "\n"
		}
		source = wrapped()
	} else {
		result.runs = false
		source = onlyImport.ReplaceAllString(source, "import _ $1")
	}
	imports := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if name, ok := n.X.(*ast.Ident); ok && packages[name.Name] != "" {
				imports[name.Name] = true
				result.module = max(result.module, elsewhere[name.Name])
			}
		case *ast.Ident:
			if notRun[n.Name] != "" {
				result.runs = false
			}
		}
		return true
	})
	head := "package main\n"
	for name := range imports {
		head += fmt.Sprintf("import %s %q\n", name, packages[name])
	}
	formatted, err := format.Source([]byte(head + strings.TrimPrefix(source, "package main\n")))
	result.source = string(formatted)
	return result, err
}

// declared returns the names that a function's body declares at its top level. A snippet that is an
// excerpt need not use them.
func declared(f *ast.FuncDecl) (names []string) {
	for _, s := range f.Body.List {
		if a, ok := s.(*ast.AssignStmt); ok && a.Tok == token.DEFINE {
			for _, x := range a.Lhs {
				if name := x.(*ast.Ident).Name; name != "_" {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// TestGoSnippets: all Go code in the documents compiles, except that of other modules, which
// TestReleasedModules compiles. The statements in the Markdown pages run without an error, except
// those of notRun.
func TestGoSnippets(t *testing.T) {
	t.Parallel()
	pages := slices.DeleteFunc(fenced(t, "go"), snippet.isProgram) // TestProgramOfREADME runs the whole program
	var files []goFile
	for i, s := range slices.Concat(pages, commented(t)) {
		file, err := compilable(s, fmt.Sprintf("snippet%d", i))
		if err != nil {
			t.Errorf("%s: %v", s.at, err)
			continue
		}
		file.runs = file.runs && i < len(pages)
		if file.module == "" {
			files = append(files, file)
		}
	}
	program := buildSnippets(t, "", files)
	server := zkserver.AddrForTest(t, zkserver.Options{})
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "config.yaml"), strings.ReplaceAll(text(t, "../config.yaml"), "127.0.0.1:2181", server))
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), zkserver.EnvServers+"="+server)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// buildSnippets builds a program of the snippets, as a temporary package of the module, and returns
// the program's path. In other modules than the main module, buildSnippets only compiles the
// snippets, and returns os.DevNull.
func buildSnippets(t *testing.T, module string, files []goFile) string {
	t.Helper()
	dir, root := t.TempDir(), "../"+module
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	add := func(name, source string) {
		to := filepath.Join(dir, name)
		writeFile(t, to, source)
		at, err := filepath.Abs(filepath.Join(root, "snippets", name))
		iferr.Fatal(t, err)
		overlay.Replace[at] = to
	}
	list := "package main\n\nvar snippets = []struct {\n\tat string\n\trun func() error\n}{\n"
	for i, f := range files {
		add(fmt.Sprintf("s%d.go", i), f.source)
		if f.runs {
			name := regexp.MustCompile(`func (snippet\d+)\(`).FindStringSubmatch(f.source)
			list += fmt.Sprintf("\t{%q, %s},\n", f.at, name[1])
		}
	}
	add("list.go", list+"}\n")
	scene := "testdata/snippets/scene.go"
	if module != "" {
		scene = filepath.Join("testdata/snippets", filepath.Base(module)+".go")
	}
	add("scene.go", text(t, scene))
	data, err := json.Marshal(overlay)
	iferr.Fatal(t, err)
	config := filepath.Join(dir, "overlay.json")
	writeFile(t, config, string(data))
	program := filepath.Join(dir, "program")
	if module != "" {
		program = os.DevNull // the program is not run
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-C", root, "-buildvcs=false", "-overlay", config, "-gcflags=-e", "-o", program, "./snippets")
	if out, err := build.CombinedOutput(); err != nil {
		said := string(out)
		for i, f := range files {
			said = strings.ReplaceAll(said, filepath.Join(dir, fmt.Sprintf("s%d.go", i)), f.at+", wrapped, ")
		}
		t.Fatalf("%v\n%s", err, said)
	}
	return program
}
