//go:build unix

package supervise

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

func TestCheck(t *testing.T) {
	for text, want := range map[string]string{
		"#!/bin/sh\necho x\n":               "",
		"#!/bin/sh -e\n":                    "",
		"#! /bin/sh":                        "",
		"echo x\n":                          "",
		"":                                  "",
		"\x7fELF\x00\r\n":                   "",
		"#!/bin/sh\r\necho x\r\n":           `line 1, "#!/bin/sh\r", ends in a carriage return, as text on Windows does`,
		"echo x\r\n":                        `line 1, "echo x\r", ends in a carriage return`,
		"#!/no/such/interpreter -x\necho x": "interpreter of the script: stat /no/such/interpreter: no such file",
		"#!\n":                              "",
		strings.Repeat("x", 300) + "\r\n":   "",
	} {
		file := filepath.Join(t.TempDir(), "script")
		iferr.Fatal(t, os.WriteFile(file, []byte(text), 0o700))
		err := Check(file)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), file+": ")) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	iferr.Error(t, Check("/no/such/file")) // exec reports the missing file
}
