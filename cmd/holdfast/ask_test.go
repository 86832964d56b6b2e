package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/lock/admin"
)

// TestBreakAsksOnItsOwnLine: if the answer comes from a pipe, the command ends the line of its
// question itself. Only the answers y and yes confirm, in upper or lower case.
func TestBreakAsksOnItsOwnLine(t *testing.T) {
	for answer, agreed := range map[string]bool{"": false, "no\n": false, "yes": true, "Y\n": true} {
		var errs bytes.Buffer
		cmd := new(cobra.Command)
		cmd.SetContext(t.Context())
		cmd.SetIn(strings.NewReader(answer))
		cmd.SetErr(&errs)
		err := new(breakFlags).ask(cmd, []admin.Contender{{Path: "/locks/a/x"}}, "a")
		if (err == nil) != agreed || !strings.HasSuffix(errs.String(), "Go on? (yes or no) \n") {
			t.Errorf("%q: %v, %q", answer, err, &errs)
		}
	}
}
