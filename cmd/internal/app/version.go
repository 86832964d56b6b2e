package app

import (
	"cmp"
	"fmt"
	"runtime/debug"
)

// release and commit are for builds where Go does not know them, for example from an archive:
//
//	go build -ldflags "-X github.com/holdfast-io/holdfast/cmd/internal/app.release=v1.2.3
//	    -X github.com/holdfast-io/holdfast/cmd/internal/app.commit=0123456789abcdef"
var release, commit string

// Build describes the program's source and tools.
type Build struct {
	Version  string `json:"version"`          // the module's version; "(devel)" if there is none
	Commit   string `json:"commit,omitempty"` // "" if unknown
	Modified bool   `json:"modified"`         // there were uncommitted changes
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// ReadBuild returns the description of this program's build.
func ReadBuild() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Build{Version: cmp.Or(release, "unknown"), Commit: commit}
	}
	return build(info)
}

func build(info *debug.BuildInfo) Build {
	setting := map[string]string{}
	for _, s := range info.Settings {
		setting[s.Key] = s.Value
	}
	return Build{
		Version: cmp.Or(release, info.Main.Version, "(devel)"), Commit: cmp.Or(commit, setting["vcs.revision"]),
		Modified: commit == "" && setting["vcs.modified"] == "true", Go: info.GoVersion, OS: setting["GOOS"], Arch: setting["GOARCH"],
	}
}

// Version returns the version of the program and the description of its build.
func Version() string { return ReadBuild().String() }

// String returns the build in one line.
func (b Build) String() string {
	v := b.Version
	// A version that Go derived from the commit already contains it.
	if b.Commit != "" && (v == "(devel)" || v == release) {
		v += " " + b.Commit[:min(12, len(b.Commit))]
		if b.Modified {
			v += " with changes"
		}
	}
	if b.Go == "" {
		return v
	}
	return fmt.Sprintf("%s, %s %s/%s", v, b.Go, b.OS, b.Arch)
}
