// Package schedule runs a job once a tick, although all replicas of a service have its schedule.
//
//	daily, err := cron.ParseStandard("30 4 * * *") // of github.com/robfig/cron/v3
//	if err != nil {
//		return err
//	}
//	job, err := schedule.New(locks, "nightly/export", daily, schedule.Options{})
//	if err != nil {
//		return err
//	}
//	return job.Run(ctx, func(ctx context.Context, turn *schedule.Turn) error {
//		return export(ctx, turn.Tick)
//	})
//
// All replicas run this code. At each tick one of them calls the function. Schedulers that compare
// wall clocks run a job twice if it is shorter than the difference between the clocks. Here no wall
// clock counts, and each tick that has run is recorded.
//
// "holdfast run --tick" does the same for a command that cron starts on several hosts. "holdfast
// jobs" lists the jobs.
//
// # Ticks
//
// A tick is a point of the schedule in ensemble time: the clock of ZooKeeper's leader. Replicas
// estimate that time, see package lock. Their wall clocks may be wrong by any amount. A run starts
// some milliseconds after the tick's time, and never before it.
//
// A schedule without CRON_TZ= is in UTC, on each machine. An interval such as @every 90m counts
// from fixed times, so restarts do not move it. A time of day that a change to summer time skips
// has no tick on that day. A time of day that the change back repeats has two.
//
// Ticks may come faster than replicas can take them. Then runs fall behind, and the oldest ticks
// are missed.
//
// # What is recorded
//
// To take a tick, a replica takes the lock jobs/NAME. It reads the job's record, decides, and
// writes the record in a transaction of the holder ([lock.Hold.Txn]). So of all replicas that try,
// one takes the tick. Waiting replicas have no entry in the lock's queue, so the crash of a waiting
// replica delays no other.
//
// The record is a node below [DefaultPath] ([Options].Path), outside of the locks' root, where
// transactions may not write. Its path ends in the job's name. Missing nodes are created, with the
// client's ACL.
//
// Recorded ticks only go up. If a new leader's clock is behind the record, no tick runs until the
// clock has caught up. If the clock is ahead of the old leader's, the ticks between the two times
// are missed. So keep the servers' clocks synchronized.
//
// A new job begins when its first replica starts: earlier ticks do not run.
//
// If the ensemble's data is restored from a backup, the record is that of the backup. Ticks since
// the backup can then run again; for ticks that are late by more than Late, the policy for missed
// ticks decides.
//
// # Changes
//
// While a deployment replaces replicas, both versions may run. If the schedule changes, the ticks
// of both versions run, and a tick that both have runs once. A replica that reads a record written
// with another schedule does not count earlier ticks as missed, so RunAll does not run them.
//
// A job with another name is another job, and begins as a new one. While both versions run, a tick
// runs for each name. [Forget] deletes the record of the old name.
//
// # At most once, or at least once
//
//	                          at most once, the default        AtLeastOnce
//	the tick is recorded      before the run                   after the run
//	a replica crashes in      the run is Unfinished            the run is Unfinished, and the tick runs again
//	  the run
//	the function fails        the run is Failed                the run is Failed
//	ctx of Run ends and the   the run is Failed                the run is Unfinished, and the tick runs again
//	  function fails
//	use it for                mails, payments                  cleaning, exports, anything idempotent
//
// With AtLeastOnce two runs of one tick may overlap if a replica was paused. The later run has the
// higher token: pass turn.Hold.Token() to the resource, see package fence. The context of the
// function ends when the hold is lost.
//
// An error of the function does not make the tick run again. To try again, do so in the function.
// If the function panics, the run is Unfinished, and the panic goes on. With AtLeastOnce, a tick
// that crashes each replica runs again for ever, unless the function gives up by Turn.Attempt.
//
// # Missed ticks
//
// A tick is missed if no replica could start it within [Options].Late, two minutes by default,
// because no replica was alive or ZooKeeper had no quorum. [Options].Missed says what runs then:
//
//	Missed    runs                                             use it for
//	Skip      none of them, the default                        reports on the present
//	RunLast   the last one, if no later tick is due            catching up in one run
//	RunAll    the last Limit of them, 100 by default           a run for each day
//
// A replica that crashes while it takes a tick delays the tick by its TTL and grace. If the next
// replicas that take the tick crash too, each adds as much. So Late should be at least twice TTL
// and grace. Then no tick is missed while there is a quorum and, for longer than TTL and grace, a
// replica that does not crash.
//
// # Overlaps
//
// [Options].Overlap says what happens to a tick that comes due during an earlier run:
//
//	Overlap         the tick                                    if the runs are longer than the interval
//	OverlapWait     runs when that run has ended, the default   they fall behind more and more
//	OverlapSkip     never runs                                  ticks are left out
//	OverlapBeside   runs at once, beside that run               their number grows
//
// A run that has crashed counts as going on until its lease has ended. With OverlapBeside each run
// has a lock of its own, ticks/NAME/TICK. OverlapBeside cannot be combined with AtLeastOnce.
//
// # Status
//
// [Job.Status] and [List] return the last runs: the tick, the owner, start, end and outcome.
// [Options].Report is called at the end of each run, also when another replica notices a crash, and
// when ticks are skipped. Use it for alerts. A job that no replica runs reports nothing: so also watch
// the time since its last run.
//
// # Cost
//
// A tick costs the replica that takes it about twelve requests, and each other replica one or two,
// or more if it tries during the run. A replica that did not run the last tick waits for up to 50
// ms before it tries. So the replica that ran the last tick mostly runs the next one too. Between
// ticks a client samples the leader's clock once in about fifty seconds, for all its jobs.
package schedule
