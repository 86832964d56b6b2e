// Package status serves, over HTTP, how a reaper does: to people on a page, to Prometheus
// as metrics, to probes, and to tools as JSON. Nothing that it serves changes anything; it
// answers GET and HEAD only.
//
//	/                 the status page
//	/healthz          503 when sweeps are overdue, with which, else 200
//	/readyz           503 while there is no session with ZooKeeper, else 200
//	/metrics          for Prometheus
//	/api/v1/status    the reaper: sessions, schedules, sweeps, policies, clocks, problems
//	/api/v1/locks     the locks; parameters root, policy, state, q (part of a name),
//	                  sort (policy, name, left, queue), offset, limit (500 at most)
//	/api/v1/lock      one lock with the first 200 entries of its queue; name, root
//
// A lock is told of as it was read, age_ms ago: left_ms is what was left of a lease then, and
// nothing is counted on.
//
// # What it costs
//
// Locks are read on request, and once for all requests together: a pass begins
// no sooner than a second after the one before, and reading takes a tenth of the time at
// most, with eight requests in flight. It visits 20,000 nodes and reads the first three
// entries of each lock; the answer says so if there are more. All else is known without
// a request.
//
// # Access
//
// Every host that reaches the port may read. So bind it to a loopback address, or let the
// network keep others from it: names of locks and their owners are shown. Metadata is not,
// unless the options say so. Requests that name another host than localhost, an address,
// or one of the options' are refused, so that no foreign page can read it by having its
// own name point here (DNS rebinding). /metrics, /healthz and /readyz answer by any name, as
// scrapers and probes ask: they tell of roots, policies and numbers, and of no lock or owner.
// The page needs no resource from elsewhere, and its Content-Security-Policy allows none.
//
// # Metrics
//
// The label root is the name of a root in the configuration, or its path; policy is the
// name of a policy. Both are as many as the configuration has. Names of locks are in no label.
//
//	holdfast_reaper_active                                gauge      root          1 if this is the active reaper
//	holdfast_reaper_build_info                            gauge      version       1
//	holdfast_reaper_clock_displacements_total             counter    root          times that the leader's clock was seen to jump
//	holdfast_reaper_clock_known                           gauge      root          1 if there was a sample of it
//	holdfast_reaper_clock_window_seconds                  gauge      root          between what it shows at least and at most
//	holdfast_reaper_config_refused                        gauge      root          1 if the last configuration was refused
//	holdfast_reaper_config_reloads_total                  counter    root          configurations put in force after the first
//	holdfast_reaper_denied_nodes                          gauge      root, policy  kept from the last sweep by an ACL
//	holdfast_reaper_epoch                                 gauge      root          number of ZooKeeper's leader
//	holdfast_reaper_expired_entries                       gauge      root, policy  past lease and grace in the last sweep
//	holdfast_reaper_foreign_nodes                         gauge      root, policy  not Holdfast's
//	holdfast_reaper_format_1_nodes                        gauge      root, policy  of format 1, from before the first release
//	holdfast_reaper_last_complete_sweep_timestamp_seconds gauge      root, policy  when it began; 0 if there was none
//	holdfast_reaper_live_entries                          gauge      root, policy  whose lease ran
//	holdfast_reaper_locks                                 gauge      root, policy  seen by the last sweep
//	holdfast_reaper_longest_wait_seconds                  gauge      root, policy  of the entries that wait
//	holdfast_reaper_missed_nodes_total                    counter    root, policy  changed before they could be deleted
//	holdfast_reaper_oldest_hold_seconds                   gauge      root, policy  of the live entries with a recorded grant
//	holdfast_reaper_oldest_overdue_seconds                gauge      root, policy  for how long the oldest could have been deleted
//	holdfast_reaper_pruned_nodes_total                    counter    root, policy  empty nodes that were deleted
//	holdfast_reaper_purged_entries_total                  counter    root, policy  expired entries that were deleted
//	holdfast_reaper_read_bytes_total                      counter    root, policy  data read by sweeps
//	holdfast_reaper_scanned_nodes_total                   counter    root, policy  nodes read by sweeps
//	holdfast_reaper_session_away_seconds_total            counter    root          time without a session
//	holdfast_reaper_session_losses_total                  counter    root          times that it was gone
//	holdfast_reaper_session_up                            gauge      root          1 if there is one
//	holdfast_reaper_sweep_duration_seconds                histogram  root, complete
//	holdfast_reaper_sweep_failures_in_a_row               gauge      root, policy  since the last complete sweep
//	holdfast_reaper_sweep_overdue_seconds                 gauge      root, policy  0 if it is not overdue
//	holdfast_reaper_sweep_running                         gauge      root, policy  1 while one is under way
//	holdfast_reaper_sweeps_skipped_total                  counter    root          not begun, the one before being under way
//	holdfast_reaper_undecodable_nodes                     gauge      root, policy  damaged or of a newer version
//	holdfast_reaper_waiting_entries                       gauge      root, policy  live, without a recorded grant
//
// What the last sweep has found is known to the active reaper alone: after a failover the other
// ones leave it out.
//
// Those of Go's runtime and of the process stand beside them.
package status
