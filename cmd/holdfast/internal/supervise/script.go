package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// shell runs scripts that do not name their interpreter.
const shell = "/bin/sh"

// firstLine is the number of bytes that the kernel reads to recognize a script.
const firstLine = 256

// Check returns an error if a script cannot be executed because its first line ends in a Windows
// line end, or because its interpreter does not exist. Other errors come from the kernel at
// execution. On Windows Check refuses each command.
func Check(path string) error {
	if runtime.GOOS == "windows" {
		return errors.New("holdfast run does not work on Windows: use Linux, also in WSL, or macOS")
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

// isScript reports whether a file that the kernel refuses is a script for the shell: an empty
// file, or one with text as its first line.
func (c Command) isScript() bool {
	line, _ := head(c.Path)
	return isText(line)
}

func isText(line string) bool { return !strings.Contains(line, "\x00") }

// underShell returns the command that runs the file with the shell.
func (c Command) underShell() Command {
	args := []string{shell, c.Path}
	return Command{Path: shell, Args: append(args, c.Args[1:]...), Env: c.Env}
}

// head returns the first line of a file, cut at firstLine bytes, and whether the line is whole. For a
// file that cannot be read, or is not regular, it returns "".
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
