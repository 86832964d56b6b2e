package deploy

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

func read(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	iferr.Fatal(t, err)
	return string(data)
}

// TestDockerfile: the Dockerfile's build command makes static binaries that have time zones and say
// their version. The image's base is empty, and its user is not root.
func TestDockerfile(t *testing.T) {
	file := read(t, folder, "Dockerfile")
	stages := regexp.MustCompile(`(?m)^FROM `).Split(file, -1)
	final := stages[len(stages)-1]
	if !strings.HasPrefix(final, "scratch\n") {
		t.Errorf("the image comes from %q", final)
	}
	user := regexp.MustCompile(`(?m)^USER (\d+):(\d+)$`).FindStringSubmatch(final)
	if user == nil || user[1] == "0" || user[2] == "0" {
		t.Errorf("user %q: must be a number, for Kubernetes to see that it is not root", user)
	}
	if wants := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../../go.mod"))[1]; !strings.Contains(file, " golang:"+wants+" ") {
		t.Errorf("go.mod asks for Go %s", wants)
	}
	build := regexp.MustCompile(`(?m)^RUN (CGO_ENABLED=0 .*)$`).FindStringSubmatch(file)
	app := regexp.MustCompile(`(?m)^ENV APP=(.*)$`).FindStringSubmatch(file)
	if build == nil || app == nil {
		t.Fatal("no command that builds without cgo, or no package for the version")
	}
	bin := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(build[1], "-o /bin/ ", "-buildvcs=false -o "+bin+"/ ", 1))
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "TARGETOS=linux", "TARGETARCH=", "APP="+app[1], "RELEASE=v1.2.3", "COMMIT=0123456789abcdef")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build[1], err, out)
	}
	for name, version := range map[string]string{"holdfast": "version", "reaper": "--version"} {
		if !strings.Contains(final, "/bin/"+name) {
			t.Errorf("the image has no %s", name)
		}
		binary := filepath.Join(bin, name)
		checkStatic(t, binary)
		if runtime.GOOS != "linux" {
			continue
		}
		if out, err := exec.CommandContext(t.Context(), binary, version).CombinedOutput(); err != nil || !strings.Contains(string(out), " v1.2.3 0123456789ab, ") {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

// checkStatic: a binary needs no library and no loader, and has time zones.
func checkStatic(t *testing.T, binary string) {
	t.Helper()
	f, err := elf.Open(binary)
	iferr.Fatal(t, err)
	defer f.Close()
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC }) {
		t.Errorf("%s is not static", binary)
	}
	if libraries, err := f.ImportedLibraries(); err == nil && len(libraries) > 0 {
		t.Errorf("%s needs %q", binary, libraries)
	}
	if !strings.Contains(read(t, binary), "Pacific/Kiritimati") {
		t.Errorf("%s has no time zones", binary)
	}
}

// directives has the keys that the units may use, by section.
var directives = map[string]string{
	"Unit":    "Description Documentation Wants After",
	"Timer":   "OnBootSec OnUnitInactiveSec RandomizedDelaySec",
	"Install": "WantedBy",
	"Service": "Type ExecStart ExecReload Restart RestartSec RestartPreventExitStatus SuccessExitStatus TimeoutStartSec TimeoutStopSec LoadCredential DynamicUser UMask MemoryMax " +
		"CapabilityBoundingSet AmbientCapabilities NoNewPrivileges ProtectSystem ProtectHome ProtectClock ProtectControlGroups ProtectHostname ProtectKernelLogs " +
		"ProtectKernelModules ProtectKernelTunables ProtectProc PrivateDevices PrivateTmp LockPersonality MemoryDenyWriteExecute RestrictAddressFamilies " +
		"RestrictNamespaces RestrictRealtime RestrictSUIDSGID SystemCallArchitectures SystemCallFilter SystemCallErrorNumber",
}

// TestUnits: the units use only known keys. If systemd-analyze is installed, it accepts the units.
func TestUnits(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(folder, "systemd", "*"))
	if err != nil || len(paths) != 3 {
		t.Fatalf("%q, %v", paths, err)
	}
	verify := []string{"verify", "--man=no"}
	copies := t.TempDir()
	for _, path := range paths {
		text := read(t, path)
		section := ""
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#Load"))
			key, _, pair := strings.Cut(line, "=")
			switch {
			case line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "Credential="):
			case strings.HasPrefix(line, "["):
				section = strings.Trim(line, "[]")
			case !pair || !slices.Contains(strings.Fields(directives[section]), key):
				t.Errorf("%s: [%s] has no %q", path, section, line)
			}
		}
		copied := filepath.Join(copies, filepath.Base(path))
		text = strings.ReplaceAll(text, "/usr/local/bin/reaper", "/bin/true") // systemd-analyze checks that the program exists
		iferr.Fatal(t, os.WriteFile(copied, []byte(text), 0o644))
		verify = append(verify, copied)
	}
	if _, err := os.Stat(filepath.Join(folder, "systemd", "holdfast-reaper-once.service")); err != nil {
		t.Errorf("what the timer starts: %v", err)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Logf("no systemd-analyze here: its part is left out: %v", err)
		return
	}
	if out, err := exec.CommandContext(t.Context(), analyze, verify...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze: %v\n%s", err, out)
	}
}
