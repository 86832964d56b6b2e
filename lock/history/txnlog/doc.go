// Package txnlog reads ZooKeeper's transaction logs and snapshots, those of ZooKeeper 3.4 to 3.10.
//
// A server keeps in the folder version-2 of its dataDir (and dataLogDir) every write that the
// ensemble ordered, with the time by the leader's clock. [Open] takes such folders of one or
// several servers of an ensemble, and [Log.Txns] returns the transactions of all of them in their
// order, each once:
//
//	l, err := txnlog.Open("/var/lib/zookeeper/version-2")
//	if err != nil {
//		return err
//	}
//	for txn, err := range l.Txns(txnlog.Range{Since: time.Now().Add(-time.Hour)}) {
//		if err != nil {
//			fmt.Fprintln(os.Stderr, err) // a *Problem: the reading goes on
//			continue
//		}
//		fmt.Println(txn.Time, txn.Session, txn.Ops)
//	}
//
// The files may be written by a running server meanwhile, or be a copy from a broken machine.
// They are opened for reading only, and what can be read is read: damage, gaps and disagreement
// between servers are each a [Problem] in their place among the transactions.
//
// # State
//
// A transaction shows what it changes, not what was there before. The state before the first
// transaction comes from a snapshot: [Log.SnapshotsFor] returns those that a range can follow,
// and a [State] applies transactions to one.
//
// A snapshot is fuzzy: the server goes on writing while it saves its nodes, so the snapshot of
// zxid S has all of the transactions up to S and some of the later ones. The rule for a consumer:
// apply all transactions after S in their order, where a create of a node that exists, and a
// delete or write of one that does not, change nothing. State follows this rule. A State is exact
// only once it has applied the latest transaction that the snapshot shows ([State.Exact]). Before,
// it may have nodes of later transactions.
//
// # What a log can tell
//
//   - Every write that took effect, in its order, and with the session that asked for it; also
//     writes that the leader refused (OpError), though not what they tried.
//   - When the leader ordered a write, by its clock, in milliseconds. The clocks of two leaders may
//     differ, and a clock may be stepped: times need not rise where zxids do.
//   - Which ephemeral nodes ended with a session: since 3.6 the log names them. For older logs,
//     [State.Apply] fills in those that the state has.
//
// # What it cannot tell
//
//   - Reads, watches, pings, and where a client was connected; no addresses, no user names.
//   - When a server or a client learned of a write, or whether the reply arrived.
//   - Whether a session was closed by its client or expired: both are OpCloseSession.
//   - With a single folder of an ensemble: whether its last transactions were committed. A server
//     logs a proposal before the majority has, and the next leader may discard it. When the server
//     restarts it truncates its log, or gets a snapshot and keeps the proposal in its log for good.
//     The folder of another server shows this: if its log lacks the proposal, and goes on with the
//     next epoch, the proposal was discarded (ProblemUncommitted). So read the folders of all
//     servers. A follower of 3.4 saves a snapshot in each election, so its folder proves nothing;
//     then the leader's folder shows it.
//   - That a log lost the end of an epoch, if all folders lost it: the next epoch begins with
//     counter 1 whatever the last counter was.
//   - The ensemble's identity: the field dbid is the same in all ensembles (0). [Log.Txns]
//     recognizes a folder of another ensemble by its different transactions at the same zxids
//     (ProblemOtherEnsemble).
package txnlog
