package zkserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-io/holdfast/integration/wait"
)

const (
	startTimeout = 5 * time.Minute       // limit of a server's start: minutes on a slow machine
	stopTimeout  = 2 * time.Minute       // time from SIGTERM to SIGKILL
	pollInterval = 20 * time.Millisecond // interval of checks of a server that is not ready
	tailLines    = 20                    // lines of the log in an error
)

// Options are the settings of a server. The zero value suits tests.
type Options struct {
	// TickTime is ZooKeeper's unit of time, in whole milliseconds; default 500 ms.
	TickTime time.Duration
	// MaxSessionTimeout is the longest session timeout for clients, in whole milliseconds. The
	// default is a minute: on a busy machine a session needs a long timeout to survive.
	MaxSessionTimeout time.Duration
	// Fsync makes the server sync its log to disk before it answers, as in production. Without it,
	// a killed server loses nothing; only a crashed machine does.
	Fsync bool
	// Optimize lets the JVM compile frequent code for speed, as in production. Without it, servers
	// start sooner, and leave more of the processor to the tests.
	Optimize bool
	// HeapMB is the JVM's largest heap in MiB; default 256.
	HeapMB int
	// Config has further lines of zoo.cfg. They come last, so they take precedence.
	Config []string
	// JVMArgs has further arguments for java. They come last, so they take precedence.
	JVMArgs []string
	// Env has further environment variables, as in os/exec.
	Env []string
	// Installation is the ZooKeeper to run; default that of [Find].
	Installation Installation

	// Links connects the members of an ensemble through relays, so that [Ensemble.Part] can
	// partition them.
	Links bool
	// Reconfig allows [Ensemble.Add] and [Ensemble.Remove]. It needs ZooKeeper 3.5, and excludes Links.
	Reconfig bool
	// MemberEnv has further environment variables of single members of an ensemble, by index.
	MemberEnv [][]string
}

// withDefaults sets the defaults, except for the installation.
func (o Options) withDefaults() Options {
	o.TickTime = cmp.Or(o.TickTime, 500*time.Millisecond)
	o.MaxSessionTimeout = cmp.Or(o.MaxSessionTimeout, time.Minute)
	o.HeapMB = cmp.Or(o.HeapMB, 256)
	return o
}

// config returns zoo.cfg for a server with its data in dir.
func (o Options) config(dir string, port int) []string {
	lines := []string{
		fmt.Sprintf("tickTime=%d", o.TickTime.Milliseconds()),
		"dataDir=" + filepath.Join(dir, "data"),
		"maxClientCnxns=0",
		"admin.enableServer=false",
		"4lw.commands.whitelist=*",
		fmt.Sprintf("maxSessionTimeout=%d", o.MaxSessionTimeout.Milliseconds()),
	}
	if !o.Fsync {
		lines = append(lines, "forceSync=no")
	}
	if o.Reconfig { // then the list of members has the client ports
		return append(lines, "reconfigEnabled=true", "DigestAuthenticationProvider.superDigest="+superDigest)
	}
	return append(lines, "clientPortAddress=127.0.0.1", fmt.Sprintf("clientPort=%d", port))
}

// jvmArgs returns the arguments for java that come before the program.
func (o Options) jvmArgs() []string {
	args := []string{
		fmt.Sprintf("-Xmx%dm", o.HeapMB),
		"-XX:+UseSerialGC", // starts sooner on few cores
		"-XX:-UsePerfData", // with it, a killed server leaves a file behind
		"-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
	}
	if !o.Optimize {
		args = append(args, "-XX:TieredStopAtLevel=1")
	}
	return append(args, o.JVMArgs...)
}

// Server is a ZooKeeper server, running or not.
type Server struct {
	addr    string
	dir     string // folder of zoo.cfg, data and server.log
	member  member // its line in an ensemble's list
	command func() *exec.Cmd

	mu      sync.Mutex
	proc    *Process // nil while it does not run
	paused  bool
	closed  bool // Stop was called
	audited bool // Stop audits its log
}

// Start starts a server and waits until it answers. The context limits only the start; Stop ends
// the server.
func Start(ctx context.Context, opts Options) (*Server, error) {
	e, err := StartEnsemble(ctx, 1, opts)
	if err != nil {
		return nil, err
	}
	return e.servers[0], nil
}

// newServer creates a server's folder, ready for the start. The extra lines of zoo.cfg come before
// those of the options.
func newServer(opts Options, port int, extra ...string) (*Server, error) {
	dir, err := os.MkdirTemp("", "holdfast-zookeeper-")
	if err != nil {
		return nil, err
	}
	s := &Server{addr: loopback(port), dir: dir}
	live.Store(s, nil)
	config := slices.Concat(opts.config(dir, port), extra, opts.Config)
	configFile := filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(configFile, []byte(strings.Join(config, "\n")+"\n"), 0o600); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	args := slices.Concat(
		[]string{"-cp", opts.Installation.ClassPath},
		opts.jvmArgs(),
		[]string{"org.apache.zookeeper.server.quorum.QuorumPeerMain", configFile},
	)
	s.command = func() *exec.Cmd {
		cmd := exec.Command(opts.Installation.Java, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), opts.Env...)
		return cmd
	}
	return s, nil
}

// Addr returns the address for clients, 127.0.0.1:port. It never changes.
func (s *Server) Addr() string { return s.addr }

// DataDir returns the folder with the snapshots and transaction logs. It may be changed while the
// server is stopped, and is deleted by Stop.
func (s *Server) DataDir() string { return filepath.Join(s.dir, "data", "version-2") }

// Pid returns the id of the server's process; 0 while it is stopped.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return 0
	}
	return s.proc.Pid()
}

// Restart stops the server if it runs, starts it with the same data on the same port, and waits
// until it answers. A member of an ensemble answers only if there is a quorum, so restart members
// concurrently after its loss.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		_ = s.proc.Stop(syscall.SIGTERM, stopTimeout)
		s.proc = nil
	}
	if err := s.launch(); err != nil {
		return err
	}
	if err := s.awaitServing(ctx); err != nil {
		s.proc.Kill()
		s.proc = nil
		return err
	}
	return nil
}

// launch starts the server's process. The caller holds mu.
func (s *Server) launch() error {
	if s.closed {
		return fmt.Errorf("zkserver: server %s was stopped, its data is gone", s.addr)
	}
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := s.command()
	cmd.Stdout, cmd.Stderr = log, log
	s.paused = false
	s.proc, err = StartProcess(cmd)
	return err
}

// awaitServing waits until the server answers clients. The caller holds mu.
func (s *Server) awaitServing(ctx context.Context) error {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		// Another server may have the port and answer, so the answer must have the folder of this
		// server. A starting server may leave the connection open forever, so each query has a
		// timeout, which grows because the machine may be slow.
		patience, done := context.WithTimeout(ctx, 100*time.Millisecond+time.Since(start)/2)
		conf, err := fourLetter(patience, s.addr, "conf")
		done()
		if err == nil && strings.Contains(conf, "dataDir="+s.dir) {
			return nil
		}
		select {
		case <-s.proc.exited:
			return fmt.Errorf("zkserver: server %s did not start: %v; the end of its log:\n%s", s.addr, s.proc.err, s.LogTail(tailLines))
		case <-ctx.Done():
			return fmt.Errorf("zkserver: server %s does not serve: %w (last answer %q, %v); the end of its log:\n%s",
				s.addr, context.Cause(ctx), conf, err, s.LogTail(tailLines))
		case <-time.After(pollInterval):
		}
	}
}

// Stop stops the server and removes its folder. It kills a server that does not end in two minutes.
// It audits the log of a server of [ForTest], [EnsembleForTest] or [StartAny]. The error says that
// the server had ended before or had to be killed, that the folder still exists, or what the audit
// found. The server has ended in any case. A second Stop does nothing.
func (s *Server) Stop() error { return stopServers([]*Server{s}) }

// stopServers stops all servers of an ensemble, audits the logs of those that are marked for it, and
// removes their folders.
func stopServers(servers []*Server) error {
	diverge := mayDiverge(servers)
	err := wait.All(len(servers), func(i int) error { return servers[i].end() })
	var dirs []string
	for _, s := range servers {
		s.mu.Lock()
		if s.audited {
			dirs = append(dirs, s.DataDir())
		}
		s.audited = false
		s.mu.Unlock()
	}
	err = errors.Join(err, auditLogs(diverge, dirs...))
	for _, s := range servers {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

// end ends the server for good.
func (s *Server) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	defer live.Delete(s)
	var err error
	if s.proc != nil {
		if err = s.proc.Stop(syscall.SIGTERM, stopTimeout); err != nil {
			err = fmt.Errorf("zkserver: server %s %w; the end of its log:\n%s", s.addr, err, s.LogTail(tailLines))
		}
		s.proc = nil
	}
	return err
}

// Kill ends the server with SIGKILL and waits for its end. Restart starts it again. Kill does
// nothing if the server is stopped.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.proc.Kill()
		s.proc = nil
	}
}

// Pause freezes the server with SIGSTOP: its connections stay open and nothing answers. On Linux,
// the server has stopped when Pause returns.
func (s *Server) Pause() error { return s.pause(true, syscall.SIGSTOP) }

// Resume continues a paused server.
func (s *Server) Resume() error { return s.pause(false, syscall.SIGCONT) }

func (s *Server) pause(pause bool, signal syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return fmt.Errorf("zkserver: server %s does not run: %v cannot be sent", s.addr, signal)
	}
	if s.paused == pause {
		return nil
	}
	err := s.proc.Signal(signal)
	if err == nil && pause {
		err = awaitPaused(s.proc.Pid())
	}
	if err != nil {
		return fmt.Errorf("zkserver: server %s: %v: %w", s.addr, signal, err)
	}
	s.paused = pause
	return nil
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "server.log") }

// LogTail returns the last n lines of the server's log, over all its runs. It is empty after Stop.
func (s *Server) LogTail(n int) string {
	log, err := os.ReadFile(s.logFile())
	if err != nil {
		return ""
	}
	return lastLines(log, n)
}
