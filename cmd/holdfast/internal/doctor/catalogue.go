// Package doctor finds problems of the servers, the tree of locks and the configuration, and says
// how to fix them. It makes no lasting changes.
package doctor

import "fmt"

// Severity says how bad a finding is.
type Severity string

// The severities, the worst first.
const (
	Error   Severity = "error"   // locks do not work, or are not safe
	Warning Severity = "warning" // locks will stop working, or behave unexpectedly
	Info    Severity = "info"    // for information
)

// Finding is a problem that the doctor has found. Its ID stays the same from release to release,
// so monitoring may rely on it.
type Finding struct {
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`
	What     string   `json:"what"`  // what was found
	Means    string   `json:"means"` // consequence for locks
	Mend     string   `json:"mend"`  // remedy
	// Nodes are paths of the nodes of the finding, as far as the examination names them; of very many
	// the first ones.
	Nodes []string `json:"nodes,omitempty"`
}

type kind struct {
	Severity
	means, mend string
}

// kinds are all kinds of findings, by their IDs.
var kinds = map[string]kind{
	"no-session": {Error, "Nothing can be locked from here, and nothing else could be looked at.",
		"Start a server there or name others with --servers, HOLDFAST_ZOOKEEPER or zookeeper.servers; see that no firewall, port, certificate or TLS setting is in the way, that the servers have a quorum, and that maxClientCnxns of zoo.cfg (by default 60 connections from one address) leaves room."},
	"config-unusable": {Error, "Nothing can be locked from here, and nothing else could be looked at.",
		"Do what the finding says: give the file that the configuration names, or another owner, mode or content to it."},
	"sasl-failed": {Error, "Nothing can be locked from here, and nothing else could be looked at.",
		"Do what the finding says: zookeeper.sasl and the section Server of the servers' JAAS configuration must fit; with Kerberos also the keytab or ticket, the KDC and the clocks."},
	"server-unsupported": {Error, "Two clients may hold a lock at once, or none may get it.",
		"Use Apache ZooKeeper 3.4.14 or later, 3.9.6 by preference."},
	"server-release": {Warning, "An acknowledged write, and a lock with it, can be lost.",
		"Upgrade the server to a release with the fix, which the finding names."},
	"release-loses-nodes": {Info, "A client can enter beside a holder if a server starts from a snapshot during which the lock's node was deleted and made anew, and its entry is in use still.",
		"No later release without the defect is known. For locks that must not fail set keep_parent: true in their policy: a node that stays loses nothing. Watch data-differs after a server's start, and fence what the locks protect."},
	"release-unknown": {Info, "Whether the release has known bugs was not looked at.",
		"Permit the words: 4lw.commands.whitelist=srvr,mntr in zoo.cfg. By mntr the doctor also looks for data-differs."},
	"data-in-tmp": {Warning, "A restart of the machine, or what cleans up /tmp, deletes the data: all locks are lost, also those that are held.",
		"Set dataDir in zoo.cfg to a folder that stays, and that the user of the server may write. Debian's package, and the example that ZooKeeper comes with, have /tmp/zookeeper."},
	"heap-small": {Info, "A million locks need some 6 GB. A server that runs out of heap stops answering, and holds are lost.",
		"Set -Xmx to what the locks need and the machine has: in JAVA_OPTS of /etc/default/zookeeper with Debian's package, which sets none, or in SERVER_JVMFLAGS."},
	"data-differs": {Error, "A client of that server may enter beside a holder, or wait for entries that the other servers do not have.",
		"Compare what holdfast ls --servers HOST:PORT shows through each server. Stop the one that differs, delete its version-2 below dataDir and dataLogDir, and start it: it copies the leader's data. Do so only while the others have a quorum. If several are named, the leader may be the one that differs: then restart it first, so that another one leads."},
	"server-down": {Warning, "The ensemble has less in reserve, and clients that try this server first take longer to connect.",
		"Start the server again, or take it out of zookeeper.servers."},
	"server-unchecked": {Warning, "What locks rest on was not seen to be so.",
		"Let this user create and delete nodes below the root: see acl-denied."},
	"single-server": {Info, "When it fails, or is restarted for longer than a TTL, all holds are lost.",
		"Run an ensemble of three or five, and name all of them in zookeeper.servers."},
	"servers-even": {Info, "One server more than an odd number lets no further server fail.",
		"Run an odd number of voting servers: three or five."},
	"servers-repeat": {Warning, "A client tries the same server twice, and believes that it has more of them than there are.",
		"Name each server once in zookeeper.servers."},
	"members-differ": {Info, "Clients may not know all servers; without zookeeper.follow_reconfiguration they lose the ensemble once those that they know are removed.",
		"Name the ensemble's members in zookeeper.servers, unless clients reach them by other addresses."},
	"members-unknown": {Warning, "zookeeper.follow_reconfiguration has no effect: clients know only zookeeper.servers.",
		"Give each server's line an address for clients (server.1=HOST:2888:3888;2181), and let clients read /zookeeper/config; or leave the key out."},
	"clock-jumps": {Warning, "A process that has not seen the jump may take a live holder for dead as soon as jumps are longer than the grace.",
		"Let chrony or ntpd slew the clocks of the servers and not step them (makestep only at the start); or choose a grace of more than twice the jump."},
	"clock-exceeds-grace": {Error, "A client may enter while another holds the lock.",
		"Mend the clock of the server that leads, with chrony or ntpd; until then choose a grace of more than twice the jump, in all programs that use these locks."},
	"term-ends": {Info, "When the leader has numbered 2^32 transactions, the servers elect a leader at that moment, and answer nothing meanwhile. A server that runs alone goes on.",
		"Restart the leader of an ensemble at a quiet hour: each leader begins anew. If it comes often, see which client writes so much."},
	"clock-differs": {Warning, "Locks do not depend on this machine's clock, but its logs and the times that ZooKeeper shows cannot be compared.",
		"Set the clocks of this machine and of the servers by the same NTP source."},
	"session-granted": {Warning, "A dead connection is noticed earlier or later than the configuration says.",
		"Set zookeeper.session_timeout to what the servers permit, or minSessionTimeout and maxSessionTimeout in zoo.cfg to what is asked for."},
	"session-outlasts-ttl": {Warning, "A server that hangs is given up after two thirds of the session timeout: then too little, or nothing, is left of the lease to renew it elsewhere, and holds are lost.",
		"Choose a zookeeper.session_timeout of at most half of the shortest TTL, or a longer TTL."},
	"root-missing": {Info, "No lock has been taken yet, or the root is another one than that of the programs.",
		"If there are locks already: set root, or --root, to what the programs use."},
	"root-foreign": {Error, "Holdfast did not create the node at this path, and refuses to make locks below it.",
		"Choose another root, or remove the node's data if nothing needs it."},
	"acl-denied": {Error, "Locks cannot be taken or given back by this user.",
		"Give this user create, read, write and delete on the root (setAcl in zkCli.sh), or set zookeeper.auth or zookeeper.sasl to a user with these rights."},
	"quota-exceeded": {Error, "No lock can be taken. Holds that are there are renewed.",
		"Raise the quota of the node that the finding names, or of one above it, with setquota in zkCli.sh, or remove it with delquota (listquota shows it). The reaper can sweep only after that: run it then, if what crashed clients left fills the quota."},
	"acl-invalid": {Error, "No lock can be made: the server refuses the nodes that would belong to this user.",
		"Add authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider to zoo.cfg of each server, if zookeeper.sasl is set."},
	"acl-open": {Warning, "Any client that reaches the server can delete, break or forge any lock, although there are credentials.",
		"Restrict the root and what is below it, when all clients have the credentials: setAcl -R ROOT auth:USER:cdrwa in zkCli.sh; for zookeeper.sasl, sasl:USER:cdrwa. If new nodes are open too, a program runs without the credentials."},
	"acl-open-above": {Info, "Any client can create nodes beside the locks, and make the root itself while it is missing.",
		"Have an administrator close these nodes, if no other program needs them open: setAcl NODE auth::cdrwa in zkCli.sh."},
	"unreadable": {Warning, "What stands there is not shown, and the reaper does not clean it up.",
		"Give this user read and delete on these nodes and on what is below them, or make them by the same credentials."},
	"jute-maxbuffer": {Error, "A sweep's deletes, several locks taken together, a transaction of a hold or an entry with large metadata may be of this size. The server then ends the connection at each attempt: the request does not arrive, and all calls of that client wait.",
		"Set jute.maxbuffer to at least 1048575, its default, on all servers and clients."},
	"left-behind": {Warning, "What crashed holders have left is not cleaned up: trees grow, and ZooKeeper with them.",
		"Run the reaper, as a daemon or by cron; holdfast sweep does it once."},
	"acl-delete": {Warning, "Nothing that this user runs cleans up these nodes, neither the reaper nor a waiter.",
		"Give the reaper's user delete on the nodes above them, and on what is below: setAcl -R NODE auth:USER:cdrwa in zkCli.sh, or fewer rights as in cmd/reaper/deploy/acls.txt."},
	"undecodable": {Error, "These entries are damaged or of a newer release, never expire, and block their locks.",
		"Upgrade, if newer programs use these locks; else look at the node with zkCli.sh, and delete it if no client holds the lock by it."},
	"counter-worn": {Warning, "A lock's node takes 2,147,483,647 entries in its life. At the end its locks fail if other nodes are below it.",
		"End the use of locks below this lock's name, or keep_parent for it; or give the lock another name. The node then goes with its last entry, and the next one counts from 0."},
	"entries-copied": {Warning, "A tool has copied lock entries from another ensemble: clients wait for them until their leases are over.",
		"Nothing needs to be done, if the leases are short; attach to what was detached, or delete such an entry in zkCli.sh if no process has its hold."},
	"foreign-nodes": {Info, "They are not Holdfast's, and are left alone; contenders of other libraries live as long as their sessions.",
		"Nothing needs to be done, if you know their owners."},
	"foreign-stuck": {Error, "No session owns these entries of other libraries, so they never go by themselves, and block their locks for ever: a server kept them over a restore, or a tool copied them.",
		"See that no program holds the lock by it, then: delete PATH in zkCli.sh. Move ensembles by snapshots or by adding servers, never by copying nodes."},
	"reaper-absent": {Warning, "Expired entries without a waiter behind them, and empty parents, stay.",
		"Run the reaper: as a daemon, or by cron more often than orphan_after; with cron this finding means nothing."},
	"ttl-over-max": {Warning, "These holders block others for longer than the policy permits: their programs have another configuration.",
		"Give all programs the same configuration, and start those anew that have the old one."},
	"ttl-long": {Info, "A crash of a holder blocks the lock for all of that.",
		"Choose a shorter TTL, some seconds to a minute: holders renew it for as long as they live."},
	"grace-short": {Warning, "A step of the leader's clock by more than that lets two hold the lock.",
		"Choose a grace of a second or more, unless the servers' clocks are known to be never stepped."},
	"incomplete": {Warning, "Some of the checks were not made to the end.",
		"See to what the finding names, and run the doctor again."},
}

// find returns a finding with the severity, the meaning and the remedy of the kind id. It panics if
// there is no such kind.
func find(id, what string, args ...any) Finding {
	k, known := kinds[id]
	if !known {
		panic("doctor: unknown finding " + id)
	}
	return Finding{ID: id, Severity: k.Severity, What: fmt.Sprintf(what, args...), Means: k.means, Mend: k.mend}
}
