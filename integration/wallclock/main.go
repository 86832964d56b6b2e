// Wallclock lists the tests that wait for a wall clock, for make lint:
//
//	wallclock [FOLDER]
//
// A busy machine makes such tests fail or take long. A test awaits an event, or runs in virtual time
// (testing/synctest). Wallclock reads the test files below the folder, and reports each call of
// time.Sleep, time.After, context.WithTimeout and the like, and each comparison with time.Since,
// except
//
//   - limits of a minute or more, which only a failure reaches,
//
//   - the pauses of a loop that asks again, of at most 100 ms,
//
//   - calls with a comment that says why an event cannot be awaited, in their line or the line above:
//
//     wall clock: REASON
//
// Code in virtual time is not judged. Wallclock takes for that what is passed to synctest.Test,
// bubble.Run or simtest.Run. In a test file that imports one of these packages it is all but the bodies
// of tests, and elsewhere in the folder what is passed to a function of that file, or has a parameter
// of a type of that file, or of one that embeds it. Nor are examples judged: they show what callers do.
//
// The exit status is 1 if there are such calls.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// marker begins a comment that says why a test waits for a wall clock.
const marker = "wall clock:"

// bubbles has the functions that run their arguments in virtual time.
var bubbles = []string{"synctest.Test", "bubble.Run", "simtest.Run"}

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	found, err := check(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "wallclock:", err)
		os.Exit(2)
	}
	for _, line := range found {
		fmt.Println(line)
	}
	if len(found) > 0 {
		fmt.Printf("%d waits for a wall clock in tests: await an event, use testing/synctest, or say why in a comment \"%s REASON\"\n", len(found), marker)
		os.Exit(1)
	}
}

// folder is what is known of one folder.
type folder struct {
	fset    *token.FileSet
	tests   []*ast.File
	consts  map[string]ast.Expr
	virtual map[string]bool // functions and types of test files that import a bubble
	structs map[string]*ast.StructType
	marked  map[string]bool // lines with a marker, and those below them, as file:line
}

// check returns a line for each call below the root that is to be reported.
func check(root string) (found []string, err error) {
	folders := map[string]*folder{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		f := folders[filepath.Dir(path)]
		if f == nil {
			f = &folder{token.NewFileSet(), nil, map[string]ast.Expr{}, map[string]bool{}, map[string]*ast.StructType{}, map[string]bool{}}
			folders[filepath.Dir(path)] = f
		}
		return f.add(path)
	})
	if len(folders) == 0 {
		err = errors.Join(err, fmt.Errorf("no Go files in %s", root))
	}
	for _, f := range folders {
		for _, file := range f.tests {
			for _, decl := range file.Decls {
				if !f.inVirtualTime(decl, importsBubble(file)) {
					found = append(found, f.report(decl)...)
				}
			}
		}
	}
	slices.Sort(found)
	return found, err
}

// add notes the constants of a file, its markers, and what a test file declares for virtual time.
func (f *folder) add(path string) error {
	file, err := parser.ParseFile(f.fset, path, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	isTest := strings.HasSuffix(path, "_test.go")
	if isTest {
		f.tests = append(f.tests, file)
	}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			// A marker without a reason is none.
			if _, reason, ok := strings.Cut(comment.Text, marker); ok && strings.TrimSpace(reason) != "" {
				f.marked[f.line(comment.Pos(), 0)], f.marked[f.line(group.End(), 0)], f.marked[f.line(group.End(), 1)] = true, true, true
			}
		}
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			f.virtual[d.Name.Name] = f.virtual[d.Name.Name] || isTest && d.Recv == nil && importsBubble(file)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					f.virtual[s.Name.Name] = isTest && importsBubble(file)
					if of, ok := s.Type.(*ast.StructType); ok {
						f.structs[s.Name.Name] = of
					}
				case *ast.ValueSpec:
					for i, value := range s.Values {
						if d.Tok == token.CONST {
							f.consts[s.Names[i].Name] = value
						}
					}
				}
			}
		}
	}
	return nil
}

// line returns the line of a position, or one that many lines below it, as file:line.
func (f *folder) line(pos token.Pos, below int) string {
	at := f.fset.Position(pos)
	return fmt.Sprintf("%s:%d", at.Filename, at.Line+below)
}

func importsBubble(file *ast.File) bool {
	return slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool {
		imported := path.Base(strings.Trim(i.Path.Value, `"`))
		return slices.ContainsFunc(bubbles, func(bubble string) bool { return strings.HasPrefix(bubble, imported+".") })
	})
}

// inVirtualTime reports whether a declaration, of a file that may import a bubble, is not judged.
func (f *folder) inVirtualTime(decl ast.Decl, bubble bool) bool {
	fn, ok := decl.(*ast.FuncDecl)
	if !ok {
		return false
	}
	isRoot := slices.ContainsFunc([]string{"Test", "Fuzz", "Benchmark", "init"}, func(prefix string) bool { return strings.HasPrefix(fn.Name.Name, prefix) })
	return strings.HasPrefix(fn.Name.Name, "Example") || bubble && !isRoot || f.takesWorld(fn.Recv) || f.takesWorld(fn.Type.Params)
}

// takesWorld reports whether a parameter has a type that is for virtual time, or embeds one.
func (f *folder) takesWorld(params *ast.FieldList) bool {
	return params != nil && slices.ContainsFunc(params.List, func(field *ast.Field) bool { return f.isWorld(field.Type) })
}

func (f *folder) isWorld(e ast.Expr) bool {
	t := strings.TrimPrefix(name(e), "*")
	of := f.structs[t]
	return f.virtual[t] || t == "bubble.World" || t == "simtest.World" ||
		of != nil && slices.ContainsFunc(of.Fields.List, func(field *ast.Field) bool { return field.Names == nil && f.isWorld(field.Type) })
}

// report returns a line for each call in a declaration that waits for a wall clock.
func (f *folder) report(decl ast.Decl) (found []string) {
	var loops []ast.Node
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			if f.takesWorld(n.Type.Params) {
				return false
			}
		case *ast.CallExpr:
			if called := name(n.Fun); f.virtual[called] || slices.Contains(bubbles, called) {
				return false
			}
		case *ast.ForStmt, *ast.RangeStmt:
			loops = append(loops, n)
		case nil:
			return true
		}
		inLoop := slices.ContainsFunc(loops, func(loop ast.Node) bool { return n.End() <= loop.End() })
		if what, at := f.wait(n, inLoop), f.line(n.Pos(), 0); what != "" && !f.marked[at] {
			found = append(found, at+": "+what)
		}
		return true
	})
	return found
}

// name returns the text of an identifier, a selector of one, or a pointer to these, else "".
func name(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if x := name(e.X); x != "" {
			return x + "." + e.Sel.Name
		}
	case *ast.StarExpr:
		if x := name(e.X); x != "" {
			return "*" + x
		}
	case *ast.IndexExpr:
		return name(e.X)
	}
	return ""
}
