package lock

import "github.com/holdfast-io/holdfast/lock/znode"

// Largest numbers and sizes. Those of times are beside [DefaultTTL].
const (
	// MaxAll is the number of locks in one [All]: their entries must fit into one transaction.
	MaxAll = 64
	// MaxAny is the number of locks in one [Any]: a waiter has an entry in each queue.
	MaxAny = 64
	// MaxPermits is the number of permits of a semaphore.
	MaxPermits = znode.MaxPermits
	// MaxPriority is the priority of a candidate, see [Election.WithPriority].
	MaxPriority = znode.MaxPermits
	// MaxReason is the size of a [Client.Revoke]'s reason, in bytes.
	MaxReason = znode.MaxReason
	// MaxTxn is the total size of a [Hold.Txn]'s operations: the bytes of their paths, data and ACLs,
	// and 64 more for each operation. ZooKeeper cuts connections that send about 1 MB at once, or less
	// if jute.maxbuffer is lower.
	MaxTxn = 768 << 10
)
