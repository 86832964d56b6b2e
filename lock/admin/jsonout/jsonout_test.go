package jsonout

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

type embedded struct{ Names []string }

type document struct {
	embedded
	Time   time.Time
	Lists  [][]int
	Map    map[string][]string
	Any    any
	Inner  *document `json:",omitempty"`
	Left   []int     `json:",omitempty"`
	Fixed  [1][]int
	hidden []int
}

// TestNoNull: no list and no map is null, at any depth. The encoded value is not changed.
func TestNoNull(t *testing.T) {
	inner := &document{Lists: [][]int{nil, {1}}, Map: map[string][]string{"a": nil}, Any: []*document{}}
	doc := document{Inner: inner, Any: []string(nil)}
	var b strings.Builder
	iferr.Fatal(t, Line(&b, doc, true))
	const want = `{"Names":[],"Time":"0001-01-01T00:00:00Z","Lists":[],"Map":{},"Any":[],` +
		`"Inner":{"Names":[],"Time":"0001-01-01T00:00:00Z","Lists":[[],[1]],"Map":{"a":[]},"Any":[],"Fixed":[[]]},"Fixed":[[]]}` + "\n"
	if b.String() != want {
		t.Errorf("%s, want %s", &b, want)
	}
	if inner.Names != nil || inner.Lists[0] != nil || inner.Map["a"] != nil || doc.hidden != nil {
		t.Error("the value was changed")
	}
}

// TestOnlyHere: the commands and the reaper's pages encode JSON by this package only.
func TestOnlyHere(t *testing.T) {
	for _, folder := range []string{"../../../cmd", "../../../reaper"} {
		err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, other := range []string{"json.NewEncoder", "json.Marshal"} {
				if strings.Contains(string(text), other) {
					t.Errorf("%s uses %s: a list without elements would be null", path, other)
				}
			}
			return err
		})
		iferr.Error(t, err)
	}
}
