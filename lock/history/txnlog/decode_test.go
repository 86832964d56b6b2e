package txnlog

import (
	"fmt"
	"strings"
	"testing"
)

// TestDecode: records that no golden log has, or that are broken, decode to the operations or to
// the error of the table.
func TestDecode(t *testing.T) {
	acl := str(str(u32(u32(nil, 1), 31), "world"), "anyone")
	path := str(nil, "/a")
	digest := u64(u32(nil, 2), 0x1234567)
	op := func(kind int32, body []byte) []byte { return append(u32(u32(nil, kind), int32(len(body))), body...) }
	join := func(parts ...[]byte) (all []byte) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	for _, test := range []struct {
		name string
		kind int32
		body []byte
		want string // of the operations, or the error
	}{
		{"an ephemeral create", 1, join(str(str(nil, "/a"), "data"), acl, []byte{1}, u32(nil, 7)), "create /a data ephemeral cversion 7"},
		{"a create before 3.4", 1, join(str(str(nil, "/a"), "data"), acl, []byte{1}), "the record ends too early"},
		{"a container", 19, join(str(str(nil, "/a"), "data"), acl, u32(nil, 7)), "create /a data cversion 7"},
		{"a create without data", 1, join(path, u32(nil, -1), acl, []byte{0}, u32(nil, 7)), "create /a  cversion 7"},
		{"a reconfiguration", 16, join(str(str(nil, "/zookeeper/config"), "server.1"), u32(nil, 3)), "kind 16 /zookeeper/config server.1 version 3"},
		{"a container's end", 20, path, "delete /a"},
		{"a node with a TTL", 21, join(str(str(nil, "/a"), ""), acl, u32(nil, 1), u64(nil, 60_000)), "create /a  cversion 1"},
		{"a check", 14, join(u32(nil, 1), op(13, u32(path, 6))), "check /a version 5"},
		{"an empty multi", 14, u32(nil, 0), ""},
		{"a multi that failed", 14, join(u32(nil, 3), op(2, path), op(-1, u32(nil, -101)), op(-1, u32(nil, -2)), digest), "error -101"},
		{"a multi that failed at once", 14, join(u32(nil, 2), op(-1, u32(nil, -4)), op(-1, u32(nil, -2))), "error -4"},
		{"a multi that failed, in the form of old clients", 14, join(u32(nil, 3), op(-1, u32(nil, 0)), op(-1, u32(nil, -101)), op(-1, u32(nil, -2))), "error -101"},
		{"the end of a session before 3.6", -11, nil, "close []"},
		{"the end of a session without paths, with a digest", -11, digest, "close []"},
		{"the end of a session", -11, join(u32(nil, 2), str(str(nil, "/a"), "/b/c"), digest), "close [/a /b/c]"},
		{"the end of a session without nodes", -11, join(u32(nil, 0), digest), "close []"},
		{"the beginning of a session", -10, join(u32(nil, 4000), digest), "begin 4s"},
		{"an unknown type", 77, path, "unknown type 77"},
		{"an unknown type in a multi", 14, join(u32(nil, 1), op(77, path)), "unknown type 77"},
		{"too short", 5, path[:3], "the record ends too early"},
		{"a negative length", 2, u32(nil, -7), "the record ends too early"},
		{"a short multi", 14, join(u32(nil, 2), op(2, path)), "the record ends too early"},
		{"a short operation in a multi", 14, join(u32(nil, 1), op(2, path[:5])), "the record ends too early"},
	} {
		t.Run(test.name, func(t *testing.T) {
			txn, _, err := decodeTxn(record(9, start, test.kind, test.body))
			got := describe(txn)
			if err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
			if err == nil && (txn.Zxid != 9 || !txn.Time.Equal(start) || txn.Session != 0x1000) {
				t.Errorf("transaction %+v", txn)
			}
		})
	}
}

func describe(t Txn) string {
	var all []string
	for _, op := range t.Ops {
		var s string
		switch op.Kind {
		case OpCreate:
			s = fmt.Sprintf("create %s %s", op.Path, op.Data)
			if op.Ephemeral {
				s += " ephemeral"
			}
			s += fmt.Sprintf(" cversion %d", op.CVersion)
		case OpDelete:
			s = "delete " + op.Path
		case OpCheck:
			s = fmt.Sprintf("check %s version %d", op.Path, op.Version)
		case OpError:
			s = fmt.Sprintf("error %d", op.Err)
		case OpBeginSession:
			s = fmt.Sprintf("begin %v", op.Timeout)
		case OpCloseSession:
			s = fmt.Sprintf("close %v", op.Ended)
		default:
			s = fmt.Sprintf("kind %d %s %s version %d", op.Kind, op.Path, op.Data, op.Version)
		}
		all = append(all, s)
	}
	return strings.Join(all, ", ")
}
