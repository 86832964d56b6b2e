package txnlog

import "time"

// Txn is one transaction of a ZooKeeper ensemble: what its leader ordered and every server
// applied. All its operations took effect, or, if its only operation is OpError, none.
type Txn struct {
	Zxid    int64
	Time    time.Time // by the leader's clock, in milliseconds
	Session int64     // the session that asked for it, or that began or ended
	Ops     []Op      // one, or those of a multi
	// Disputed: the folders differ here, and do not show whether the transaction took effect. If they
	// have different transactions of this zxid, there is a Txn for each.
	Disputed bool
}

// OpKind is the kind of an operation.
type OpKind int32

// The numbers are ZooKeeper's (ZooDefs.OpCode).
const (
	OpCreate       OpKind = 1 // also create2, createContainer and createTTL
	OpDelete       OpKind = 2 // also deleteContainer
	OpSetData      OpKind = 5
	OpSetACL       OpKind = 7
	OpCheck        OpKind = 13 // in a multi only
	OpReconfig     OpKind = 16
	OpBeginSession OpKind = -10
	OpCloseSession OpKind = -11 // deletes the session's ephemeral nodes, in this transaction
	OpError        OpKind = -1
)

// Op is one operation of a transaction. The fields that its kind does not name are zero.
type Op struct {
	Kind      OpKind
	Path      string // all kinds but OpBeginSession, OpCloseSession and OpError
	Data      []byte // OpCreate, OpSetData, OpReconfig
	Ephemeral bool   // OpCreate: the owner is Txn.Session
	// Version is the node's version after OpSetData and OpReconfig, its ACL's version after
	// OpSetACL, and the version that OpCheck requires of the node.
	Version  int32
	CVersion int32         // OpCreate: the parent's Node.CVersion afterwards
	Timeout  time.Duration // OpBeginSession
	Ended    []string      // OpCloseSession: the ephemeral nodes that it deletes; nil: those of the session, which the log does not name
	Err      int32         // OpError: ZooKeeper's code
}

// Node is one znode of a snapshot or of a State.
type Node struct {
	Path         string
	Data         []byte
	Czxid        int64 // the transaction that created it
	Mzxid        int64 // the last one that wrote its data
	Pzxid        int64 // the last one that created or deleted a child
	Ctime, Mtime time.Time
	Version      int32
	// CVersion counts the children that were ever created. A client's Stat shows twice that, less
	// the number of children.
	CVersion       int32
	EphemeralOwner int64 // 0 if the node is not ephemeral
	Lost           bool  // only Path is known, see [Exact]
}
