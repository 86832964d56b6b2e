package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/list"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/cmd/internal/text"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/shard"
	"github.com/holdfast-io/holdfast/lock/znode"
)

func newShards(flags *app.Flags) *cobra.Command {
	var fast bool
	var out output
	cmd := &cobra.Command{
		Use:        "shards [GROUP]",
		SuggestFor: []string{"partitions", "groups", "shard"},
		Short:      "Show groups of shards: members, owners, and shards without one",
		Long: `Show the groups of package shard that have members, or one group: its members, the shards
that have no owner at the moment, and those that another member is to own than the one
that owns them, by the leader's plan. PLAN is the plan's age, by the ZooKeeper leader's
clock. Without GROUP all locks are listed first, as ls does.

Without a leader there is no plan, but owners are shown. To see who owns a shard takes two
reads for each; with --fast only the members and the plan are read.

Exit status: 1 if there is no such group, or something could not be read.`,
		Example: `  holdfast shards
  holdfast shards orders/partitions
  holdfast shards orders/partitions --json | jq '.groups[].shards[3].owner'`,
		Args:              app.Args(0, 1, "the name of one group, or none"),
		ValidArgsFunction: completeName(flags),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withTree(cmd, flags, func(_ *config.Config, locks *lock.Client, tree admin.Tree) error {
				groups, err := readGroups(cmd, locks, tree, args, fast)
				if err != nil && groups == nil {
					return err
				}
				document := struct {
					Groups []shard.Status `json:"groups"`
				}{groups}
				return errors.Join(out.print(cmd, document, func(w io.Writer, colour bool) error {
					if len(args) == 0 {
						return printGroups(w, tree.Root(), groups, tree.Estimate(), fast, colour)
					}
					return printGroup(w, groups[0], tree.Estimate(), fast, colour)
				}), err)
			})
		},
	}
	out.add(cmd)
	cmd.Flags().BoolVar(&fast, "fast", false, "read members and plan only, and no owners")
	return cmd
}

// readGroups returns the named group, or all groups that have members. Those are not nil if only a part
// of the locks could not be read.
func readGroups(cmd *cobra.Command, locks *lock.Client, tree admin.Tree, names []string, fast bool) (groups []shard.Status, err error) {
	if len(names) > 0 {
		s, err := shard.Read(cmd.Context(), locks, names[0], fast)
		if err == nil && s.Number == 0 {
			err = errors.New("group " + strconv.Quote(names[0]) + " has neither members nor shards with an owner")
		}
		if err != nil {
			return nil, err
		}
		return []shard.Status{s}, nil
	}
	l, err := list.Read(cmd.Context(), tree, "", new(list.Progress))
	if err != nil {
		return nil, err
	}
	groups = []shard.Status{}
	for _, s := range l.InUse().Nodes {
		name, plan := strings.CutSuffix(s.Name, "/plan")
		if !plan || !slices.ContainsFunc(s.Contenders, func(c admin.Contender) bool { return c.Metadata[znode.ValueKey] != "" }) {
			continue
		}
		group, err := shard.Read(cmd.Context(), locks, name, fast)
		if errors.Is(err, lock.ErrForeign) { // an election of that name, and no group
			continue
		}
		if err != nil {
			return nil, err
		}
		if group.Number > 0 {
			groups = append(groups, group)
		}
	}
	return groups, unread(l)
}

// printGroups prints a line for each group below root.
func printGroups(w io.Writer, root string, groups []shard.Status, now admin.Time, fast, colour bool) error {
	if len(groups) == 0 {
		_, err := fmt.Fprintln(w, "no groups of shards below", root)
		return err
	}
	table := text.Table{Widest: []int{40}, Colour: colour}
	table.Head("GROUP", "SHARDS", "MEMBERS", "UNOWNED", "MOVING", "PLAN", "LEADER")
	for _, s := range groups {
		row := text.Cells(text.Printable(s.Group), strconv.Itoa(s.Number), strconv.Itoa(len(s.Members)))
		row = append(row, counted(s.Unowned(), fast, text.Red), counted(s.Moving(), fast, text.Yellow))
		row = append(row, text.Cell{Text: planAge(s, now)}, text.Cell{Text: leaderOf(s)})
		table.Add(row...)
	}
	return table.Print(w)
}

// counted returns a number for tables; "-" if it was not read.
func counted(n int, fast bool, style text.Style) text.Cell {
	switch {
	case fast:
		return text.Cell{Text: "-"}
	case n == 0:
		return text.Cell{Text: "0"}
	}
	return text.Cell{Text: strconv.Itoa(n), Style: style}
}

func planAge(s shard.Status, now admin.Time) string {
	if s.Planned.IsZero() {
		return "none"
	}
	return list.Age(max(0, now.Earliest().Sub(s.Planned)), now.Zxid != 0)
}

func leaderOf(s shard.Status) string {
	for _, m := range s.Members {
		if m.Leads {
			return text.Who(m.Owner, m.Host, m.PID)
		}
	}
	return "none"
}

// printGroup prints a group's members, and the shards that are not where they should be.
func printGroup(w io.Writer, s shard.Status, now admin.Time, fast, colour bool) error {
	planned := "no plan"
	if !s.Planned.IsZero() {
		planned = "planned " + cmp.Or(planAge(s, now), "?") + " ago"
	}
	fmt.Fprintf(w, "%s: %s, %s\n\n", text.Printable(s.Group), text.Count(s.Number, "shard", "shards"), planned)
	table := text.Table{Widest: []int{40}, Colour: colour}
	table.Head("MEMBER", "NAME", "WEIGHT", "PLANNED", "OWNS", "LEADS", "OWNER")
	for _, m := range s.Members {
		owns, leads := counted(m.Owns, fast, text.Style("")), ""
		if m.Leads {
			leads = "yes"
		}
		if !fast && m.Owns != m.Shards && !s.Planned.IsZero() {
			owns.Style = text.Yellow
		}
		row := text.Cells(m.ID, text.Printable(m.Name), strconv.Itoa(m.Weight), strconv.Itoa(m.Shards))
		table.Add(append(row, owns, text.Cell{Text: leads}, text.Cell{Text: text.Who(m.Owner, m.Host, m.PID)})...)
	}
	if err := table.Print(w); err != nil || fast {
		return err
	}
	var unowned, moving []string
	for i, shard := range s.Shards {
		switch {
		case shard.Owner == "":
			unowned = append(unowned, strconv.Itoa(i))
		case shard.Planned != "" && shard.Owner != shard.Planned:
			moving = append(moving, fmt.Sprintf("%d (%s to %s)", i, text.Printable(shard.Owner), text.Printable(shard.Planned)))
		}
	}
	_, err := fmt.Fprintf(w, "\nwithout an owner: %s\nto be moved: %s\n", orNone(unowned), orNone(moving))
	return err
}

func orNone(texts []string) string {
	if len(texts) == 0 {
		return "none"
	}
	return strings.Join(texts, ", ")
}
