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
// Test files are those named so, and those that import testing: helpers of tests in packages of their own.
//
// Code in virtual time is not judged. Wallclock takes for that what is passed to synctest.Test,
// bubble.Run or simtest.Run, or to a function of the folder that passes it on; functions that call
// synctest.Wait; and what has a parameter of a type that a test file declares that imports one of these
// packages, or of one that embeds it. Other functions of such files are judged if code in real time
// mentions their names. Nor are examples judged: they show what callers do.
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
	runners map[string]bool       // functions that run their arguments in virtual time
	worlds  map[string]bool       // types of test files that import a bubble
	helpers map[string][]ast.Decl // functions of test files that import a bubble, as long as they are not judged
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
			f = &folder{token.NewFileSet(), nil, map[string]ast.Expr{}, map[string]bool{}, map[string]bool{}, map[string][]ast.Decl{}, map[string]*ast.StructType{}, map[string]bool{}}
			folders[filepath.Dir(path)] = f
		}
		return f.add(path)
	})
	if len(folders) == 0 {
		err = errors.Join(err, fmt.Errorf("no Go files in %s", root))
	}
	for _, f := range folders {
		found = append(found, f.judge()...)
	}
	slices.Sort(found)
	return found, err
}

// judge returns a line for each call of the folder that is to be reported.
func (f *folder) judge() (found []string) {
	for f.findRunners() {
	}
	var judged []ast.Decl
	for _, file := range f.tests {
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			switch {
			case ok && (strings.HasPrefix(fn.Name.Name, "Example") || f.takesWorld(fn.Recv) || f.takesWorld(fn.Type.Params) || calls(fn, "synctest.Wait")):
			case ok && importsBubble(file) && !isRoot(fn.Name.Name):
				f.helpers[fn.Name.Name] = append(f.helpers[fn.Name.Name], decl)
			default:
				judged = append(judged, decl)
			}
		}
	}
	for i := 0; i < len(judged); i++ { // report may find helpers that are to be judged, too
		lines, mentioned := f.report(judged[i])
		found = append(found, lines...)
		for _, helper := range mentioned {
			judged = append(judged, f.helpers[helper]...)
			delete(f.helpers, helper)
		}
	}
	return found
}

// add notes the constants of a file, its markers, and what a test file declares for virtual time.
func (f *folder) add(path string) error {
	file, err := parser.ParseFile(f.fset, path, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	isTest := strings.HasSuffix(path, "_test.go") || slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing"` })
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
		d, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				f.worlds[s.Name.Name] = isTest && importsBubble(file)
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

func isRoot(name string) bool {
	return slices.ContainsFunc([]string{"Test", "Fuzz", "Benchmark", "init"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// calls reports whether a function calls another one.
func calls(fn *ast.FuncDecl, called string) (does bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		does = does || ok && isCall(e, called)
		return true
	})
	return does
}

// findRunners notes the functions that pass a parameter of theirs on to a runner. It reports whether
// there was a new one.
func (f *folder) findRunners() (changed bool) {
	for _, file := range f.tests {
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || f.runners[fn.Name.Name] {
				continue
			}
			for _, param := range fn.Type.Params.List {
				if f.passesOn(fn, param.Names) {
					f.runners[fn.Name.Name], changed = true, true
				}
			}
		}
	}
	return changed
}

// passesOn reports whether a function mentions one of the names in an argument of a runner.
func (f *folder) passesOn(fn *ast.FuncDecl, names []*ast.Ident) (does bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && f.isRunner(call) {
			for _, arg := range call.Args {
				ast.Inspect(arg, func(n ast.Node) bool {
					id, ok := n.(*ast.Ident)
					does = does || ok && slices.ContainsFunc(names, func(param *ast.Ident) bool { return param.Name == id.Name })
					return true
				})
			}
		}
		return true
	})
	return does
}

func (f *folder) isRunner(call *ast.CallExpr) bool {
	called := name(call.Fun)
	return f.runners[called] || slices.Contains(bubbles, called)
}

// takesWorld reports whether a parameter has a type of virtual time, or one that embeds it.
func (f *folder) takesWorld(params *ast.FieldList) bool {
	return params != nil && slices.ContainsFunc(params.List, func(field *ast.Field) bool { return f.isWorld(field.Type) })
}

func (f *folder) isWorld(e ast.Expr) bool {
	t := strings.TrimPrefix(name(e), "*")
	of := f.structs[t]
	return f.worlds[t] || t == "bubble.World" || t == "simtest.World" ||
		of != nil && slices.ContainsFunc(of.Fields.List, func(field *ast.Field) bool { return field.Names == nil && f.isWorld(field.Type) })
}

// report returns a line for each call in a declaration that waits for a wall clock, and the names that
// it mentions in real time.
func (f *folder) report(decl ast.Decl) (found, mentioned []string) {
	var loops []ast.Node
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			if f.takesWorld(n.Type.Params) {
				return false
			}
		case *ast.CallExpr:
			if f.isRunner(n) {
				mentioned = append(mentioned, name(n.Fun))
				return false
			}
		case *ast.Ident:
			mentioned = append(mentioned, n.Name)
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
	return found, mentioned
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
