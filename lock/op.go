package lock

import (
	"slices"

	"github.com/go-zookeeper/zk"
)

// Op is an operation of a [Hold.Txn]. [OpCreate], [OpSet], [OpDelete], [OpCheck] and [OpHeld]
// make them. An Op does not change, also if the data or ACL that it was made with do, and can
// be in any number of transactions.
type Op struct {
	request any // what is sent; nil: the zero Op
	path    string
	size    int
	flags   int32 // of a create
	hold    *Hold // that an OpHeld is about
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

// OpSet sets a node's data, if the node has that version; -1 is any.
func OpSet(path string, data []byte, version int32) Op {
	return newOp(&zk.SetDataRequest{Path: path, Data: slices.Clone(data), Version: version}, path, data)
}

// OpDelete deletes a node that has no children, if the node has that version; -1 is any.
func OpDelete(path string, version int32) Op {
	return newOp(&zk.DeleteRequest{Path: path, Version: version}, path, nil)
}

// OpCheck changes nothing, and has the transaction refused unless the node is there and has
// that version; -1 is any.
func OpCheck(path string, version int32) Op {
	return newOp(&zk.CheckVersionRequest{Path: path, Version: version}, path, nil)
}

// OpHeld has the transaction refused unless another hold of the same client lasts. That hold is
// not handed off within its client any more. It must not be that of a reader that shares its
// entry with others ([WithLocalWindow]).
func OpHeld(other *Hold) Op {
	if other == nil {
		return Op{}
	}
	op := OpCheck(other.e.Path, -1)
	op.hold = other
	return op
}

func newOp(request any, path string, data []byte) Op {
	return Op{request: request, path: path, size: len(path) + len(data) + 64}
}
