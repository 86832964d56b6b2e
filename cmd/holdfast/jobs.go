package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/holdfast/internal/list"
	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/cmd/internal/text"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/schedule"
)

func newJobs(flags *app.Flags) *cobra.Command {
	var out output
	var path string
	cmd := &cobra.Command{
		Use:        "jobs",
		SuggestFor: []string{"cron", "ticks", "schedule"},
		Short:      "List the jobs that run once a tick, and their last runs",
		Long: `List the jobs that run once a tick, by package schedule or holdfast run --tick: the next
tick, and of the last run the tick, how long ago it began, what came of it, how long it
took, and which client ran it. SKIPPED is the last tick that never ran, and why: missed, as
no host could run it in time, overlap with an earlier run, or rescheduled. Times are in
UTC, by the ZooKeeper leader's clock.

A run is unfinished if its client crashed or lost the job's lock. With --json the last 16
runs are shown, and the ticks that were skipped last.

Exit status: 1 if some nodes could not be read, or are not the record of a job.`,
		Example: `  holdfast jobs
  holdfast jobs --json | jq '.jobs[] | select(.runs[0].outcome != "done")'`,
		Args: app.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withTree(cmd, flags, func(_ *config.Config, locks *lock.Client, tree admin.Tree) error {
				jobs, unread := schedule.List(cmd.Context(), locks, path)
				if cmd.Context().Err() != nil || unread != nil && len(jobs) == 0 {
					return unread // there may be jobs
				}
				document := struct {
					Path string            `json:"path"`
					Jobs []schedule.Status `json:"jobs"`
				}{path, jobs}
				return errors.Join(out.print(cmd, document, func(w io.Writer, colour bool) error {
					return printJobs(w, path, jobs, tree.Estimate(), colour)
				}), unread)
			})
		},
	}
	out.add(cmd)
	addJobs(cmd, &path)
	cmd.AddCommand(newForget(flags))
	return cmd
}

func newForget(flags *app.Flags) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "forget NAME",
		Short: "Delete the record of a job that runs no more",
		Long: `Delete the record of a job that runs no more, such as one that was renamed. It is refused
while the job runs. If clients run the job after all, it begins anew: only ticks from then
on run.

A job whose ticks were recorded by a clock that was ahead runs no tick until that time. If
holdfast jobs shows a NEXT that is too late, correct the clock and forget the job.`,
		Example: `  holdfast jobs forget nightly/export`,
		Args:    app.Args(1, 1, "the name of one job"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withTree(cmd, flags, func(_ *config.Config, locks *lock.Client, _ admin.Tree) error {
				err := schedule.Forget(cmd.Context(), locks, path, args[0])
				if errors.Is(err, zk.ErrNoNode) {
					return fmt.Errorf("job %q: there is no record of it below %s", args[0], path)
				}
				return err
			})
		},
	}
	addJobs(cmd, &path)
	return cmd
}

// outcomeStyles are the styles of outcomes in the table.
var outcomeStyles = map[schedule.Outcome]text.Style{schedule.Failed: text.Red, schedule.Unfinished: text.Yellow}

// printJobs prints a line for each job.
func printJobs(w io.Writer, path string, jobs []schedule.Status, now admin.Time, colour bool) error {
	if len(jobs) == 0 {
		_, err := fmt.Fprintf(w, "no jobs below %s\n", text.Printable(path))
		return err
	}
	table := text.Table{Widest: []int{40}, Colour: colour}
	table.Head("JOB", "NEXT", "LAST TICK", "AGE", "OUTCOME", "TOOK", "SKIPPED", "OWNER")
	for _, job := range jobs {
		row := text.Cells(text.Printable(job.Job), timeOf(job.Next))
		run, ran := job.Last()
		skipped := text.Cell{Text: ""}
		if s := job.Skipped; s != nil {
			skipped.Text = fmt.Sprintf("%s %s", timeOf(s.Last), s.Why)
			if s.Why == schedule.Missing && s.Last.After(run.Tick) {
				skipped.Style = text.Yellow
			}
		}
		if !ran {
			row = append(row, text.Cells("", "", "", "")...)
			row = append(row, skipped)
		} else {
			ended := run.Ended
			if ended.IsZero() {
				ended = now.Earliest()
			}
			outcome := text.Cell{Text: string(run.Outcome), Style: outcomeStyles[run.Outcome]}
			row = append(row, text.Cell{Text: timeOf(run.Tick)}, text.Cell{Text: list.Age(max(0, now.Earliest().Sub(run.Started)), now.Zxid != 0)}, outcome)
			// The end of an unfinished run is unknown: a crash is noticed later.
			known := run.Outcome != schedule.Unfinished && (now.Zxid != 0 || !run.Ended.IsZero())
			row = append(row, text.Cell{Text: list.Age(max(0, ended.Sub(run.Started)), known)}, skipped,
				text.Cell{Text: text.Who(run.Owner, run.Host, run.PID)})
		}
		table.Add(row...)
	}
	return table.Print(w)
}

// timeOf returns a time for tables; "-" if there is none.
func timeOf(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
