package app

import (
	"runtime/debug"
	"testing"
)

// TestRelease: release and commit, set by the linker, take precedence over what Go has recorded.
func TestRelease(t *testing.T) {
	defer func() { release, commit = "", "" }()
	info := &debug.BuildInfo{GoVersion: "go1.25.0", Settings: []debug.BuildSetting{
		{Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "amd64"}, {Key: "vcs.revision", Value: "fedcba9876543210"}, {Key: "vcs.modified", Value: "true"},
	}}
	if got, want := build(info).String(), "(devel) fedcba987654 with changes, go1.25.0 linux/amd64"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	release, commit = "v1.2.3", "0123456789abcdef"
	if got, want := build(info).String(), "v1.2.3 0123456789ab, go1.25.0 linux/amd64"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if b := build(info); b.Modified || b.Commit != commit {
		t.Errorf("%+v", b)
	}
}
