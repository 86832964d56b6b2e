// Package txnlog reads ZooKeeper's transaction logs and snapshots, those of ZooKeeper 3.4 to 3.10.
//
// The API of this package is not part of the compatibility promise in README.md: it may change in any
// release.
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
// transaction comes from a snapshot. [Log.Follow] finds it, gives it to a [Follower], and then the
// transactions; after a gap it does so again.
//
// A snapshot is fuzzy: the server goes on writing while it saves its nodes, so the snapshot of
// zxid S has all of the transactions up to S and some of the later ones. It may even lack a node that
// existed at S: one that was deleted before the server came to it, while its parent was saved
// earlier and shows nothing of that. [Exact] finds such nodes in the log after S.
//
// A [State] is a tree to which transactions are applied: a create of a node that exists, and a delete
// or write of one that does not, change nothing. From a snapshot's it becomes exact once it has applied
// the latest transaction that the snapshot shows. Before, it may have nodes of later transactions.
//
// # What a log can tell
//
//   - Every write that took effect, in its order, and with the session that asked for it; also
//     writes that the leader refused (OpError), though not what they tried.
//   - When the leader ordered a write, by its clock, in milliseconds. The clocks of two leaders may
//     differ, and a clock may be stepped: times need not rise where zxids do.
//   - Which ephemeral nodes ended with a session: since 3.6 the log names them. For older logs, the
//     state before shows them.
//
// # What it cannot tell
//
//   - Reads, watches, pings, and where a client was connected; no addresses, no user names.
//   - When a server or a client learned of a write, or whether the reply arrived.
//   - Whether a session was closed by its client or expired: both are OpCloseSession.
//   - Whether its last transactions were committed. A server logs a proposal before the majority has,
//     and the next leader may discard it. When the server restarts it truncates its log, or gets a
//     snapshot and keeps the proposal in its log for good. The folder of another server, which lacks
//     the proposal and goes on with the next epoch, shows that it is not known (Txn.Disputed). So read
//     the folders of all servers.
//   - How an epoch ended, unless a folder's log goes on with the next one, and its server loaded no
//     snapshot in between (ProblemEpoch): the next epoch begins with counter 1 whatever the last counter was.
//   - That a log was taken from the middle of a folder, if it had the last transactions of its epoch and
//     no other folder has them: the logs around it fit. An audit mostly finds a
//     later transaction that does not fit, or else violations.
//   - That the data was replaced: the admin server of 3.9 restores a snapshot into running servers, and
//     the log goes on as if nothing had been. Only a later transaction that does not fit shows it.
//   - Of releases before 3.6: which ephemeral nodes a session's end deleted while a snapshot was
//     saved. Exact does not find those.
//   - The ensemble's identity: the field dbid is the same in all ensembles (0). Folders of several
//     ensembles have different transactions at the same zxids (ProblemDisagree).
package txnlog
