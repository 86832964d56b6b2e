package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/cmd/internal/text"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/history/audit"
)

// Exit statuses of audit, besides those of all commands.
const (
	statusViolations = 3
	statusDisagree   = 4
)

// mostViolations is the largest number of violations in the text output.
const mostViolations = 100

type auditFlags struct {
	logFlags
	since       string
	grace, skew time.Duration
}

func newAudit() *cobra.Command {
	f := &auditFlags{}
	cmd := &cobra.Command{
		Use:        "audit --logs DIR",
		SuggestFor: []string{"verify", "prove"},
		Short:      "Check ZooKeeper's own log against the protocol of the locks",
		Long: `Check what the transaction logs of ZooKeeper's servers say of locks against their
protocol: never two holders, living entries deleted only by their owners or by holdfast
break, tokens that rise, permits within the number, one leader at a time, a tick recorded
once. No client is trusted, and no server is asked. Name the version-2 of a server's
dataDir and dataLogDir, or copies; with the folders of several servers (--logs again) the
audit also tells where the servers disagree. That is no fault of the locks. It tells, too,
where a log is missing or the servers' data was replaced, as by a restore through the
admin server: there it forgets what was before.

Each violation is printed with its zxid, the rule, and the zxid that it conflicts with;
holdfast history tells what happened around it. The rules are described at
https://pkg.go.dev/github.com/holdfast-io/holdfast/lock/history/audit. Writes that the
log does not let it judge are counted: those on nodes from before the log, as long as no
snapshot shows them; and without --skew, purges over a change of ZooKeeper's leader.

Exit status: 1 if nothing was judged or a file could not be read, ` + fmt.Sprint(statusViolations) + ` with violations,
` + fmt.Sprint(statusDisagree) + ` if the servers disagree.`,
		Example: `  holdfast audit --logs version-2
  holdfast audit --logs server1 --logs server2 --skew 1s --since 2h
  holdfast audit --logs version-2 --json | jq '.violations[].zxid'`,
		Args: app.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.add(cmd)
	set := cmd.Flags()
	set.Var(app.Given(&f.since), "since", "`time` from which on to judge, as of holdfast history")
	set.DurationVar(&f.grace, "grace", lock.MinGrace, "the shortest grace of your locks: an entry that was purged earlier is a violation")
	set.DurationVar(&f.skew, "skew", 0, "how far the clocks of two servers may differ; 0: unknown")
	return cmd
}

func (f *auditFlags) run(cmd *cobra.Command) error {
	switch {
	case f.grace < lock.MinGrace:
		return app.Usage("--grace %v: must be at least %v, as of a policy", f.grace, lock.MinGrace)
	case f.skew < 0:
		return app.Usage("--skew %v: must not be negative", f.skew)
	}
	logs, err := f.open(cmd)
	if err != nil {
		return err
	}
	zone := time.UTC
	if f.local {
		zone = time.Local
	}
	var since time.Time
	if f.since != "" {
		now := time.Now().In(zone)
		if since, err = parseWhen(f.since, now, endOf(logs, now, f.since).In(zone)); err != nil {
			return app.Usage("--since %w", err)
		}
	}
	done := showReading(cmd.ErrOrStderr(), logs)
	found, err := audit.Logs(cmd.Context(), logs, since, audit.Options{Grace: f.grace, Skew: f.skew})
	done()
	if err != nil {
		return fmt.Errorf("reading the logs: %w", err)
	}
	for _, p := range found.Problems {
		if err := printWarning(cmd, p.Error()); err != nil {
			return err
		}
	}
	err = f.print(cmd, auditDocument(found), func(w io.Writer, colour bool) error { return printAudit(w, found, since, zone, colour) })
	if err != nil {
		return err
	}
	return auditStatus(found, since)
}

// auditStatus returns the command's error, with its exit status. It is nil if the audit read all logs,
// judged something since the given time, and found neither a violation nor servers that disagree.
func auditStatus(f *audit.Findings, since time.Time) error {
	violations := text.Count(len(f.Violations), "violation", "violations")
	switch {
	case f.Disagree != 0 && len(f.Violations) == 0:
		return &app.Exit{Status: statusDisagree, Err: fmt.Errorf("the servers disagree on their data from 0x%x on, which is no fault of the locks: what came later was not judged", f.Disagree)}
	case len(f.Violations) > 0:
		return &app.Exit{Status: statusViolations, Err: errors.New(violations)}
	case f.Total() == 0 && f.Until.Before(since):
		return fmt.Errorf("nothing was judged: the logs end at %s, before --since", f.Until.In(since.Location()).Format(time.RFC3339))
	case f.Total() == 0 && !since.IsZero():
		return fmt.Errorf("nothing was judged: since %s these logs have no writes of Holdfast's locks, or none that they tell enough of", since.Format(time.RFC3339))
	case f.Total() == 0:
		return errors.New("nothing was judged: these logs have no locks of Holdfast, or none that they tell enough of")
	}
	for _, p := range f.Problems {
		if p.Lost() {
			return fmt.Errorf("no violations, but not all could be read, the first is %w", p)
		}
	}
	return nil
}

// auditedDocument is the output of audit as JSON. Zxids are hexadecimal.
type auditedDocument struct {
	Violations []auditedViolation `json:"violations"`
	Verdicts   int                `json:"verdicts"`
	Judged     map[audit.Rule]int `json:"judged"`
	Unjudged   map[string]int     `json:"unjudged"`
	Txns       int64              `json:"transactions"`
	First      string             `json:"first,omitempty"`
	Last       string             `json:"last,omitempty"`
	From       time.Time          `json:"from,omitzero"`
	Until      time.Time          `json:"until,omitzero"`
	InMiddle   bool               `json:"in_middle"`
	Snapshot   string             `json:"snapshot,omitempty"`
	Disagree   string             `json:"disagree,omitempty"`
	Restored   []string           `json:"restored"` // transactions that do not fit what was before
	Problems   []string           `json:"problems"`
}

type auditedViolation struct {
	Rule  audit.Rule `json:"rule"`
	Zxid  string     `json:"zxid"`
	Time  time.Time  `json:"time"`
	Path  string     `json:"path"`
	Other string     `json:"other,omitempty"`
	Text  string     `json:"text"`
}

func auditDocument(f *audit.Findings) auditedDocument {
	hex := func(zxid int64) string {
		if zxid == 0 {
			return ""
		}
		return fmt.Sprintf("0x%x", zxid)
	}
	d := auditedDocument{
		Verdicts: f.Total(), Judged: f.Judged, Unjudged: f.Unjudged,
		Txns: f.Txns, First: hex(f.First), Last: hex(f.Last), From: f.From.UTC(), Until: f.Until.UTC(),
		InMiddle: f.InMiddle, Snapshot: f.Snapshot, Disagree: hex(f.Disagree),
	}
	for _, zxid := range f.Restored {
		d.Restored = append(d.Restored, hex(zxid))
	}
	for _, v := range f.Violations {
		d.Violations = append(d.Violations, auditedViolation{v.Rule, hex(v.Zxid), v.Time.UTC(), v.Path, hex(v.Other), v.Text})
	}
	for _, p := range f.Problems {
		d.Problems = append(d.Problems, p.Error())
	}
	return d
}

// printAudit prints the verdicts by rule, what was not judged, and the violations.
func printAudit(w io.Writer, f *audit.Findings, since time.Time, zone *time.Location, colour bool) error {
	const layout = "2006-01-02 15:04:05 MST"
	var b bytes.Buffer
	if f.Txns > 0 {
		fmt.Fprintf(&b, "transactions 0x%x to 0x%x, %s to %s\n", f.First, f.Last, f.From.In(zone).Format(layout), f.Until.In(zone).Format(layout))
		if !since.IsZero() {
			fmt.Fprintf(&b, "judged from %s on: those before show the state\n", since.In(zone).Format(layout))
		}
		fmt.Fprintln(&b)
	}
	violated := map[audit.Rule]int{}
	for _, v := range f.Violations {
		violated[v.Rule]++
	}
	table := text.Table{Widest: []int{12}, Colour: colour}
	table.Head("RULE", "VERDICTS", "VIOLATIONS")
	for _, rule := range audit.Rules() {
		if n := f.Judged[rule]; n > 0 {
			cell := text.Cell{Text: fmt.Sprint(violated[rule])}
			if violated[rule] > 0 {
				cell.Style = text.Red
			}
			table.Add(append(text.Cells(string(rule), fmt.Sprint(n)), cell)...)
		}
	}
	if f.Total() > 0 {
		if err := table.Print(&b); err != nil {
			return err
		}
	}
	for _, why := range slices.Sorted(maps.Keys(f.Unjudged)) {
		fmt.Fprintf(&b, "not judged: %d %s\n", f.Unjudged[why], why)
	}
	if f.InMiddle {
		fmt.Fprintln(&b, "not judged: the order of the contenders of locks from before the log, which begins in the middle, or from before a gap or a restore")
	}
	for _, zxid := range f.Restored {
		fmt.Fprintf(&b, "0x%x does not fit what was before: a log is missing, or the servers' data was replaced, as by a restore through the admin server, or a server had lost some\n", zxid)
	}
	for i, v := range f.Violations {
		if i == mostViolations {
			fmt.Fprintf(&b, "and %d more: --json prints all\n", len(f.Violations)-i)
			break
		}
		fmt.Fprintf(&b, "%s%s %s\n", map[bool]string{true: "\n"}[i == 0], v.Time.In(zone).Format("15:04:05.000"), text.Printable(v.String()))
	}
	if len(f.Violations) == 0 && f.Disagree == 0 && f.Total() > 0 {
		fmt.Fprintf(&b, "\nno violations in %s\n", text.Count(f.Total(), "verdict", "verdicts"))
	}
	_, err := b.WriteTo(w)
	return err
}
