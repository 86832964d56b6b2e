package lock

import (
	"slices"

	"github.com/go-zookeeper/zk"
)

// Op is an operation of a [Hold.Txn]. Make it with [OpCreate], [OpSet], [OpDelete] or
// [OpCheck]. An Op does not change, and has copies of the given data and ACL. It can be part of any
// number of transactions.
type Op struct {
	request any // the request to send; nil in the zero Op
	path    string
	size    int   // size in bytes, as MaxTxn counts
	flags   int32 // flags of an OpCreate
}

// OpCreate creates a node. Its flags are 0, [zk.FlagEphemeral], [zk.FlagSequence], or both.
func OpCreate(path string, data []byte, flags int32, acl []zk.ACL) Op {
	r := &zk.CreateRequest{Path: path, Data: slices.Clone(data), Acl: slices.Clone(acl), Flags: flags}
	op := newOp(r, path, data)
	op.flags = flags
	for _, a := range acl {
		op.size += len(a.Scheme) + len(a.ID) + 12
	}
	return op
}

// OpSet sets a node's data. The transaction is refused unless the node exists with that version; -1
// means any version.
func OpSet(path string, data []byte, version int32) Op {
	return newOp(&zk.SetDataRequest{Path: path, Data: slices.Clone(data), Version: version}, path, data)
}

// OpDelete deletes a node. The transaction is refused unless the node exists with that version, and
// has no children; version -1 means any version.
func OpDelete(path string, version int32) Op {
	return newOp(&zk.DeleteRequest{Path: path, Version: version}, path, nil)
}

// OpCheck changes nothing. The transaction is refused unless the node exists with that version;
// -1 means any version.
func OpCheck(path string, version int32) Op {
	return newOp(&zk.CheckVersionRequest{Path: path, Version: version}, path, nil)
}

func newOp(request any, path string, data []byte) Op {
	return Op{request: request, path: path, size: len(path) + len(data) + 64}
}
