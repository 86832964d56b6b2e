package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/cmd/internal/text"
	"github.com/holdfast-io/holdfast/lock/config"
)

func newConfig(flags *app.Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check a configuration file, without a server",
		Long: `Check a configuration file, without a server.

Exit status: 2 bad usage or configuration.`,
		Example: `  holdfast config check config.yaml`,
	}
	cmd.AddCommand(newConfigCheck(flags))
	return cmd
}

// checked is the result for one file in the JSON output.
type checked struct {
	File     string    `json:"file"`
	OK       bool      `json:"ok"`
	Policies []string  `json:"policies,omitempty"`
	Roots    []string  `json:"roots,omitempty"` // names of the reaper's roots
	Mistakes []mistake `json:"mistakes,omitempty"`
	Notes    []string  `json:"notes,omitempty"` // what is allowed, and probably not meant
}

type mistake struct {
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Key    string `json:"key,omitempty"`
	Rule   string `json:"rule"`
}

func newConfigCheck(flags *app.Flags) *cobra.Command {
	var passwords bool
	var out output
	cmd := &cobra.Command{
		Use:   "check [FILE...]",
		Short: "Check configuration files, and tell all that is wrong with them",
		Long: `Check configuration files, by default the one that --config or $` + app.EnvConfig + ` names, and tell
all that is wrong with them, each mistake with its line and column, and what is allowed
but probably not meant. No server is asked,
so that it can be done wherever the file is made. Passwords, which may not be there, are
only read with --passwords.

Exit status: 0 if the library, the reaper and this program would take the files;
2 if not.`,
		Example: `  holdfast config check deploy/config.yaml
  holdfast config check deploy/*.yaml --json | jq '.files[] | select(.ok | not)'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := configFiles(flags, args)
			if err != nil {
				return err
			}
			var all []checked
			var wrong []error
			for _, file := range files {
				c, err := checkFile(cmd.Context(), file, passwords)
				if ctx := cmd.Context(); ctx.Err() != nil {
					return fmt.Errorf("reading %s: %w", file, context.Cause(ctx))
				}
				if all = append(all, c); err != nil {
					wrong = append(wrong, err)
				}
			}
			document := struct {
				Files []checked `json:"files"`
			}{all}
			if err := out.print(cmd, document, func(w io.Writer, _ bool) error { return printChecked(w, all) }); err != nil || len(wrong) == 0 {
				return err
			}
			return &app.Exit{Status: app.StatusUsage, Err: fmt.Errorf("%d of %s with mistakes:\n%w", len(wrong), text.Count(len(files), "file", "files"), errors.Join(wrong...))}
		},
	}
	out.add(cmd)
	cmd.Flags().BoolVar(&passwords, "passwords", false, "read the password that the file names, too")
	return cmd
}

// printChecked prints the files without mistakes. The error of the command has the others.
func printChecked(w io.Writer, all []checked) error {
	var b strings.Builder
	for _, c := range all {
		if !c.OK {
			continue
		}
		fmt.Fprintf(&b, "%s is fine: %s, the last is %s", c.File, text.Count(len(c.Policies), "policy", "policies"), c.Policies[len(c.Policies)-1])
		if len(c.Roots) > 0 {
			b.WriteString("; the reaper's roots are " + strings.Join(c.Roots, ", "))
		}
		b.WriteString("\n")
		for _, note := range c.Notes {
			b.WriteString("  note: " + note + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func configFiles(flags *app.Flags, args []string) ([]string, error) {
	if len(args) > 0 {
		return args, nil
	}
	if file := flags.File(); file != "" {
		return []string{file}, nil
	}
	return nil, app.Usage("no file to check: name it, as in holdfast config check config.yaml")
}

func checkFile(ctx context.Context, file string, passwords bool) (checked, error) {
	c := checked{File: file}
	cfg, err := app.LoadFile(ctx, file)
	var mistakes *config.Error
	switch {
	case errors.As(err, &mistakes):
		for _, m := range mistakes.Mistakes {
			rule := m.Rule
			if m.Value != "" {
				rule = m.Value + ": " + rule
			}
			c.Mistakes = append(c.Mistakes, mistake{m.Line, m.Column, m.Key, rule})
		}
		return c, err
	case err == nil:
		if err = app.CheckReapers(cfg); err != nil {
			err = fmt.Errorf("%s: %w", file, err)
		} else if passwords { // the errors of Options name the file and the key
			err = app.ForEachRoot(cfg, func(n config.Named) error {
				_, err := app.Options(ctx, n.Config)
				return err
			})
		}
	}
	if err != nil {
		c.Mistakes = []mistake{{Rule: err.Error()}}
		return c, err
	}
	c.OK, c.Notes = true, notes(cfg)
	for _, p := range cfg.Policies.All() {
		c.Policies = append(c.Policies, p.Name)
	}
	for _, r := range cfg.Roots {
		c.Roots = append(c.Roots, r.Name)
	}
	return c, nil
}

// notes returns what is allowed in a configuration, and probably not meant.
func notes(cfg *config.Config) (all []string) {
	for _, n := range cfg.Each() {
		of := ""
		if n.Name != "" {
			of = "root " + n.Name + ": "
		}
		for _, p := range n.Config.Policies.All() {
			if strings.ContainsAny(p.Match.String(), "[]{}?") {
				all = append(all, fmt.Sprintf("%spolicy %s: match %s: only * and ** are wildcards; [ ] { } and ? stand for themselves", of, p.Name, p.Match))
			}
			if timeout := n.Config.ZooKeeper.SessionTimeout; timeout >= p.TTL {
				all = append(all, fmt.Sprintf("%spolicy %s: ttl %v is not longer than zookeeper.session_timeout, %v: when a server hangs, holds are lost before the client turns to another one; choose a session timeout of at most half of the ttl", of, p.Name, p.TTL, timeout))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
