package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/incident"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/cmd/internal/text"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/history"
	"github.com/holdfast-io/holdfast/lock/history/txnlog"
	"github.com/holdfast-io/holdfast/reaper"
)

// logFlags are the flags that the commands on ZooKeeper's logs share.
type logFlags struct {
	output
	logs  []string
	local bool
}

// add adds the flags. The shell completes theirs and the further flags' values by the names of files.
func (f *logFlags) add(cmd *cobra.Command, further ...string) {
	set := cmd.Flags()
	set.StringArrayVar(&f.logs, "logs", nil, "`folder` with the logs and snapshots of a server, or one file; again for others")
	f.output.add(cmd)
	set.BoolVar(&f.local, "local", false, "times are in this machine's zone, not in UTC")
	for _, name := range append(further, "logs") {
		if err := cmd.MarkFlagFilename(name); err != nil {
			panic(err) // the flag is not defined: a bug
		}
	}
}

// open opens the logs. It warns if no snapshot is beside them.
func (f *logFlags) open(cmd *cobra.Command) (*txnlog.Log, error) {
	if len(f.logs) == 0 {
		return nil, app.Usage("--logs is missing: name the folder version-2 of a ZooKeeper server, as in --logs /var/lib/zookeeper/version-2")
	}
	logs, err := txnlog.Open(f.logs...)
	if err != nil {
		return nil, fmt.Errorf("--logs: %w", err)
	}
	files := logs.Files() // logs come first
	if files[0].Snapshot {
		return nil, fmt.Errorf("--logs: no transaction log in %s: if the server's configuration has a dataLogDir, give the version-2 of dataDir and that of dataLogDir, each with --logs", strings.Join(logs.Dirs(), ", "))
	}
	if files[0].Zxid > 1 && !files[len(files)-1].Snapshot {
		err = printWarning(cmd, "these logs begin in the middle, and no snapshot is given with them: what was before is not known; give the version-2 of the server's dataDir, too")
	}
	return logs, err
}

// printWarning prints a warning to standard error.
func printWarning(cmd *cobra.Command, warning string) error {
	_, err := fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: %s\n", cmd.Root().Name(), text.Printable(warning))
	return err
}

type historyFlags struct {
	*app.Flags
	logFlags
	since, until string
	at           []string
	owner, jobs  string
	html         string
}

// around is how much of the log before --since and after --until is read too, because leases,
// sessions and steps of the clock there explain the events in between.
const around = 10 * time.Minute

func newHistory(flags *app.Flags) *cobra.Command {
	f := &historyFlags{Flags: flags}
	cmd := &cobra.Command{
		Use:        "history [LOCK] --logs DIR",
		SuggestFor: []string{"log", "postmortem", "who", "events"},
		Short:      "Tell what happened to locks, from ZooKeeper's own log",
		Long: `Tell what happened to locks, from the transaction logs of ZooKeeper's servers: who
joined, held and waited, whose lease ended, who purged, broke or deleted an entry. No
server is asked, and the folders are only read: name the version-2 of a server's dataDir,
and that of its dataLogDir, or copies. With the folders of several servers (--logs again)
gaps are filled. Where they differ, it is not known whether a write took effect.

LOCK is a lock's name or a pattern, as for holdfast ls; without it the output begins with
what stands out, and then lists the locks. --at tells who held it at a moment: a time or a zxid.

Times are stamps of ZooKeeper's leader. They are written and read in UTC, or with --local
in this machine's zone: 03:12 (the last one in the logs), 2026-11-26T03:12:05, or 2h for
two hours ago. If the leader's clock was stepped, or another server led, the output says
so; a zxid is exact. A clock that was stepped ahead cannot be told from a leader that
stood still: what depends on it is told as not known.

A log tells who may have held a lock, not when a client believed that it did: that is
from granted until released, and at the latest until the end of its lease. What the files
do not show is told as not known: before the oldest snapshot, after a gap, and after a
restore through the admin server.

Exit status: 1 if a file could not be read, or there was nothing to tell.`,
		Example: `  holdfast history orders/42 --logs version-2 --since 03:00 --until 03:30
  holdfast history orders/42 --logs server1 --logs server2 --at 03:12
  holdfast history --logs version-2 --owner shop-7 --html incident.html
  holdfast history --logs version-2 --json | jq -c '.events[] | select(.by)'`,
		Args:              app.Args(0, 1, "the name or pattern of locks, or none"),
		ValidArgsFunction: completeName(flags),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, optional(args))
		},
	}
	set := cmd.Flags()
	set.Var(app.Given(&f.since), "since", "`time` from which on to tell")
	set.Var(app.Given(&f.until), "until", "`time` until which to tell")
	set.StringArrayVar(&f.at, "at", nil, "tell who held the lock at this `time` or zxid; again for others")
	set.Var(app.Given(&f.owner), "owner", "only what the client of this `name` did, and what was done to it")
	set.Var(app.Given(&f.html), "html", "write a page to this `file`")
	addJobs(cmd, &f.jobs)
	f.add(cmd, "html")
	return cmd
}

type inquiry struct {
	machine history.Options
	report  incident.Options
	exact   string // the lock's name, if it is no pattern
	span    txnlog.Range
}

// inquire returns the query of the flags and the argument name. A duration counts back from now. A
// time of day means its latest occurrence up to end.
func (f *historyFlags) inquire(cfg *config.Config, name string, now, end time.Time) (q inquiry, err error) {
	what, err := chosen(name)
	if err != nil {
		return q, err
	}
	if f.asJSON && f.html != "" {
		return q, app.Usage("--json and --html: choose one")
	}
	if f.html != "" && len(f.at) > 0 {
		return q, app.Usage("--at and --html: choose one")
	}
	zone := time.UTC
	if f.local {
		zone = time.Local
	}
	now, end = now.In(zone), end.In(zone)
	q.report = incident.Options{Root: cfg.Root, What: name, Owner: f.owner, Zone: zone, Overview: name == "" && f.owner == ""}
	for flag, to := range map[string]*time.Time{"since": &q.report.Since, "until": &q.report.Until} {
		if given := map[string]string{"since": f.since, "until": f.until}[flag]; given != "" {
			if *to, err = parseWhen(given, now, end); err != nil {
				return q, app.Usage("--%s %w", flag, err)
			}
		}
	}
	if q.report.Until.Before(q.report.Since) && timeOfDay(f.until) { // the same time on the next day
		q.report.Until = q.report.Until.AddDate(0, 0, 1)
	}
	since, until := q.report.Since, q.report.Until
	if !since.IsZero() && !until.IsZero() && until.Before(since) {
		return q, app.Usage("--until %s: is before --since %s", until.Format(time.RFC3339), since.Format(time.RFC3339))
	}
	for _, given := range f.at {
		a := history.Asked{}
		var isZxid bool
		if a.Zxid, isZxid, err = parseZxid(given); err != nil {
			return q, app.Usage("--at %w", err)
		} else if !isZxid {
			if a.Time, err = parseWhen(given, now, end); err != nil {
				return q, app.Usage("--at %w", err)
			}
		}
		q.machine.At = append(q.machine.At, a)
	}
	if !since.IsZero() && len(f.at) == 0 {
		q.span.Since = since.Add(-around)
	}
	if !until.IsZero() && len(f.at) == 0 {
		q.span.Until = until.Add(around)
	}
	q.machine.Root, q.machine.Jobs, q.machine.Reaper = cfg.Root, f.jobs, cmp.Or(cfg.Reaper.Lock, reaper.DefaultLock)
	q.machine.Grace = func(lock string) time.Duration { return cfg.Policies.For(lock).Grace }
	switch {
	case what.match != nil:
		q.machine.Match = what.match
	case name != "":
		q.exact = name
		q.machine.Match = func(lock string) bool { return lock == name || strings.HasPrefix(lock, name+"/") }
	}
	return q, nil
}

func (f *historyFlags) run(cmd *cobra.Command, name string) error {
	cfg, err := f.Load(cmd.Context())
	if err != nil {
		return err
	}
	app.TellRoots(cfg, app.Logger(cfg.Log, cmd.ErrOrStderr()))
	logs, err := f.open(cmd)
	if err != nil {
		return err
	}
	now := time.Now()
	q, err := f.inquire(cfg, name, now, endOf(logs, now, append(f.at, f.since, f.until)...))
	if err != nil {
		return err
	}
	q.report.Dirs = logs.Dirs()
	r := incident.New(q.report)
	var stream *incident.Stream
	if f.asJSON {
		stream = incident.NewStream(cmd.OutOrStdout(), q.report)
	}
	var m *history.Machine
	var failed error // error of writing the output
	m = history.New(q.machine, func(e history.Event) {
		switch {
		case len(q.machine.At) > 0:
		case stream != nil:
			failed = stream.Add(m, e)
		default:
			r.Add(e)
		}
	})
	lost, err := f.read(cmd, logs, q, m, r, &failed)
	if err != nil {
		return err
	}
	r.Finish(m)
	r.Why = q.why(m, r, stream)
	if err := f.print(cmd, r, m, stream); err != nil {
		return err
	}
	switch {
	case r.Why != "":
		return &app.Exit{Status: app.StatusFailed, Err: errors.New("")}
	case lost != nil:
		return fmt.Errorf("not all could be read, the first is %w", lost)
	}
	return nil
}

// endOf returns the time to which times of day refer: the latest time in the logs' last two files. It
// returns now if none of the given times is a time of day, or if these files have no transaction.
func endOf(logs *txnlog.Log, now time.Time, given ...string) time.Time {
	if !slices.ContainsFunc(given, timeOfDay) {
		return now
	}
	var starts []int64
	for _, file := range logs.Files() {
		if !file.Snapshot {
			starts = append(starts, file.Zxid)
		}
	}
	if starts = slices.Compact(starts); len(starts) == 0 {
		return now
	}
	var end time.Time
	for t, err := range logs.Txns(txnlog.Range{From: starts[max(0, len(starts)-2)]}) {
		if err == nil && t.Time.After(end) { // read reports the errors later
			end = t.Time
		}
	}
	if end.IsZero() {
		return now
	}
	return end
}

// read applies the logs to m, and adds their problems to r's warnings. It stops when *failed is set.
// lost is the first problem that may hide transactions, or nil.
func (f *historyFlags) read(cmd *cobra.Command, logs *txnlog.Log, q inquiry, m *history.Machine, r *incident.Report, failed *error) (lost, err error) {
	defer showReading(cmd.ErrOrStderr(), logs)()
	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	_, err = logs.Follow(ctx, q.span, writing{m, failed, cancel}, func(err error) {
		r.Warnings = append(r.Warnings, err.Error())
		var p *txnlog.Problem
		if errors.As(err, &p) && p.Lost() && lost == nil {
			lost = err
		}
	})
	if *failed != nil {
		return lost, *failed
	}
	if err != nil {
		return lost, fmt.Errorf("reading the logs: %w", err)
	}
	m.End()
	return lost, nil
}

// writing is a machine whose events are written out. If that fails, it ends the reading.
type writing struct {
	*history.Machine
	failed *error
	cancel context.CancelCauseFunc
}

func (w writing) Apply(t *txnlog.Txn) {
	if w.Machine.Apply(t); *w.failed != nil {
		w.cancel(*w.failed)
	}
}

// why returns the reason why there is nothing to report; "" if there is something.
func (q inquiry) why(m *history.Machine, r *incident.Report, stream *incident.Stream) string {
	first, last := m.Span()
	if first.IsZero() {
		return "the logs have no transactions" + map[bool]string{true: " at that time", false: ""}[!q.report.Since.IsZero() || !q.report.Until.IsZero()]
	}
	seen := m.Seen()
	if q.report.Owner != "" {
		seen = r.Owned || stream != nil && stream.Owned
	}
	if seen {
		if stream == nil && len(r.Rows) == 0 && len(q.machine.At) == 0 && (last.Before(q.report.Since) || !q.report.Until.IsZero() && first.After(q.report.Until)) {
			return "nothing happened at that time: the logs go from " + first.In(q.report.Zone).Format(time.DateTime) + " to " + last.In(q.report.Zone).Format("2006-01-02 15:04:05 MST")
		}
		return ""
	}
	what := "no locks below " + q.report.Root
	switch {
	case q.report.Owner != "":
		what = "no client " + q.report.Owner
	case q.exact != "":
		what = "no lock " + q.exact
	case q.report.What != "":
		what = "no lock that matches " + q.report.What
	}
	s := ""
	if m.Blind() {
		s = "not known, because the logs begin in the middle, or have a gap, and no snapshot shows the state since: "
	}
	s += fmt.Sprintf("%s in these logs, which go from %s to %s", what, first.In(q.report.Zone).Format(time.DateTime), last.In(q.report.Zone).Format("2006-01-02 15:04:05 MST"))
	if others := m.Others(); len(others) > 0 {
		s += "; they have " + strings.Join(others, ", ")
	}
	if roots := m.Elsewhere(); len(roots) > 0 {
		s += "; there are locks below " + strings.Join(roots, ", ") + ": is --root to name that, or a node above it?"
	}
	return s
}

// print prints the warnings, and the report as JSON, HTML or text.
func (f *historyFlags) print(cmd *cobra.Command, r *incident.Report, m *history.Machine, stream *incident.Stream) error {
	for _, w := range r.Warnings {
		if err := printWarning(cmd, w); err != nil {
			return err
		}
	}
	out := cmd.OutOrStdout()
	switch {
	case stream != nil:
		return stream.Close(m, r)
	case f.html != "" && r.Why == "":
		if err := replaceFile(f.html, 0o644, r.HTML); err != nil {
			return fmt.Errorf("--html: %w", err)
		}
		_, err := fmt.Fprintf(out, "%s: %s of %s\n", f.html, text.Count(len(r.Rows), "row", "rows"), text.Count(len(r.Locks), "lock", "locks"))
		return err
	}
	return r.Print(out, width(out), coloured(cmd))
}
