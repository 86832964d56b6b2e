package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Limits of the completion of a lock's name: the time, because the user waits for it, and the
// number of names.
const (
	completionTime = 2 * time.Second
	maxCompleted   = 500
)

// completeName completes the name of a lock, the command's first argument, component by
// component, from the nodes on the server. It prints no errors: they would appear in the middle
// of the command line.
func completeName(flags *app.Flags) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		return names(ctx, flags, typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// names returns the names of nodes that begin with typed, up to the next component; at most
// maxCompleted, and none if the nodes cannot be read.
func names(ctx context.Context, flags *app.Flags, typed string) (found []cobra.Completion) {
	cfg, err := flags.Load(ctx)
	if err != nil {
		return nil
	}
	locks, err := app.Dial(ctx, cfg, zerolog.Nop())
	if err != nil {
		return nil
	}
	defer locks.Close()
	tree, above := admin.New(locks), ""
	if i := strings.LastIndexByte(typed, '/'); i >= 0 {
		above = typed[:i]
	}
	children, _, err := tree.Children(ctx, tree.Path(above))
	if err != nil {
		return nil
	}
	for _, child := range children {
		if _, entry := znode.Parse(child); entry || above == "" && znode.Reserved(child) {
			continue
		}
		name := strings.TrimPrefix(above+"/"+child, "/")
		if strings.HasPrefix(name, typed) && znode.CheckName(name) == nil {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found[:min(len(found), maxCompleted)]
}
