package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// marker begins a comment that says why a test waits for a wall clock.
const marker = "wall clock:"

// folder is what is known of one folder.
type folder struct {
	fset     *token.FileSet
	files    []*ast.File                // with tests
	funcs    map[string][]*ast.FuncDecl // by name, methods too
	consts   map[string]ast.Expr
	vars     []*ast.ValueSpec
	types    map[string]bool
	bubbles  map[string]bool         // functions that run their arguments in virtual time
	worlds   map[string]bool         // types of parameters that only functions in virtual time have
	virtual  map[ast.Node]bool       // functions that run in virtual time
	real     map[*ast.FuncDecl]bool  // functions that can run in real time
	realVars map[*ast.ValueSpec]bool // variables whose values can be functions that run in real time
	marked   map[string]map[int]bool // lines with a marker, by file
}

func checkFolder(paths []string) ([]string, error) {
	f := &folder{
		fset:     token.NewFileSet(),
		funcs:    map[string][]*ast.FuncDecl{},
		consts:   map[string]ast.Expr{},
		types:    map[string]bool{},
		bubbles:  map[string]bool{"synctest.Test": true, "bubble.Run": true, "simtest.Run": true},
		worlds:   map[string]bool{"*bubble.World": true, "*simtest.World": true},
		virtual:  map[ast.Node]bool{},
		real:     map[*ast.FuncDecl]bool{},
		realVars: map[*ast.ValueSpec]bool{},
		marked:   map[string]map[int]bool{},
	}
	for _, path := range paths {
		file, err := parser.ParseFile(f.fset, path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		f.add(path, file)
	}
	for f.spreadBubbles() {
	}
	f.findReal()
	var found []string
	for _, file := range f.files {
		found = append(found, f.report(file)...)
	}
	return found, nil
}

// add notes the functions, constants and markers of a file. Of a file without tests only its constants
// and types matter.
func (f *folder) add(path string, file *ast.File) {
	if isTest(path) {
		f.files = append(f.files, file)
	}
	f.marked[path] = map[int]bool{}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			// A marker without a reason is none.
			if _, reason, ok := strings.Cut(comment.Text, marker); ok && strings.TrimSpace(reason) != "" {
				line := f.fset.Position(group.End()).Line
				f.marked[path][f.fset.Position(comment.Pos()).Line] = true
				f.marked[path][line] = true
				f.marked[path][line+1] = true
			}
		}
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if isTest(path) {
				f.funcs[d.Name.Name] = append(f.funcs[d.Name.Name], d)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok {
					f.types[t.Name.Name] = true
				}
				if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.VAR && isTest(path) {
					f.vars = append(f.vars, v)
				}
				if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.CONST && len(v.Values) == len(v.Names) {
					for i, name := range v.Names {
						f.consts[name.Name] = v.Values[i]
					}
				}
			}
		}
	}
}

// spreadBubbles marks what runs in virtual time because of what is known already. It reports
// whether there was something new.
func (f *folder) spreadBubbles() (changed bool) {
	set := func(m map[string]bool, key string) {
		if !m[key] {
			m[key], changed = true, true
		}
	}
	for _, file := range f.files {
		for _, decl := range file.Decls {
			fn, _ := decl.(*ast.FuncDecl)
			ast.Inspect(decl, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !f.bubbles[name(call.Fun)] {
					return true
				}
				for _, arg := range call.Args {
					f.spread(fn, arg, set)
				}
				return true
			})
		}
	}
	return changed
}

// spread marks what an argument of a function with a bubble names, in the body of fn: it runs in
// virtual time.
func (f *folder) spread(fn *ast.FuncDecl, arg ast.Expr, set func(m map[string]bool, key string)) {
	ast.Inspect(arg, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			f.virtual[n] = true
			for _, field := range n.Type.Params.List {
				if t := name(field.Type); f.types[strings.TrimPrefix(t, "*")] {
					set(f.worlds, t)
				}
			}
		case *ast.Ident:
			f.virtual[n] = true
			if fn != nil && isFuncParam(fn, n.Name) {
				set(f.bubbles, fn.Name.Name)
			}
		}
		return true
	})
}

// isFuncParam reports whether a function has a parameter of this name that is a function.
func isFuncParam(fn *ast.FuncDecl, name string) bool {
	for _, field := range fn.Type.Params.List {
		if _, ok := field.Type.(*ast.FuncType); !ok {
			continue
		}
		for _, id := range field.Names {
			if id.Name == name {
				return true
			}
		}
	}
	return false
}

// inVirtualTime reports whether a function, or the function that an identifier names there, runs in
// virtual time only.
func (f *folder) inVirtualTime(n ast.Node) bool {
	for _, field := range params(n) {
		if f.worlds[name(field.Type)] {
			return true
		}
	}
	return f.virtual[n]
}

// params returns the parameters and the receiver of a function.
func params(n ast.Node) []*ast.Field {
	switch n := n.(type) {
	case *ast.FuncLit:
		return n.Type.Params.List
	case *ast.FuncDecl:
		if n.Recv != nil {
			return slices.Concat(n.Recv.List, n.Type.Params.List)
		}
		return n.Type.Params.List
	}
	return nil
}

// findReal finds the functions that can run in real time: tests, and what they name in real time. The
// types of the parameters and of the receiver must be named there, too.
func (f *folder) findReal() {
	var next []ast.Node
	for _, file := range f.files {
		for _, decl := range file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && isRoot(fn.Name.Name) {
				f.real[fn] = true
				next = append(next, fn)
			}
		}
	}
	named, selected, fields := map[string]bool{}, map[string]bool{}, map[*ast.Ident]bool{}
	for len(next) > 0 {
		n := next[0]
		next = next[1:]
		f.walkReal(n, func(n ast.Node) {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				selected[n.Sel.Name], fields[n.Sel] = true, true
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok {
					fields[key] = true
				}
			case *ast.Ident:
				named[n.Name] = named[n.Name] || !fields[n]
			}
		})
		for _, spec := range f.vars {
			if !f.realVars[spec] && slices.ContainsFunc(spec.Names, func(id *ast.Ident) bool { return named[id.Name] }) {
				f.realVars[spec] = true
				next = append(next, spec)
			}
		}
		for _, fns := range f.funcs {
			for _, fn := range fns {
				reached := named[fn.Name.Name]
				if fn.Recv != nil {
					reached = selected[fn.Name.Name]
				}
				for _, field := range params(fn) {
					t := strings.TrimPrefix(name(field.Type), "*")
					reached = reached && (!f.types[t] || named[t])
				}
				if reached && !f.real[fn] && !f.inVirtualTime(fn) {
					f.real[fn] = true
					next = append(next, fn)
				}
			}
		}
	}
}

func isRoot(name string) bool {
	for _, prefix := range []string{"Test", "Fuzz", "Benchmark"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == "init"
}

// walkReal visits what runs in real time in a function or declaration.
func (f *folder) walkReal(root ast.Node, visit func(ast.Node)) {
	ast.Inspect(root, func(n ast.Node) bool {
		if n == nil || f.inVirtualTime(n) {
			return false
		}
		visit(n)
		return true
	})
}

// report returns a line for each call in a file that waits for a wall clock.
func (f *folder) report(file *ast.File) (found []string) {
	var reached []ast.Node
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if f.real[d] {
				reached = append(reached, d)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && f.realVars[v] {
					reached = append(reached, v)
				}
			}
		}
	}
	for _, root := range reached {
		loops := loopsIn(root)
		f.walkReal(root, func(n ast.Node) {
			what := f.wait(n, within(loops, n))
			if what == "" {
				return
			}
			at := f.fset.Position(n.Pos())
			if !f.marked[at.Filename][at.Line] {
				found = append(found, fmt.Sprintf("%s:%d: %s", at.Filename, at.Line, what))
			}
		})
	}
	return found
}

func loopsIn(root ast.Node) (loops []ast.Node) {
	ast.Inspect(root, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			loops = append(loops, n)
		}
		return true
	})
	return loops
}

func within(nodes []ast.Node, n ast.Node) bool {
	for _, node := range nodes {
		if node.Pos() <= n.Pos() && n.End() <= node.End() {
			return true
		}
	}
	return false
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
