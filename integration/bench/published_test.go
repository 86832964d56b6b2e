package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// TestPublished: the tables and charts in the repository are those of the published results, which
// are written as they are read.
func TestPublished(t *testing.T) {
	r, err := loadFile(resultsFile)
	iferr.Fatal(t, err)
	published, err := os.ReadFile(resultsFile)
	iferr.Fatal(t, err)
	var again bytes.Buffer
	if err := r.save(&again); err != nil || !bytes.Equal(again.Bytes(), published) {
		t.Errorf("%s becomes another text when it is written: %v", resultsFile, err)
	}
	text, err := os.ReadFile(document)
	iferr.Fatal(t, err)
	if updated, err := r.updated("."); err != nil || updated != string(text) {
		t.Errorf("%s does not show what is in %s (%v): run make charts", document, resultsFile, err)
	}
	charts := r.charts()
	if len(charts) == 0 {
		t.Fatal("no charts")
	}
	for _, c := range charts {
		if svg, err := os.ReadFile(filepath.Join(chartsDir, c.file)); err != nil || !bytes.Equal(svg, c.svg()) {
			t.Errorf("%s does not show what is in %s (%v): run make charts", c.file, resultsFile, err)
		}
	}
}
