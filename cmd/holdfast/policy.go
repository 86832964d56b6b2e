package main

import (
	"cmp"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/cmd/internal/text"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/znode"
	"github.com/holdfast-io/holdfast/reaper"
)

func newPolicy(flags *app.Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Tell which policy applies to a lock, and why",
		Long: `Tell which policy of the configuration applies to a lock, and why. No server is asked.

Exit status: 2 bad usage or configuration.`,
		Example: `  holdfast policy test imports/a --config config.yaml`,
	}
	cmd.AddCommand(newPolicyTest(flags))
	return cmd
}

func newPolicyTest(flags *app.Flags) *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "test NAME...",
		Short: "Tell which policy applies to each lock, and why",
		Long: `Tell which policy applies to each lock, which of those before it do not match, and
what the lock gets by it. The first policy whose pattern matches wins. No server is
asked.

Exit status: 2 bad usage or configuration, also if no lock can have that name.`,
		Example: `  holdfast policy test imports/a tenant-7/jobs --config config.yaml
  holdfast policy test imports/a --json | jq -r .locks[0].policy`,
		Args: app.Args(1, math.MaxInt, "the name of a lock, or several"),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				if err := znode.CheckName(name); err != nil {
					return app.Usage("%w", err)
				}
			}
			cfg, err := flags.Load(cmd.Context())
			if err != nil {
				return err
			}
			app.TellRoots(cfg, app.Logger(cfg.Log, cmd.ErrOrStderr()))
			trials := make([]trial, len(args))
			for i, name := range args {
				trials[i] = try(cfg, name)
			}
			document := struct {
				Locks []trial `json:"locks"`
			}{trials}
			return out.print(cmd, document, func(w io.Writer, colour bool) error { return printTrials(w, trials, colour) })
		},
	}
	out.add(cmd)
	return cmd
}

// trial is the result of "policy test" for one lock name.
type trial struct {
	Name   string         `json:"name"`
	Policy string         `json:"policy"`
	Match  string         `json:"match"`
	Passed []passedBy     `json:"not_matching"` // earlier policies, in their order
	Gets   map[string]any `json:"gets"`

	settings []app.Setting // as in Gets, in their order
}

// passedBy is a policy that does not match.
type passedBy struct {
	Policy string `json:"policy"`
	Match  string `json:"match"`
}

func try(cfg *config.Config, name string) trial {
	p := cfg.Policies.For(name)
	t := trial{Name: name, Policy: p.Name, Match: p.Match.String(), Gets: map[string]any{}}
	for _, earlier := range cfg.Policies.All() {
		if earlier.Name == p.Name {
			break
		}
		t.Passed = append(t.Passed, passedBy{earlier.Name, earlier.Match.String()})
	}
	t.settings = app.Settings(p, cmp.Or(cfg.Reaper.Schedule, reaper.DefaultSchedule))
	for _, s := range t.settings {
		t.Gets[s.Key] = s.Value
	}
	return t
}

func printTrials(w io.Writer, trials []trial, colour bool) error {
	for i, t := range trials {
		if i > 0 {
			fmt.Fprintln(w)
		}
		table := text.Table{Colour: colour}
		table.Add(text.Cell{Text: "lock"}, text.Cell{Text: text.Printable(t.Name), Style: text.Bold})
		for _, p := range t.Passed {
			table.Add(text.Cell{Text: "  no"}, text.Cell{Text: fmt.Sprintf("%s does not match %q", text.Printable(p.Policy), p.Match), Style: text.Dim})
		}
		table.Add(text.Cell{Text: "  yes", Style: text.Green}, text.Cell{Text: fmt.Sprintf("%s applies: it is the first that matches, by %q", text.Printable(t.Policy), t.Match)})
		for _, s := range t.settings {
			value := fmt.Sprint(s.Value)
			if s.Key == "ttl" {
				value += ": a crash blocks others for that and the grace"
			}
			table.Add(text.Cells("", s.Key, value)...)
		}
		// Long policy names in the second column must not widen it.
		table.Widest = []int{0, 12}
		if err := table.Print(w); err != nil {
			return err
		}
	}
	return nil
}
