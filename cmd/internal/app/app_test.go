package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/localhost"
	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clearEnv clears the environment variables that replace flags.
func clearEnv(t *testing.T) {
	t.Setenv(EnvConfig, "")
	t.Setenv(EnvServers, "")
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	iferr.Fatal(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestLoadPrecedence(t *testing.T) {
	file := write(t, "zookeeper: {servers: [of-file], session_timeout: 7s}\nroot: /of-file\n")
	for name, test := range map[string]struct {
		flags                Flags
		envConfig, envServer string
		servers, root        string
	}{
		"defaults":         {Flags{}, "", "", "127.0.0.1:2181", "/locks"},
		"file":             {Flags{Config: file}, "", "", "of-file:2181", "/of-file"},
		"file of env":      {Flags{}, file, "", "of-file:2181", "/of-file"},
		"flag before env":  {Flags{Config: file}, "/no/such/file", "", "of-file:2181", "/of-file"},
		"env before file":  {Flags{Config: file}, "", "of-env:1, of-env2", "of-env:1 of-env2:2181", "/of-file"},
		"flags before all": {Flags{file, "of-flag", "/of-flag"}, "", "of-env", "of-flag:2181", "/of-flag"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(EnvConfig, test.envConfig)
			t.Setenv(EnvServers, test.envServer)
			cfg, err := test.flags.Load(t.Context())
			iferr.Fatal(t, err)
			if got := strings.Join(cfg.ZooKeeper.Servers, " "); got != test.servers || cfg.Root != test.root {
				t.Errorf("servers %s, root %s; want %s, %s", got, cfg.Root, test.servers, test.root)
			}
			if fromFile := cfg.ZooKeeper.SessionTimeout == 7*time.Second; fromFile != (test.flags.Config+test.envConfig != "") {
				t.Errorf("session timeout %v", cfg.ZooKeeper.SessionTimeout)
			}
		})
	}
}

// TestLoadChoosesARootByItsName: --root may be the name of a root. A node that several roots have, on
// different servers, is refused.
func TestLoadChoosesARootByItsName(t *testing.T) {
	clearEnv(t)
	file := write(t, `roots:
  - {name: east, root: /locks, zookeeper: {servers: [east]}}
  - {name: west, root: /locks, zookeeper: {servers: [west]}}
  - {name: more, root: /more}
`)
	for root, want := range map[string]string{
		"east": "east:2181/locks", "west": "west:2181/locks", "more": "127.0.0.1:2181/more", "/more": "127.0.0.1:2181/more", "/new": "127.0.0.1:2181/new",
	} {
		cfg, err := (&Flags{Config: file, Root: root}).Load(t.Context())
		if err != nil {
			t.Errorf("--root %s: %v", root, err)
		} else if got := cfg.ZooKeeper.Servers[0] + cfg.Root; got != want || cfg.Roots != nil {
			t.Errorf("--root %s: %s, want %s", root, got, want)
		}
	}
	for root, want := range map[string]string{
		"/locks": "--root /locks: is the node of the roots east and west: give the name of one",
		"esat":   "--root esat: must be a node, such as /locks, or the name of a root: east, west, more",
	} {
		_, err := (&Flags{Config: file, Root: root}).Load(t.Context())
		if err == nil || err.Error() != want || Status(t.Context(), err) != StatusUsage {
			t.Errorf("--root %s: %v, want %s", root, err, want)
		}
	}
}

func TestLoadReportsAllMistakes(t *testing.T) {
	clearEnv(t)
	file := write(t, "rot: /x\nlog: {level: loud}\n")
	f := Flags{Config: file, Servers: "a:0,b,c d", Root: "locks"}
	_, err := f.Load(t.Context())
	if Status(t.Context(), err) != StatusUsage {
		t.Fatalf("status %d of %v", Status(t.Context(), err), err)
	}
	for _, want := range []string{
		file + ":1:1: rot: is not a known key", "log.level",
		`--servers "a:0,b,c d": "a:0" must have a port`, `"c d" must be host`,
		`--root: root "locks": must start with a slash`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %q in it", err, want)
		}
	}
}

func TestLoadWithoutFile(t *testing.T) {
	clearEnv(t)
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	for name, f := range map[string]Flags{"--config": {Config: missing}, EnvConfig: {}} {
		if f.Config == "" {
			t.Setenv(EnvConfig, missing)
		}
		_, err := f.Load(t.Context())
		if Status(t.Context(), err) != StatusUsage || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), name+": ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStatus(t *testing.T) {
	interrupted, cancel := context.WithCancelCause(context.Background())
	cancel(Interrupt{syscall.SIGTERM})
	_, wrong := config.Parse("config.yaml", []byte("x: 1"))
	for _, test := range []struct {
		ctx  context.Context
		err  error
		want int
	}{
		{t.Context(), nil, 0},
		{interrupted, nil, 0},
		{t.Context(), errors.New("x"), 1},
		{t.Context(), context.Canceled, 1},
		{interrupted, context.Canceled, 128 + 15},
		{t.Context(), &Exit{7, nil}, 7},
		{interrupted, fmt.Errorf("x: %w", &Exit{75, errors.New("y")}), 75},
		{t.Context(), Usage("x"), 2},
		{t.Context(), fmt.Errorf("x: %w", wrong), 2},
		{t.Context(), fmt.Errorf("x: %w", lock.ErrInvalid), 2},
		{t.Context(), lock.ErrHeld, 1},
	} {
		if got := Status(test.ctx, test.err); got != test.want {
			t.Errorf("Status(%v) = %d, want %d", test.err, got, test.want)
		}
	}
}

func TestRun(t *testing.T) {
	command := func() *cobra.Command {
		cmd := &cobra.Command{Use: "prog", Args: NoArgs, RunE: func(*cobra.Command, []string) error { return nil }}
		cmd.AddCommand(&cobra.Command{
			Use: "fail STATUS", SuggestFor: []string{"crash"}, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				fmt.Fprintln(cmd.OutOrStdout(), "output")
				switch args[0] {
				case "quietly":
					return &Exit{9, nil}
				case "acl":
					return fmt.Errorf("read /a: %w", zk.ErrNoAuth)
				case "denied":
					return fmt.Errorf("create /a: %w", lock.ErrDenied)
				case "quota":
					return overQuota{}
				}
				return errors.New(args[0])
			},
		})
		return cmd
	}
	const hint = "; is zookeeper.auth or zookeeper.sasl in the configuration a user that the ACL there allows? holdfast doctor tells more\n"
	for _, test := range []struct {
		args string
		want int
		out  string
		errs string
	}{
		{"", 0, "", ""},
		{"fail acl", 1, "output\n", "prog: read /a: zk: not authenticated" + hint},
		{"fail denied", 1, "output\n", "prog: create /a: access denied" + hint},
		{"fail quota", 1, "output\n", "prog: a quota is exceeded\n"},
		{"fail badly", 1, "output\n", "prog: badly\n"},
		{"fail quietly", 9, "output\n", ""},
		{"fail", 2, "", "prog: accepts 1 arg(s), received 0\nTry: prog fail --help\n"},
		{"fail x --bogus", 2, "", "prog: unknown flag: --bogus\nTry: prog fail --help\n"},
		{"nonsense", 2, "", "prog: unknown command \"nonsense\" for \"prog\"\nTry: prog --help\n"},
		{"fial x", 2, "", "prog: unknown command \"fial\" for \"prog\"; did you mean fail?\nTry: prog --help\n"},
		{"crash", 2, "", "prog: unknown command \"crash\" for \"prog\"; did you mean fail?\nTry: prog --help\n"},
	} {
		var out, errs bytes.Buffer
		got := Run(t.Context(), command(), strings.Fields(test.args), nil, &out, &errs)
		if got != test.want || out.String() != test.out || errs.String() != test.errs {
			t.Errorf("%q: status %d, output %q, error %q; want %d, %q, %q", test.args, got, &out, &errs, test.want, test.out, test.errs)
		}
	}
}

// TestUnwrittenVersion: a version that cannot be written is a failure, and no bad usage.
func TestUnwrittenVersion(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	iferr.Fatal(t, err)
	out.Close()
	var errs bytes.Buffer
	cmd := &cobra.Command{Use: "prog", Version: "1", RunE: func(*cobra.Command, []string) error { return nil }}
	if got := Run(t.Context(), cmd, []string{"--version"}, nil, out, &errs); got != StatusFailed || strings.Contains(errs.String(), "Try:") {
		t.Errorf("status %d, says %q", got, &errs)
	}
}

// overQuota is an error of a quota: it matches ErrDenied, and no ACL is at fault.
type overQuota struct{}

func (overQuota) Error() string        { return "a quota is exceeded" }
func (overQuota) Is(target error) bool { return target == lock.ErrDenied }

func TestLogger(t *testing.T) {
	for _, test := range []struct {
		cfg  config.Log
		want string
	}{
		{config.Log{Level: "info", Format: "json"}, `"message":"said"`},
		{config.Log{Level: "info", Format: "console"}, "INF said lock=x\n"},
		{config.Log{Level: "warn", Format: "json"}, ""},
	} {
		var b bytes.Buffer
		log := Logger(test.cfg, &b)
		log.Info().Str("lock", "x").Msg("said")
		if got := b.String(); !strings.Contains(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%+v: %q, want %q", test.cfg, got, test.want)
		}
	}
}

func TestDialReportsTheServersTried(t *testing.T) {
	cfg := config.Default()
	cfg.ZooKeeper.Servers, cfg.ZooKeeper.SessionTimeout = []string{localhost.Silent(t)}, 300*time.Millisecond
	_, err := Dial(t.Context(), cfg, zerolog.Nop())
	if !errors.Is(err, lock.ErrUnavailable) || Status(t.Context(), err) != StatusFailed {
		t.Errorf("%v, status %d", err, Status(t.Context(), err))
	}
	for _, want := range []string{"within 300ms", cfg.ZooKeeper.Servers[0], "--servers", EnvServers} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v\nwant %q in it", err, want)
		}
	}

	// Once as a tried server, and once in the dial's error: on a busy machine, too, it is tried in that time.
	cfg.ZooKeeper.Servers, cfg.ZooKeeper.SessionTimeout = []string{"127.0.0.1:1"}, 3*time.Second
	_, err = Dial(t.Context(), cfg, zerolog.Nop())
	if n := strings.Count(fmt.Sprint(err), cfg.ZooKeeper.Servers[0]); n != 2 {
		t.Errorf("%v\nnames the server %d times, want 2", err, n)
	}

	cfg.ZooKeeper.Servers = []string{"no-such-host.invalid:2181"}
	_, err = Dial(t.Context(), cfg, zerolog.Nop())
	if !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(err.Error(), "no-such-host.invalid") {
		t.Error(err)
	}
}

func TestDialInterrupted(t *testing.T) {
	cfg := config.Default()
	cfg.ZooKeeper.Servers = []string{localhost.Silent(t)}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(Interrupt{syscall.SIGINT})
	_, err := Dial(ctx, cfg, zerolog.Nop())
	if errors.Is(err, lock.ErrUnavailable) || Status(ctx, err) != 128+2 {
		t.Errorf("%v, status %d", err, Status(ctx, err))
	}
}

func TestDialWithoutPassword(t *testing.T) {
	cfg := config.Default()
	cfg.ZooKeeper.Auth = &config.Auth{Scheme: "digest", User: "u", PasswordEnv: "HOLDFAST_TEST_UNSET"}
	_, err := Dial(t.Context(), cfg, zerolog.Nop())
	if Status(t.Context(), err) != StatusUsage || !strings.Contains(err.Error(), "zookeeper.auth.password_env") || strings.Contains(err.Error(), "HOLDFAST_TEST_UNSET") {
		t.Error(err)
	}
}

// TestVersion: release and commit, set by the linker, take precedence over what Go has recorded.
func TestVersion(t *testing.T) {
	defer func() { release, commit = "", "" }()
	for _, c := range []struct{ version, revision, modified, release, commit, want string }{
		{"v1.2.3", "0123456789abcdef0123", "", "", "", "v1.2.3, go1.25.0 linux/amd64"},
		{"(devel)", "", "", "", "", "(devel), go1.25.0 linux/amd64"},
		{"", "0123456789abcdef0123", "", "", "", "(devel) 0123456789ab, go1.25.0 linux/amd64"},
		{"", "0123456789abcdef0123", "true", "", "", "(devel) 0123456789ab with changes, go1.25.0 linux/amd64"},
		{"", "fedcba9876543210", "true", "v1.2.3", "0123456789abcdef", "v1.2.3 0123456789ab, go1.25.0 linux/amd64"},
	} {
		info := &debug.BuildInfo{GoVersion: "go1.25.0", Main: debug.Module{Version: c.version}, Settings: []debug.BuildSetting{
			{Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "amd64"}, {Key: "vcs.revision", Value: c.revision}, {Key: "vcs.modified", Value: c.modified},
		}}
		release, commit = c.release, c.commit
		if got := build(info); got.String() != c.want || commit != "" && (got.Modified || got.Commit != commit) {
			t.Errorf("%+v: %q, %+v", c, got, got)
		}
	}
}

func TestFlagsMustNotBeEmpty(t *testing.T) {
	for _, name := range []string{"--config", "--servers", "--root"} {
		set := pflag.NewFlagSet("test", pflag.ContinueOnError)
		new(Flags).Add(set)
		if err := set.Parse([]string{name, ""}); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "must not be empty") {
			t.Errorf("%s \"\": %v", name, err)
		}
		if err := set.Parse([]string{name, "x"}); err != nil || set.Lookup(name[2:]).Value.String() != "x" {
			t.Errorf("%s x: %v", name, err)
		}
	}
}
