// Package integration tests Holdfast against real ZooKeeper servers. Each promise of package lock
// has a test here that would fail if the promise were broken. TESTING.md lists promises and tests, and
// the map in CONTRIBUTING.md has a line for each folder below this one:
//
//	what do locks keep under faults?          torture (with crew, judge, monotonic)
//	what do others lose under them?           compare (with peers too)
//	how fast are locks, beside others?        bench
//	would the tests notice a breakage?        mutants
//	is the protocol right in every order?     sim (with repeatable), model
//	do others' tests pass with these locks?   hosts (with hosttest), kazoo, sql
//	do the pages work in a browser?           statuspage, playground
//	is what real logs say read rightly?       txnlogs, audited
//	can it be released and deployed?          release, deploy
//	which servers and aids do tests have?     zkserver, withzk, versions, localhost, kdc, pgserver;
//	                                          foreign, iferr, pty, script, testpki, wait, wallclock
package integration
