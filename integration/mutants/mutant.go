package main

import (
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// rooms is the folder of the mutants' texts, in the module.
const rooms = "integration/mutants/rooms"

// mutant is one deliberate breakage of the protocol.
type mutant struct {
	name   string
	breaks string   // clause that says what is broken
	tests  []string // tests that must fail, such as "lock.TestX"
	wire   string   // rule of the audit that its writes break; "": it breaks none
	edits  []edit
	at     string // where it stands, such as "purge.txt:12"
	number int    // selects the mutant in the test binaries; 0: the unchanged code
}

// edit is a change of a function's body.
type edit struct {
	pkg, function string // the package's folder, and "Function" or "Type.Method"
	old, new      string // lines of Go
}

var (
	block  = regexp.MustCompile(`^([\w-]+): (\S.*)\ntests:((?: [\w/]+\.Test\w+)+)\n(?:wire: (\w+)\n)?((?:in: [\w/]+\.(?:\w+\.)?\w+\n(?:(?:- .*\n)+(?:\+ .*\n)*)+)+)$`)
	change = regexp.MustCompile(`(?:in: ([\w/]+)\.(.*)\n)?((?:- .*\n)+)((?:\+ .*\n)*)`)
	sign   = regexp.MustCompile(`(?m)^[-+] `)
)

// load reads the mutants of all rooms of the module at root.
func load(root string) (mutants []mutant, err error) {
	files, err := filepath.Glob(filepath.Join(root, rooms, "*.txt"))
	first := map[string]string{} // the place of each mutant, by name
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		line := 1
		for _, b := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n\n") {
			at := fmt.Sprintf("%s:%d", filepath.Base(file), line)
			if line += strings.Count(b, "\n") + 2; strings.HasPrefix(b, "# ") {
				continue
			}
			m := mutant{at: at, number: len(mutants) + 1}
			if err := m.parse(b + "\n"); err != nil {
				return nil, err
			}
			if first[m.name] != "" {
				return nil, fmt.Errorf("%s: %s has the name %s too", at, first[m.name], m.name)
			}
			first[m.name] = at
			mutants = append(mutants, m)
		}
	}
	return mutants, err
}

// parse reads the mutant from a block of a room.
func (m *mutant) parse(text string) error {
	found := block.FindStringSubmatch(text)
	if found == nil {
		return fmt.Errorf(`%s: want the line "NAME: CLAUSE", the line "tests: PACKAGE.TestX ...", perhaps the line "wire: RULE", and edits: "in: PACKAGE.FUNCTION", lines "- GO", lines "+ GO"`, m.at)
	}
	m.name, m.breaks, m.tests, m.wire = found[1], found[2], strings.Fields(found[3]), found[4]
	var e edit
	for _, c := range change.FindAllStringSubmatch(found[5], -1) {
		if c[1] != "" {
			e.pkg, e.function = c[1], c[2]
		}
		e.old, e.new = sign.ReplaceAllString(c[3], ""), sign.ReplaceAllString(c[4], "")
		m.edits = append(m.edits, e)
	}
	return nil
}

var errMissing = errors.New("not found")

// apply returns the body of a function after the edit.
func (e *edit) apply(body string) (string, error) {
	in, old := words(body), words(e.old)
	at, n := 0, 0
	for i := 0; i+len(old) <= len(in); i++ {
		if slices.EqualFunc(in[i:i+len(old)], old, word.equal) {
			at, n = i, n+1
		}
	}
	switch {
	case slices.EqualFunc(old, words(e.new), word.equal):
		return "", errors.New("changes nothing")
	case n == 0:
		return "", fmt.Errorf("%w in %s.%s:\n%s", errMissing, e.pkg, e.function, strings.TrimSuffix(e.old, "\n"))
	case n > 1:
		return "", fmt.Errorf("found %d times, not once, in %s.%s:\n%s", n, e.pkg, e.function, e.old)
	}
	return body[:in[at].from] + strings.TrimSpace(e.new) + body[in[at+len(old)-1].to:], nil
}

// word is a token of Go text.
type word struct {
	text     string
	from, to int
}

func (w word) equal(other word) bool { return w.text == other.text }

// words returns the tokens of Go text, without comments, and without the semicolons that line ends stand for:
// layout and comments do not count.
func words(text string) (all []word) {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(text))
	s.Init(file, []byte(text), nil, 0)
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return all
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue
		}
		if literal == "" {
			literal = tok.String()
		}
		from := file.Offset(pos)
		all = append(all, word{literal, from, from + len(literal)})
	}
}

// rename replaces an identifier in the code, the functions and the tests of the mutants whose name
// matches which, and returns the number of lines that it changed.
func rename(root string, which *regexp.Regexp, from, to string) (changed int, err error) {
	if !token.IsIdentifier(from) || !token.IsIdentifier(to) {
		return 0, fmt.Errorf("-rename %s=%s: want two identifiers", from, to)
	}
	identifier := regexp.MustCompile(`\b` + from + `\b`)
	files, err := filepath.Glob(filepath.Join(root, rooms, "*.txt"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return changed, err
		}
		lines, name := strings.Split(string(text), "\n"), ""
		for i, line := range lines {
			key, rest, _ := strings.Cut(line, " ")
			if i == 0 || lines[i-1] == "" {
				name = strings.TrimSuffix(key, ":")
			} else if key != "wire:" && which.MatchString(name) && identifier.MatchString(rest) {
				lines[i] = key + " " + identifier.ReplaceAllString(rest, to)
				changed++
			}
		}
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			return changed, err
		}
	}
	return changed, err
}
