// Package status serves the status of a reaper over HTTP: a page for people, metrics for
// Prometheus, health checks for probes, and JSON for tools. It is read-only, and answers only GET
// and HEAD.
//
//	/                 the status page
//	/healthz          503 with the overdue sweeps if there are any, otherwise 200
//	/readyz           503 while there is no session with ZooKeeper, otherwise 200
//	/metrics          for Prometheus
//	/api/v1/status    the reaper: sessions, schedules, sweeps, policies, clocks, problems, groups of
//	                  shards
//	/api/v1/locks     the locks; parameters root, policy, state, q (part of a name),
//	                  sort (policy, name, left, queue), offset, limit (500 at most)
//	/api/v1/lock      one lock with the first 200 entries of its queue; name, root
//
// The data of a lock was read age_ms ago. left_ms is the rest of a lease at that time; it is not
// counted down.
//
// # Cost
//
// /api/v1/locks reads all locks in one pass, which concurrent requests share. A pass begins at least
// a second after the previous one ended. Passes take at most a tenth of the time, but after a loss of
// the session, of a client made by lock.Dial, the next begins as soon as there is one. A pass has up to
// eight reads in flight, visits up to 20,000 nodes and reads the first three entries of each lock;
// if there are more nodes, truncated is true in the answer. /api/v1/lock reads its lock each time.
// Other paths read nothing from ZooKeeper. After each sweep, two reads for each shard of the groups of
// package shard give the metrics and the status of these.
//
// # Access
//
// Every host that reaches the port can read the names of locks and their owners. So bind the port to
// a loopback address, or restrict access in the network. Metadata is only shown if
// [Options].Metadata is set. The Host of a request must be localhost, an address, or one of
// [Options].Hosts. So a page of another site cannot read the data by letting its own name resolve to
// this host (DNS rebinding). /metrics, /healthz and /readyz accept any Host, for scrapers and
// probes: they show roots, policies and numbers, but no locks or owners. The page loads no resource
// from other hosts, and its Content-Security-Policy allows none.
//
// # Metrics
//
// The label root is the name of a root in the configuration, or its path; policy is the name of a
// policy. The configuration limits their number. No label has names of locks.
//
//	holdfast_reaper_active                                gauge      root          1 if this is the active reaper
//	holdfast_reaper_build_info                            gauge      version       1
//	holdfast_reaper_clock_displacements_total             counter    root          times that the leader's clock was seen to jump
//	holdfast_reaper_clock_known                           gauge      root          1 if there was a sample of the leader's clock
//	holdfast_reaper_clock_window_seconds                  gauge      root          width between the bounds of the leader's clock
//	holdfast_reaper_config_refused                        gauge      root          1 if the last configuration was refused
//	holdfast_reaper_config_reloads_total                  counter    root          configurations put in force after the first
//	holdfast_reaper_copied_entries                        gauge      root, policy  entries copied with their lock's node
//	holdfast_reaper_denied_nodes                          gauge      root, policy  nodes that an ACL kept from the last sweep
//	holdfast_reaper_epoch                                 gauge      root          number of ZooKeeper's leader
//	holdfast_reaper_expired_entries                       gauge      root, policy  entries past lease and grace in the last sweep
//	holdfast_reaper_foreign_nodes                         gauge      root, policy  nodes that are not Holdfast's
//	holdfast_reaper_last_complete_sweep_timestamp_seconds gauge      root, policy  start of the last complete sweep; 0: none
//	holdfast_reaper_leader_lease_age_seconds              gauge      root          time since the active reaper renewed its lease
//	holdfast_reaper_live_entries                          gauge      root, policy  entries whose lease ran at the last sweep
//	holdfast_reaper_locks                                 gauge      root, policy  locks that the last sweep has seen
//	holdfast_reaper_longest_wait_seconds                  gauge      root, policy  longest wait of an entry that waits
//	holdfast_reaper_missed_nodes_total                    counter    root, policy  nodes that changed before they could be deleted
//	holdfast_reaper_oldest_hold_seconds                   gauge      root, policy  oldest recorded grant of a live entry
//	holdfast_reaper_oldest_overdue_seconds                gauge      root, policy  longest time that a node could have been deleted
//	holdfast_reaper_pruned_nodes_total                    counter    root, policy  empty nodes that were deleted
//	holdfast_reaper_purged_entries_total                  counter    root, policy  expired entries that were deleted
//	holdfast_reaper_read_bytes_total                      counter    root, policy  data read by sweeps
//	holdfast_reaper_scanned_nodes_total                   counter    root, policy  nodes read by sweeps
//	holdfast_reaper_session_away_seconds_total            counter    root          time without a session
//	holdfast_reaper_session_losses_total                  counter    root          times that the session was lost
//	holdfast_reaper_session_up                            gauge      root          1 if there is a session
//	holdfast_reaper_shard_groups_without_plan             gauge      root, policy  groups of shards without a plan, or a leader
//	holdfast_reaper_shards                                gauge      root, policy  shards of the groups that the last sweep has seen
//	holdfast_reaper_shards_moving                         gauge      root, policy  shards that another member is to own than the one that owns them
//	holdfast_reaper_shards_oldest_plan_timestamp_seconds  gauge      root, policy  when the oldest present plan of a group was made
//	holdfast_reaper_shards_unowned                        gauge      root, policy  shards without an owner after the last sweep
//	holdfast_reaper_standbys                              gauge      root          reapers that stand by; only of the active one
//	holdfast_reaper_sweep_duration_seconds                histogram  root, complete  time that sweeps took
//	holdfast_reaper_sweep_failures_in_a_row               gauge      root, policy  failed sweeps since the last complete one
//	holdfast_reaper_sweep_overdue_seconds                 gauge      root, policy  delay of an overdue sweep; 0: not overdue
//	holdfast_reaper_sweep_running                         gauge      root, policy  1 while a sweep runs
//	holdfast_reaper_sweeps_skipped_total                  counter    root          skipped because the last one still ran
//	holdfast_reaper_term_transactions_left                gauge      root          transactions that the leader can still number, of 2^32
//	holdfast_reaper_undecodable_nodes                     gauge      root, policy  nodes that are damaged or of a newer version
//	holdfast_reaper_waiting_entries                       gauge      root, policy  live entries without a recorded grant
//	holdfast_reaper_worn_locks                            gauge      root, policy  locks with less than half of their counter left
//
// Only the active reaper has the metrics of the last sweep. A reaper that stands by leaves them out.
//
// A sweep counts to the policies by which it began. If a reload renames or removes a policy, its
// counters stay under its name until the process ends or the reload removes the root; a new name
// counts from 0. Sums over the policies of a root thus never fall.
//
// There are also the metrics of Go's runtime and of the process.
//
// The API of this package is not part of the compatibility promise in README.md: it may change in any
// release.
package status
