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
// clock counts, and a tick that has run is recorded.
//
// "holdfast run --tick" does the same for a command that cron starts on several hosts, and
// "holdfast jobs" lists the jobs.
//
// # Ticks
//
// A tick is a point of the schedule in ensemble time: the clock of ZooKeeper's leader. Replicas
// estimate it, see package lock. Their own wall clocks may be wrong by any amount. A tick starts
// some milliseconds after its time, and never before it.
//
// A schedule without CRON_TZ= is in UTC, on each machine. An interval such as @every 90m counts
// from fixed times, so restarts do not move it. A time of day that a change to summer time skips
// does not come on that day, and one that the change back repeats comes twice.
//
// Ticks may come faster than they can be taken. Then they fall behind, and the oldest are missed.
//
// # What is recorded
//
// To take a tick, a replica takes the lock jobs/NAME. It reads the job's record, decides, and writes
// the record in a transaction of the holder ([lock.Hold.Txn]). So of all replicas that try, one has
// the tick. Those that wait have no entry in the lock's queue, so a crash of one delays no other. The
// record is a node below [DefaultPath] ([Options].Path), outside of the locks' root, where
// transactions may not write. Its path ends in the job's name. Missing nodes are created, with the
// client's ACL.
//
// Recorded ticks only go up. If a leader's clock is behind, no tick comes until it has caught up
// with the record. If it is ahead, the ticks in between are missed. So keep the servers' clocks
// synchronized.
//
// A new job begins when its first replica does: earlier ticks do not run.
//
// If the ensemble's data is restored from a backup, the record is that of the backup. Ticks since
// then can run again, those of more than Late ago as the policy for missed ticks says.
//
// # Changes
//
// While a deployment replaces replicas, both versions may run. If the schedule changes, the ticks of
// both come, and a tick that both have runs once. Then the record shows a replica that another
// schedule has written it: ticks of the time before are not missed, so RunAll does not run them.
//
// Another name is another job, which begins anew. While both versions run, a tick runs for each
// name. [Forget] deletes the record of the old one.
//
// # At most once, or at least once
//
//	                          at most once, the default        AtLeastOnce
//	the tick is recorded      before the run                   after the run
//	a replica crashes in it   the run is Unfinished            the same, and the tick runs again
//	the function fails        the run is Failed                the same
//	ctx of Run ends in it     the run is Failed                Unfinished, and the tick runs again
//	for what                  mails, payments                  cleaning, exports, anything idempotent
//
// With AtLeastOnce two runs of one tick may overlap if a replica was paused. The later one has the
// higher token: pass turn.Hold.Token() to the resource, see package fence. The context of the
// function ends when the hold is lost.
//
// An error does not run a tick again. To try again, do so in the function. If the function panics,
// the run is unfinished, and the panic goes on. A tick that ends each replica runs again for ever
// with AtLeastOnce, unless the function gives up by Turn.Attempt.
//
// # Missed ticks
//
// A tick is missed if it did not start within [Options].Late, two minutes by default, because no
// replica lived or ZooKeeper had no quorum. [Options].Missed says what runs then:
//
//	Missed    runs                                             for what
//	Skip      none of them, the default                        reports on the present
//	RunLast   the last one, if no later tick is due            catching up in one run
//	RunAll    the last Limit of them, 100 by default           a run for each day
//
// A replica that crashes while it takes a tick delays it by its TTL and grace. If the next ones that
// take it crash, too, each adds to that. So Late should be at least twice TTL and grace. Then no
// tick is missed while there is a quorum, and a replica for longer than TTL and grace.
//
// # Overlaps
//
// [Options].Overlap says what becomes of a tick that comes while an earlier run goes on:
//
//	Overlap         such a tick                                 if the runs are longer than the interval
//	OverlapWait     runs when that run has ended, the default   they fall behind more and more
//	OverlapSkip     never runs                                  ticks are left out
//	OverlapBeside   runs at once, beside that run               their number grows
//
// A run that has crashed goes on, for this, until its lease has ended. With OverlapBeside each run
// has a lock of its own, ticks/NAME/TICK. It does not go with AtLeastOnce.
//
// # Status
//
// [Job.Status] and [List] return the last runs: the tick, the owner, when and how long it ran, and
// what came of it. [Options].Report is called at the end of each run, also when another replica
// notices a crash. It is the place for alerts.
//
// # Cost
//
// A tick costs the replica that takes it about twelve requests, and each other one two, or more if
// it comes while the tick runs. Replicas that did not run the last tick wait for up to 50 ms, so
// that they seldom come then. So as long as a replica lives, it mostly runs the next tick, too.
// Between ticks a client samples the leader's clock once in about fifty seconds, for all its jobs.
package schedule
