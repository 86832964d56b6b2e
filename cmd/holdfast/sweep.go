package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/cmd/internal/text"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/reaper"
)

func newSweep(flags *app.Flags) *cobra.Command {
	var dryRun bool
	var out output
	cmd := &cobra.Command{
		Use:        "sweep",
		SuggestFor: []string{"reap", "reaper", "clean"},
		Short:      "Clean up once after lock holders that died, as the reaper does",
		Long: `Clean up once after lock holders that died, as the reaper does: delete expired
entries and empty lock trees, by the policies of the configuration, and print what was
found. --dry-run tells what would be deleted, and deletes nothing.

Of several reapers one is active, and where that is another one, this sweeps nothing.

Exit status: 1 if the sweep failed or is incomplete, or another reaper is the active
one. What an ACL forbids is told, and is no failure.`,
		Example: `  holdfast sweep --config config.yaml --dry-run
  holdfast sweep --json | jq .total.deleted`,
		Args: app.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withTree(cmd, flags, func(cfg *config.Config, locks *lock.Client, _ admin.Tree) error {
				log := app.Logger(cfg.Log, cmd.ErrOrStderr())
				log = log.Level(max(log.GetLevel(), zerolog.WarnLevel)) // the report says what Info would
				o := app.ReaperOptions(cfg)
				o.Log, o.DryRun = &log, dryRun
				r, err := reaper.New(locks, o)
				if err != nil {
					return err
				}
				report, err := r.Sweep(cmd.Context())
				return errors.Join(err, out.print(cmd, report, func(w io.Writer, colour bool) error { return printReport(w, &report, colour) }))
			})
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only tell what would be deleted")
	out.add(cmd)
	return cmd
}

// printReport prints the report of a sweep for people: a line for each policy.
func printReport(w io.Writer, r *reaper.Report, colour bool) error {
	deleted := "DELETED"
	if r.DryRun {
		deleted = "TO DELETE"
	}
	table := text.Table{Widest: []int{40}, Colour: colour}
	row := func(style text.Style, texts ...string) {
		cells := text.Cells(texts...)
		for i := range cells {
			cells[i].Style = style
		}
		table.Add(cells...)
	}
	row(text.Bold, "POLICY", "LOCKS", "LIVE", "EXPIRED", "ORPHANS", "ANCESTORS", "STALE", "FOREIGN", "DAMAGED", "DENIED", deleted)
	add := func(style text.Style, name string, c reaper.Counts) {
		gone := c.Deleted
		if r.DryRun {
			gone = c.Expired + c.Orphans + c.Ancestors + c.Stale
		}
		texts := []string{text.Printable(name)}
		for _, n := range []int{c.Locks, c.Live, c.Expired, c.Orphans, c.Ancestors, c.Stale, c.Foreign, c.Undecodable, c.Denied, gone} {
			texts = append(texts, fmt.Sprint(n))
		}
		row(style, texts...)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Policies)) {
		add("", name, *r.Policies[name])
	}
	add(text.Bold, "all", r.Total)
	if r.Skipped != "" {
		_, err := fmt.Fprintf(w, "nothing was swept: %s\n", text.Printable(r.Skipped))
		return err
	}
	var b bytes.Buffer
	if err := table.Print(&b); err != nil {
		return err
	}
	for _, p := range r.Planned {
		fmt.Fprintf(&b, "would delete %s (%s)\n", text.Printable(p.Path), p.Verdict)
	}
	if n := len(r.Denied); n > 0 {
		fmt.Fprintf(&b, "an ACL forbids %s, the first is %s: %s\n", text.Count(r.Total.Denied, "node", "nodes"), text.Printable(r.Denied[0].Path), r.Denied[0].Error)
	}
	if n := len(r.Undecodable); n > 0 {
		fmt.Fprintf(&b, "%s damaged or of a newer version, in the way of their locks; the first is %s\n", text.Count(r.Total.Undecodable, "node", "nodes"), text.Printable(r.Undecodable[0]))
	}
	_, err := b.WriteTo(w)
	return err
}
