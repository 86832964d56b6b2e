package text

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

var harmless = regexp.MustCompile(`^[A-Za-z0-9._/@:+,=][A-Za-z0-9._/@:+,=-]*$`)

// Name returns a lock's name as the last argument of a command line of holdfast, for commands that people
// copy: as Quote does, and after -- if it begins like a flag.
func Name(name string) string {
	if strings.HasPrefix(name, "-") {
		return "-- " + Quote(name)
	}
	return Quote(name)
}

// Quote returns s as one word of a shell's command line, for commands that people copy. Text with
// unprintable characters is quoted as bash and zsh read it.
func Quote(s string) string {
	if harmless.MatchString(s) {
		return s
	}
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for _, r := range s {
		switch {
		case r == '\'' || r == '\\':
			b.WriteString(`\` + string(r))
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			for _, octet := range []byte(string(r)) {
				fmt.Fprintf(&b, `\%03o`, octet)
			}
		}
	}
	return b.String() + "'"
}
