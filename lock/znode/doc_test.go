package znode_test

import (
	"fmt"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"log"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/lock/znode"
)

// TestDocsRecords: the nodes' data in the package's doc is valid.
func TestDocsRecords(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	decoded := map[string]int{}
	var p comment.Parser
	for _, block := range p.Parse(file.Doc.Text()).Content {
		code, ok := block.(*comment.Code)
		if !ok || !strings.HasPrefix(code.Text, "{") {
			continue
		}
		data := []byte(code.Text)
		var what string
		switch {
		case strings.Contains(code.Text, `"kind":"anchor"`):
			what = "anchor"
			_, err = znode.DecodeAnchor(data)
		case strings.Contains(code.Text, `"kind":`):
			what = "parent"
			_, err = znode.DecodeParent(data)
		case strings.Contains(code.Text, `"request":`):
			what = "revocation"
			_, err = znode.DecodeRevocation(entry1, data)
		default:
			what = "record"
			_, err = znode.DecodeRecord(data)
		}
		if err != nil {
			t.Errorf("%s of the doc: %v\n%s", what, err, code.Text)
		}
		decoded[what]++
	}
	if decoded["parent"] < 2 || decoded["revocation"] != 1 || decoded["anchor"] != 1 || decoded["record"] != 1 {
		t.Errorf("decoded %v: not all were found", decoded)
	}
}

// A tool reads the children of a lock's node, and prints its holders, and the entry that each
// waiter waits for.
func ExampleWaitsFor() {
	names := znode.Contenders([]string{
		"9f86d081884c7d65-lock-0000000008",
		"9f86d081884c7d65-lock-0000000007",
		"_c_0f1e2d3c4b5a69788796a5b4c3d2e1f0-lock-0000000009", // of another library
		"anchor-9f86d081884c7d65__2147483647",                 // no contender
		"notes",                                               // no contender
	})
	parent, err := znode.DecodeParent([]byte(`{"holdfast":2,"kind":"mutex","generation":"9f86d081884c7d65"}`))
	if err != nil {
		log.Fatal(err)
	}
	rules := znode.Rules{Kind: parent.Kind}
	for i, name := range names {
		if ahead := znode.WaitsFor(names, i, rules); ahead < 0 {
			fmt.Println(name.Seq, "is in")
		} else {
			fmt.Println(name.Seq, "waits for", names[ahead].Seq)
		}
	}
	// Output:
	// 7 is in
	// 8 waits for 7
	// 9 waits for 8
}
