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
// Code in virtual time is not judged. A test file that imports a bubble (testing/synctest, bubble or simtest)
// declares functions and types of virtual time, besides its tests. What is passed to such a function, and what
// has a parameter of such a type or of one that embeds it, is in virtual time. Nor are examples judged: they
// show what callers do.
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
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	marker   = regexp.MustCompile(`wall clock: +\S`) // in a comment that says why a test waits
	bubble   = regexp.MustCompile(`/(synctest|bubble|simtest)"$`)
	isTest   = regexp.MustCompile(`^(Test|Fuzz|Benchmark|init)`)
	testFile = regexp.MustCompile(`^"testing`)
)

// waits has the functions that wait, and which argument says how long.
var waits = map[string]int{
	"time.Sleep": 0, "time.Tick": 0, "time.NewTicker": 0, "time.After": 0, "time.NewTimer": 0, "time.AfterFunc": 0,
	"context.WithTimeout": 1, "context.WithTimeoutCause": 1,
}

var pauses = []string{"time.Sleep", "time.Tick", "time.NewTicker"} // never limits

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
		fmt.Printf("%d waits for a wall clock in tests: await an event, use testing/synctest, or say why in a comment \"wall clock: REASON\"\n", len(found))
		os.Exit(1)
	}
}

// folder is what is known of one folder.
type folder struct {
	fset    *token.FileSet
	names   map[string]ast.Expr // values of constants, and structs
	virtual map[string]bool     // functions and types of virtual time
	funcs   []*ast.FuncDecl     // to be judged
	marked  map[string]bool     // lines with a marker, and those below them, as file:line
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
			f = &folder{token.NewFileSet(), map[string]ast.Expr{}, map[string]bool{"synctest": true, "bubble": true, "simtest": true}, nil, map[string]bool{}}
			folders[filepath.Dir(path)] = f
		}
		return f.add(path)
	})
	if len(folders) == 0 {
		err = errors.Join(err, fmt.Errorf("no Go files in %s", root))
	}
	for _, f := range folders {
		for _, fn := range f.funcs {
			found = append(found, f.report(fn)...)
		}
	}
	slices.Sort(found)
	return found, err
}

// add notes what a file declares, and the markers of a test file.
func (f *folder) add(path string) error {
	file, err := parser.ParseFile(f.fset, path, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	imports := func(which *regexp.Regexp) bool {
		return slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return which.MatchString(i.Path.Value) })
	}
	tests := strings.HasSuffix(path, "_test.go") || imports(testFile)
	virtual := tests && imports(bubble)
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if name := d.Name.Name; virtual && !isTest.MatchString(name) {
				f.virtual[name] = f.virtual[name] || d.Recv == nil
			} else if tests && !strings.HasPrefix(name, "Example") {
				f.funcs = append(f.funcs, d)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					f.names[s.Name.Name] = s.Type
					f.virtual[s.Name.Name] = virtual
				case *ast.ValueSpec:
					for i, value := range s.Values {
						if d.Tok == token.CONST {
							f.names[s.Names[i].Name] = value
						}
					}
				}
			}
		}
	}
	for _, group := range file.Comments {
		if marker.MatchString(group.Text()) {
			for line := f.fset.Position(group.Pos()).Line; line <= f.fset.Position(group.End()).Line+1; line++ {
				f.marked[fmt.Sprintf("%s:%d", path, line)] = true
			}
		}
	}
	return nil
}

// isVirtual reports whether a signature, an expression or a type mentions a function or type of virtual time.
func (f *folder) isVirtual(n ast.Node) (is bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			is = is || f.isVirtual(n.X)
			return false
		case *ast.Ident:
			is = is || f.virtual[n.Name]
			if of, ok := f.names[n.Name].(*ast.StructType); ok {
				is = is || slices.ContainsFunc(of.Fields.List, func(field *ast.Field) bool { return field.Names == nil && f.isVirtual(field.Type) })
			}
		}
		return true
	})
	return is
}

// report returns a line for each call in a function that waits for a wall clock.
func (f *folder) report(fn *ast.FuncDecl) (found []string) {
	if fn.Recv != nil && f.isVirtual(fn.Recv) || f.isVirtual(fn.Type) {
		return nil
	}
	var loop token.Pos // end of the last loop
	ast.Inspect(fn, func(n ast.Node) bool {
		what := ""
		switch n := n.(type) {
		case nil:
			return true
		case *ast.ForStmt, *ast.RangeStmt:
			loop = max(loop, n.End())
		case *ast.FuncLit:
			if f.isVirtual(n.Type) {
				return false
			}
		case *ast.BinaryExpr:
			compares := n.Op == token.LSS || n.Op == token.GTR || n.Op == token.LEQ || n.Op == token.GEQ
			if compares && (isCall(n.X, "time.Since") && f.duration(n.Y) < time.Minute || isCall(n.Y, "time.Since") && f.duration(n.X) < time.Minute) {
				what = "a comparison with time.Since"
			}
		case *ast.CallExpr:
			if f.isVirtual(n.Fun) {
				return false
			}
			what = f.wait(n, n.Pos() < loop)
		}
		at := f.fset.Position(n.Pos())
		if line := fmt.Sprintf("%s:%d", at.Filename, at.Line); what != "" && !f.marked[line] {
			found = append(found, line+": "+what)
		}
		return true
	})
	return found
}

// wait returns the called function if it waits for a wall clock, else "".
func (f *folder) wait(call *ast.CallExpr, inLoop bool) string {
	called := name(call.Fun)
	if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Add" && isCall(sel.X, "time.Now") && f.duration(call.Args[0]) < time.Minute {
		return "time.Now().Add"
	}
	argument, ok := waits[called]
	if !ok {
		return ""
	}
	d := f.duration(call.Args[argument])
	if d >= time.Minute && !slices.Contains(pauses, called) || d > 0 && d <= 100*time.Millisecond && inLoop && !strings.HasPrefix(called, "context.") {
		return ""
	}
	return called
}

// name returns the text of an identifier, or of a selector of one.
func name(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return name(e.X) + "." + e.Sel.Name
	}
	return ""
}

func isCall(e ast.Expr, function string) bool {
	call, ok := e.(*ast.CallExpr)
	return ok && name(call.Fun) == function
}

var units = map[string]time.Duration{
	"time.Microsecond": time.Microsecond, "time.Millisecond": time.Millisecond,
	"time.Second": time.Second, "time.Minute": time.Minute, "time.Hour": time.Hour,
}

// duration returns the value of an expression of numbers, units, and constants of the folder; 0 if it is no such.
func (f *folder) duration(e ast.Expr) time.Duration {
	switch e := e.(type) {
	case *ast.BasicLit:
		n, _ := strconv.ParseInt(e.Value, 0, 64) // 0 of what is no number
		return time.Duration(n)
	case *ast.Ident, *ast.SelectorExpr:
		if value, ok := f.names[name(e)]; ok {
			return f.duration(value)
		}
		return units[name(e)]
	case *ast.BinaryExpr:
		x, y := f.duration(e.X), f.duration(e.Y)
		return map[token.Token]time.Duration{token.MUL: x * y, token.ADD: x + y, token.QUO: x / max(y, 1)}[e.Op]
	}
	return 0
}
