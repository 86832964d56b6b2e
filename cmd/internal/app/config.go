package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/kerberos"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Environment variables that replace flags.
const (
	EnvConfig  = "HOLDFAST_CONFIG"
	EnvServers = "HOLDFAST_ZOOKEEPER"
)

// Flags are the flags of all commands. "" means that the flag was not given: an empty value is
// refused.
type Flags struct {
	Config  string
	Servers string
	Root    string
}

// Add adds the flags to a set.
func (f *Flags) Add(set *pflag.FlagSet) {
	set.Var(Given(&f.Config), "config", "configuration `file` (default $"+EnvConfig+", or none)")
	set.Var(Given(&f.Servers), "servers", "ZooKeeper servers, `host:port,...` (default $"+EnvServers+", or as configured)")
	set.Var(Given(&f.Root), "root", "`node` below which the locks are, or the name of one of the configuration's roots (default as configured, or "+lock.DefaultRoot+")")
}

// Parsed is the value of a flag that parse converts or refuses. Its present value is the default.
type Parsed[T any] struct {
	to    *T
	parse func(string) (T, error)
}

// Parse returns the value of a flag that parse converts to to.
func Parse[T any](to *T, parse func(string) (T, error)) *Parsed[T] { return &Parsed[T]{to, parse} }

// Given returns the value of a flag that must not be empty: if a script's variable is unset, a reaper
// must not use the default servers and root.
func Given(to *string) *Parsed[string] {
	return Parse(to, func(text string) (string, error) {
		if text == "" {
			return "", errors.New("must not be empty")
		}
		return text, nil
	})
}

func (p *Parsed[T]) String() string {
	if p.to == nil { // of a zero value, which is made for the usage
		return ""
	}
	return fmt.Sprint(*p.to)
}

// Type returns the value's name in the usage, for a flag whose usage names none in backquotes.
func (p *Parsed[T]) Type() string { return "string" }

func (p *Parsed[T]) Set(text string) error {
	value, err := p.parse(text)
	if err != nil { // the flag's error names it as invalid
		return errors.New(strings.TrimPrefix(err.Error(), lock.ErrInvalid.Error()+": "))
	}
	*p.to = value
	return nil
}

// File returns the name of the configuration file; "" for none.
func (f *Flags) File() string {
	file, _ := first(f.Config, "--config", EnvConfig)
	return file
}

// Load returns the configuration from the flags, the environment and the file. If there are
// mistakes, the error is an [Exit] with StatusUsage and all of them. If ctx ends first, for
// example while the file is a pipe without a writer, the error wraps ctx's cause.
func (f *Flags) Load(ctx context.Context) (*config.Config, error) {
	cfg := config.Default()
	var wrong []error
	file, from := first(f.Config, "--config", EnvConfig)
	switch {
	case file == "" && IsTerminal(os.Stderr):
		cfg.Log.Format = "console"
	case file != "":
		loaded, err := LoadFile(ctx, file)
		var mistakes *config.Error
		switch {
		case err == nil:
			cfg = loaded
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%s: reading %s: %w", from, file, err)
		case errors.As(err, &mistakes):
			wrong = append(wrong, fmt.Errorf("the configuration has mistakes:\n%w", err))
		default:
			wrong = append(wrong, fmt.Errorf("%s: %w", from, err))
		}
	}
	if f.Root != "" {
		chosen, err := choose(cfg, f.Root)
		if err != nil {
			wrong = append(wrong, err)
		} else {
			cfg = chosen
		}
	}
	if list, from := first(f.Servers, "--servers", EnvServers); list != "" {
		cfg.ZooKeeper.Servers = nil
		for s := range strings.SplitSeq(list, ",") {
			server, err := config.ParseServer(strings.TrimSpace(s))
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%s %q: %q %w", from, config.ShowServer(list), config.ShowServer(s), err))
			}
			cfg.ZooKeeper.Servers = append(cfg.ZooKeeper.Servers, server)
		}
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, &Exit{StatusUsage, err}
	}
	return cfg, nil
}

// choose returns the configuration of the root with the given name or node, with the root's servers and
// credentials; for any other node, the file's configuration with this node as the root. A node that
// several roots have, on different servers, is an error.
func choose(cfg *config.Config, root string) (*config.Config, error) {
	var same, names []string
	for _, n := range cfg.Each() {
		names = append(names, n.Name)
		switch {
		case n.Name == root && !strings.HasPrefix(root, "/"): // root is a name, not a node
			return n.Config, nil
		case n.Name != "" && n.Root == root:
			same = append(same, n.Name)
		}
	}
	if len(same) > 1 {
		return nil, fmt.Errorf("--root %s: is the node of the roots %s: give the name of one", root, strings.Join(same, " and "))
	}
	if len(cfg.Roots) > 0 && !strings.HasPrefix(root, "/") {
		return nil, fmt.Errorf("--root %s: must be a node, such as %s, or the name of a root: %s", root, lock.DefaultRoot, strings.Join(names, ", "))
	}
	if err := znode.CheckRoot(root); err != nil {
		return nil, fmt.Errorf("--root: %w", err)
	}
	return cfg.Select(root), nil
}

// LoadFile reads a configuration file, unless ctx ends first.
func LoadFile(ctx context.Context, file string) (*config.Config, error) {
	return Read(ctx, func() (*config.Config, error) { return config.Load(file) })
}

// Read returns the results of read. If ctx ends first, the error is ctx's cause, and the goroutine that
// reads is left behind: the open of a pipe, or a read from a terminal, cannot be canceled.
func Read[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := read()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// first returns the value of a flag, or of the environment variable that replaces it, and the
// name of the one that was used.
func first(flag, name, variable string) (value, from string) {
	if flag != "" {
		return flag, name
	}
	return os.Getenv(variable), variable
}

// Logger returns the logger of the configuration.
func Logger(cfg config.Log, to io.Writer) zerolog.Logger {
	if cfg.Format == "console" {
		to = zerolog.ConsoleWriter{Out: to, NoColor: !IsTerminal(to), TimeFormat: time.TimeOnly}
	}
	level, err := zerolog.ParseLevel(cfg.Level)
	if err != nil {
		panic(err) // config.Load checks the level
	}
	return zerolog.New(to).Level(level).With().Timestamp().Logger()
}

// IsTerminal reports whether w, an *os.File or an [Aside], is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && isatty.IsTerminal(f.Fd())
}

// TellRoots logs a warning if a configuration has roots and none of them is chosen. Otherwise a command
// without --root could show no locks although there are many.
func TellRoots(cfg *config.Config, log zerolog.Logger) {
	if len(cfg.Roots) == 0 {
		return
	}
	var others []string
	for _, r := range cfg.Roots {
		others = append(others, r.Name+" at "+r.Root)
	}
	log.Warn().Str("root", cfg.Root).Strs("roots", others).Msg("the configuration has roots that this does not look at: --root chooses one")
}

// Options returns the client options of the configuration, with Kerberos if it is configured.
func Options(ctx context.Context, cfg *config.Config) ([]lock.Option, error) {
	return cfg.Options(ctx, kerberos.FromConfig)
}

// Dial connects a client with the configuration; further options take precedence. It waits for a
// session for at most the session timeout, or until ctx ends. An error that matches
// [lock.ErrUnavailable] names the servers that were tried.
func Dial(ctx context.Context, cfg *config.Config, log zerolog.Logger, opts ...lock.Option) (*lock.Client, error) {
	TellRoots(cfg, log)
	z := cfg.ZooKeeper
	configured, err := Options(ctx, cfg)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("connecting to ZooKeeper: %w", err)
	case err != nil:
		return nil, &Exit{StatusUsage, err}
	}
	all := slices.Concat(configured, []lock.Option{lock.WithLogger(log)}, opts)
	limited, cancel := context.WithTimeout(ctx, z.SessionTimeout)
	defer cancel()
	deadline, _ := limited.Deadline()
	within := time.Until(deadline).Round(100 * time.Millisecond)
	client, err := lock.Dial(limited, z.Servers, all...)
	switch {
	case err == nil:
		return client, nil
	case errors.Is(err, lock.ErrInvalid), errors.Is(err, lock.ErrUnsupported), errors.Is(err, lock.ErrDenied):
		return nil, err
	case errors.Is(err, context.DeadlineExceeded):
		var unreached interface{ LastFailure() error }
		tried := errors.As(err, &unreached)
		err = fmt.Errorf("no session with ZooKeeper within %v, tried %s", within, strings.Join(z.Servers, ", "))
		if tried {
			err = fmt.Errorf("%w; last failure: %w", err, unreached.LastFailure())
		} else {
			err = fmt.Errorf("%w: no answer so far", err)
		}
	case ctx.Err() != nil:
		return nil, fmt.Errorf("connecting to ZooKeeper: %w", context.Cause(ctx))
	}
	return nil, &Unreachable{err}
}

// Unreachable is the error of [Dial] if there was no session. Its text ends with advice for the
// command line. The text of the wrapped error has no advice.
type Unreachable struct{ error }

func (e *Unreachable) Error() string {
	if errors.Is(e.error, lock.ErrSASL) {
		return e.error.Error() // a server answered: the advice would not help
	}
	return e.error.Error() + "\n" +
		"Is a server running there, and can it be reached from here?\n" +
		"Name others with --servers, " + EnvServers + " or zookeeper.servers in the configuration."
}

func (e *Unreachable) Unwrap() error { return e.error }

// Is reports whether the target is [lock.ErrUnavailable]. The wrapped error need not match it.
func (e *Unreachable) Is(target error) bool { return target == lock.ErrUnavailable }
