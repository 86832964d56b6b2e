package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// All mutants share the test binaries. In these, a changed function begins with a switch. If a mutant
// of the function is selected, the switch calls the mutant's copy of the function. Otherwise the
// function goes on.

// selection is a source file for each changed package. It reads the number of the selected mutant
// from the environment.
const selection = `package %s

import (
	"os"
	"strconv"
)

var mutantSelected, _ = strconv.Atoi(os.Getenv("MUTANT"))
`

// source is a parsed source file, and what mutants change in it.
type source struct {
	path    string
	text    string
	file    *ast.File
	inserts map[int]string // by offset
	copies  string         // the mutants' functions
}

func (s *source) offset(pos token.Pos) int { return int(pos - s.file.FileStart) }

func (s *source) between(from, to token.Pos) string { return s.text[s.offset(from):s.offset(to)] }

// function is a function of a package.
type function struct {
	*source
	decl  *ast.FuncDecl
	call  string         // the format of a call of a copy; "" until there is one
	cases map[int]string // the calls of mutants' copies, by the mutants' numbers
}

// code has the functions of packages.
type code struct {
	root string
	pkgs map[string]map[string]*function // by folder, and by "Function" or "Type.Method"
}

// functions returns the functions of a package.
func (c *code) functions(pkg string) (map[string]*function, error) {
	if c.pkgs[pkg] != nil {
		return c.pkgs[pkg], nil
	}
	folder, err := build.ImportDir(filepath.Join(c.root, pkg), 0)
	if err != nil {
		return nil, err
	}
	functions := map[string]*function{}
	for _, name := range folder.GoFiles {
		path := filepath.Join(folder.Dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		s := &source{path, string(text), file, map[int]string{}, ""}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
				functions[nameOf(f)] = &function{s, f, "", map[int]string{}}
			}
		}
	}
	c.pkgs[pkg] = functions
	return functions, nil
}

// nameOf returns "Function" or "Type.Method".
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}

// body returns the function's body.
func (f *function) body() string { return f.between(f.decl.Body.Lbrace, f.decl.Body.End()) }

// mutate adds the mutant's copies of the functions that it changes.
func (c *code) mutate(m mutant) error {
	bodies := map[*function]string{}
	for _, e := range m.edits {
		functions, err := c.functions(e.pkg)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", m.at, m.name, err)
		}
		f := functions[e.function]
		if f == nil {
			err = fmt.Errorf("%w: function %s.%s", errMissing, e.pkg, e.function)
		} else {
			body, ok := bodies[f]
			if !ok {
				body = f.body()
			}
			bodies[f], err = e.apply(body)
		}
		if errors.Is(err, errMissing) {
			err = fmt.Errorf("%w%s", err, elsewhere(functions, e))
		}
		if err != nil {
			return fmt.Errorf("%s: %s: %w", m.at, m.name, err)
		}
	}
	for f, body := range bodies {
		f.add(m, body)
	}
	return nil
}

// elsewhere says which functions of the package have the text that an edit replaces.
func elsewhere(functions map[string]*function, e edit) string {
	var have []string
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		if _, err := e.apply(functions[name].body()); name != e.function && err == nil {
			have = append(have, name)
		}
	}
	if have == nil {
		return ""
	}
	return "\nbut this one has it: " + strings.Join(have, ", ")
}

// add adds a mutant's copy of the function, with another body.
func (f *function) add(m mutant, body string) {
	if f.call == "" {
		f.call = f.callOf()
	}
	decl, name := f.decl, fmt.Sprintf("%s_mutant%d", f.decl.Name.Name, m.number)
	// An error of the compiler names the mutant.
	f.copies += fmt.Sprintf("\n//line %s.mutant:1\n%s%s%s%s\n", m.name,
		f.between(decl.Pos(), decl.Name.Pos()), name, f.between(decl.Name.End(), decl.Body.Lbrace), body)
	f.cases[m.number] = fmt.Sprintf(f.call, name)
}

// callOf returns the format of statements that call a copy of the function with its own receiver and
// parameters, and return. It gives a name to those that have none.
func (f *function) callOf() string {
	call, fields := "%s", slices.Clone(f.decl.Type.Params.List)
	if f.decl.Recv != nil {
		fields = append(slices.Clone(f.decl.Recv.List), fields...)
	}
	var args []string
	for i, field := range fields {
		dots := ""
		if _, variadic := field.Type.(*ast.Ellipsis); variadic {
			dots = "..."
		}
		if len(field.Names) == 0 {
			args = append(args, fmt.Sprintf("unnamed%d%s", i, dots))
			f.inserts[f.offset(field.Type.Pos())] = fmt.Sprintf("unnamed%d ", i)
		}
		for j, name := range field.Names {
			arg := name.Name
			if arg == "_" {
				arg = fmt.Sprintf("_%d_%d", i, j)
				f.inserts[f.offset(name.End())] = arg[1:]
			}
			args = append(args, arg+dots)
		}
	}
	if f.decl.Recv != nil {
		call, args = args[0]+".%s", args[1:]
	}
	call += "(" + strings.Join(args, ", ") + ")"
	if f.decl.Type.Results == nil {
		return call + "; return"
	}
	return "return " + call
}

// merge writes the changed source files to a folder, and returns them by the originals' paths.
func merge(root, folder string, mutants []mutant) (replace map[string]string, err error) {
	c, failed := &code{root, map[string]map[string]*function{}}, []error(nil)
	for _, m := range mutants {
		failed = append(failed, c.mutate(m))
	}
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	changed := map[string][]byte{} // by path
	for _, functions := range c.pkgs {
		for _, f := range functions {
			if len(f.cases) > 0 {
				text := " switch mutantSelected {"
				for _, number := range slices.Sorted(maps.Keys(f.cases)) {
					text += fmt.Sprintf(" case %d: %s;", number, f.cases[number])
				}
				f.inserts[f.offset(f.decl.Body.Lbrace)+1] = text + " };"
				changed[f.path] = f.with()
				changed[filepath.Join(filepath.Dir(f.path), "mutant_selected.go")] = fmt.Appendf(nil, selection, f.file.Name.Name)
			}
		}
	}
	replace = map[string]string{}
	for path, text := range changed {
		replace[path] = filepath.Join(folder, fmt.Sprintf("merged%d_%s", len(replace), filepath.Base(path)))
		if err := os.WriteFile(replace[path], text, 0o600); err != nil {
			return nil, err
		}
	}
	return replace, nil
}

// with returns the text of the source file with the mutants.
func (s *source) with() []byte {
	var text bytes.Buffer
	last := 0
	for _, at := range slices.Sorted(maps.Keys(s.inserts)) {
		text.WriteString(s.text[last:at] + s.inserts[at])
		last = at
	}
	text.WriteString(s.text[last:] + s.copies)
	return text.Bytes()
}
