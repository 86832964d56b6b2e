package supervise

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// shell runs scripts that do not name their interpreter.
const shell = "/bin/sh"

// firstLine is how much of a file tells what it is: the kernel reads no more of it.
const firstLine = 256

// Check tells beforehand why a script could not be executed: its first line ends as text on
// Windows does, or names an interpreter that is not there. Of anything else the kernel tells
// when it is to be executed.
func Check(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	line, whole := head(path)
	interpreter, isNamed := strings.CutPrefix(line, "#!")
	if whole && strings.HasSuffix(line, "\r") && isText(line) {
		return fmt.Errorf("%s: line 1, %q, ends in a carriage return, as text on Windows does: write the script with plain line feeds", path, line)
	}
	if name := strings.Fields(interpreter); isNamed && len(name) > 0 {
		if _, err := os.Stat(name[0]); err != nil {
			return fmt.Errorf("%s: interpreter of the script: %w", path, err)
		}
	}
	return nil
}

// isScript reports whether a file that the kernel does not execute is one for the shell: an
// empty one, or one whose first line is text.
func (c Command) isScript() bool {
	line, _ := head(c.Path)
	return isText(line)
}

func isText(line string) bool { return !strings.Contains(line, "\x00") }

// underShell has the shell execute the command's file.
func (c Command) underShell() Command {
	args := []string{shell, c.Path}
	return Command{Path: shell, Args: append(args, c.Args[1:]...), Env: c.Env}
}

// head returns the first line of a file, or its beginning, and whether it is a whole line. A
// file that cannot be read has none: only execution tells of it.
func head(path string) (line string, whole bool) {
	f, err := os.Open(path)
	if err != nil {
		return "", false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", false
	}
	buf := make([]byte, firstLine)
	n, _ := io.ReadFull(f, buf)
	first, _, whole := bytes.Cut(buf[:n], []byte("\n"))
	return string(first), whole
}
