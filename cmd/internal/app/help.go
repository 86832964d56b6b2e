package app

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/holdfast-io/holdfast/cmd/internal/text"
)

// Bounds of the width of a help text, in columns.
const (
	minHelp = 40
	maxHelp = 80
)

// helpWidth returns the number of columns for a help that is printed to w.
func helpWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return maxHelp
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width == 0 { // no terminal, or one without a size
		return maxHelp
	}
	return max(minHelp, min(width, maxHelp))
}

func init() {
	cobra.AddTemplateFunc("flagsWithin", func(set *pflag.FlagSet, width int) string {
		const values = "[=true|false]" // pflag adds it to each switch; it does not help the user
		return strings.ReplaceAll(set.FlagUsagesWrapped(width), values, strings.Repeat(" ", len(values)))
	})
}

// fitHelp makes the help of a command and of its subcommands fit into the width.
func fitHelp(cmd *cobra.Command, width int) {
	flags := regexp.MustCompile(`\.(Local|Inherited)Flags\.FlagUsages`)
	cmd.SetUsageTemplate(flags.ReplaceAllString(cmd.UsageTemplate(), fmt.Sprintf("flagsWithin .${1}Flags %d", width)))
	fillAll(cmd, width)
}

func fillAll(cmd *cobra.Command, width int) {
	cmd.Long = fill(cmd.Long, width)
	for _, c := range cmd.Commands() {
		fillAll(c, width)
	}
}

// fill wraps each paragraph at width columns. A paragraph with an indented line, such as a table,
// stays as it is.
func fill(help string, width int) string {
	var paragraphs []string
	for p := range strings.SplitSeq(help, "\n\n") {
		if !strings.Contains("\n"+p, "\n ") && !strings.Contains("\n"+p, "\n\t") {
			p = strings.Join(text.Fold(p, width), "\n")
		}
		paragraphs = append(paragraphs, p)
	}
	return strings.Join(paragraphs, "\n\n")
}
