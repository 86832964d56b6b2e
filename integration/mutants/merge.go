package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Mutants that change only functions share their test binaries. In these binaries a changed
// function begins with a switch. If a mutant of the function is selected, the switch calls the
// mutant's copy. Otherwise the function goes on.

// selection is a source file for each changed package. It reads the number of the selected mutant
// from the environment.
const selection = `package %s

import (
	"os"
	"strconv"
)

var mutantSelected, _ = strconv.Atoi(os.Getenv("MUTANT"))
`

// source is a parsed source file.
type source struct {
	text    []byte
	file    *ast.File
	funcs   map[string]*ast.FuncDecl // by receiver and name
	imports map[string]string        // the package's name, or a guess, by the import spec
	uses    map[string]bool          // identifiers before a dot
	rest    string                   // all other declarations
}

// parse reads a source file.
func parse(name string) (*source, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	s := &source{text, file, map[string]*ast.FuncDecl{}, map[string]string{}, map[string]bool{}, ""}
	for _, spec := range file.Imports {
		name := path.Base(strings.Trim(spec.Path.Value, `"`))
		if spec.Name != nil {
			name = spec.Name.Name
		}
		s.imports[s.between(spec.Pos(), spec.End())] = name
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if dot, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := dot.X.(*ast.Ident); ok {
				s.uses[x.Name] = true
			}
		}
		return true
	})
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && s.funcs[s.name(f)] == nil {
			s.funcs[s.name(f)] = f
		} else if g, ok := decl.(*ast.GenDecl); !ok || g.Tok != token.IMPORT {
			s.rest += s.between(decl.Pos(), decl.End()) + "\n"
		}
	}
	return s, nil
}

func (s *source) offset(pos token.Pos) int { return int(pos - s.file.FileStart) }

func (s *source) between(from, to token.Pos) string {
	return string(s.text[s.offset(from):s.offset(to)])
}

// name returns the function's declaration up to its name, including the receiver.
func (s *source) name(f *ast.FuncDecl) string { return s.between(f.Pos(), f.Name.End()) }

// call returns statements that call a function with f's own receiver and arguments, and return. It
// returns "" if the receiver or an argument has no name.
func (s *source) call(f *ast.FuncDecl, name string) string {
	var args []string
	fields := f.Type.Params.List
	if f.Recv != nil {
		fields = append(slices.Clone(f.Recv.List), fields...)
	}
	for _, field := range fields {
		for _, arg := range field.Names {
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				args = append(args, arg.Name+"...")
			} else {
				args = append(args, arg.Name)
			}
		}
		if len(field.Names) == 0 || field.Names[0].Name == "_" {
			return ""
		}
	}
	if f.Recv != nil {
		name, args = args[0]+"."+name, args[1:]
	} else if f.Type.TypeParams != nil {
		var types []string
		for _, field := range f.Type.TypeParams.List {
			for _, t := range field.Names {
				types = append(types, t.Name)
			}
		}
		name += "[" + strings.Join(types, ", ") + "]"
	}
	call := name + "(" + strings.Join(args, ", ") + ")"
	if f.Type.Results == nil {
		return call + "; return"
	}
	return "return " + call
}

// change is what a mutant changes in a source file.
type change struct {
	cases   map[*ast.FuncDecl]string // the mutant's case in the switch of each function
	imports []string
	copies  string // the changed functions
}

// change returns the mutant's changes, which turn s into becomes. ok is false if the mutant changes
// more than the bodies of functions, imports and new functions, or if the imports show that becomes
// does not compile.
func (s *source) change(m mutant, becomes *source) (c change, ok bool) {
	c.cases = map[*ast.FuncDecl]string{}
	kept := 0 // functions
	for _, key := range slices.Sorted(maps.Keys(becomes.funcs)) {
		old, f := s.funcs[key], becomes.funcs[key]
		name := f.Name.Name
		if old != nil {
			kept++
			if s.between(old.Pos(), old.End()) == becomes.between(f.Pos(), f.End()) {
				continue
			}
			name = fmt.Sprintf("%s_mutant%d", name, m.number)
			call := s.call(old, name)
			if call == "" || s.between(old.Pos(), old.Body.Lbrace) != becomes.between(f.Pos(), f.Body.Lbrace) {
				return c, false
			}
			c.cases[old] = fmt.Sprintf(" case %d: %s;", m.number, call)
		}
		// An error of the compiler names the mutant's patch.
		c.copies += fmt.Sprintf("\n//line %s.patch:1\n%s%s%s\n", m.name,
			becomes.between(f.Pos(), f.Name.Pos()), name, becomes.between(f.Name.End(), f.End()))
	}
	for spec, name := range s.imports {
		if _, stays := becomes.imports[spec]; s.uses[name] && stays != becomes.uses[name] {
			return c, false
		}
	}
	for spec, name := range becomes.imports {
		if s.imports[spec] == "" {
			c.imports = append(c.imports, spec)
			if !becomes.uses[name] {
				return c, false
			}
		}
	}
	return c, len(c.cases) > 0 && kept == len(s.funcs) && s.rest == becomes.rest
}

// with returns the text of the source file after the changes.
func (s *source) with(changes []change) []byte {
	inserts, copies := map[int]string{}, "" // inserts by their offset
	for _, c := range changes {
		for f, text := range c.cases {
			inserts[s.offset(f.Body.Lbrace)+1] += text
		}
		copies += c.copies
	}
	for at, cases := range inserts {
		inserts[at] = " switch mutantSelected {" + cases + " };"
	}
	imports := s.offset(s.file.Name.End())
	for _, c := range changes {
		for _, spec := range c.imports {
			if text := "; import " + spec; !strings.Contains(inserts[imports], text) {
				inserts[imports] += text
			}
		}
	}
	var text bytes.Buffer
	last := 0
	for _, at := range slices.Sorted(maps.Keys(inserts)) {
		text.Write(s.text[last:at])
		text.WriteString(inserts[at])
		last = at
	}
	text.Write(s.text[last:])
	text.WriteString(copies)
	return text.Bytes()
}

// changes returns what a mutant changes, by the source files' paths. ok is false if the mutant
// changes more than functions, or if its patch does not apply. [bench.try] reports such a patch.
func (b *bench) changes(m mutant, sources map[string]*source) (changes map[string]change, ok bool) {
	folder := filepath.Join(b.temp, m.name)
	defer os.RemoveAll(folder)
	copies, err := m.apply(b.root, folder)
	if err != nil {
		return nil, false
	}
	changes = map[string]change{}
	for path, copied := range copies {
		if sources[path] == nil {
			if sources[path], err = parse(path); err != nil {
				return nil, false
			}
		}
		becomes, err := parse(copied)
		if err != nil {
			return nil, false
		}
		if changes[path], ok = sources[path].change(m, becomes); !ok {
			return nil, false
		}
	}
	return changes, true
}

// merge writes the source files that mutants share, and returns them by the originals' paths. It
// sets alone for mutants that cannot share them.
func (b *bench) merge(mutants []mutant) (replace map[string]string, err error) {
	sources, all := map[string]*source{}, map[string][]change{} // by path
	for i, m := range mutants {
		if m.alone {
			continue
		}
		changes, ok := b.changes(m, sources)
		mutants[i].alone = !ok
		for path, c := range changes {
			all[path] = append(all[path], c)
		}
	}
	texts := map[string][]byte{}
	for path, changes := range all {
		texts[path] = sources[path].with(changes)
		texts[filepath.Join(filepath.Dir(path), "mutant_selected.go")] = fmt.Appendf(nil, selection, sources[path].file.Name.Name)
	}
	replace = map[string]string{}
	for path, text := range texts {
		replace[path] = filepath.Join(b.temp, fmt.Sprintf("merged%d_%s", len(replace), filepath.Base(path)))
		if err := os.WriteFile(replace[path], text, 0o600); err != nil {
			return nil, err
		}
	}
	return replace, nil
}
