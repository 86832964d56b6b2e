package status

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
)

// Options configure a server.
type Options struct {
	// Roots are the roots to show until the first call of [Server.SetRoots].
	Roots []Root
	// Metadata shows the metadata of entries, which may be confidential. By default it is not
	// shown.
	Metadata bool
	// Hosts are the allowed host names of requests, without a port, besides localhost and addresses.
	// Requests with other names are refused: a page of another site may let its name resolve to this
	// host (DNS rebinding).
	Hosts []string
}

// Server serves the status of a reaper. It is an http.Handler. All methods are safe for concurrent
// use.
type Server struct {
	options Options // its Roots are not used: see roots
	mux     *http.ServeMux
	rooms   rooms
	ctx     context.Context
	cancel  context.CancelFunc
	passes  sync.WaitGroup
	seconds *prometheus.HistogramVec // durations of sweeps

	mu    sync.Mutex
	roots []*shown // the slice is never changed, only replaced
}

// shown is a root that the server shows, with the passes over its locks and the results of its sweeps.
type shown struct {
	Root
	*listing
	*swept
}

//go:embed page
var pageFiles embed.FS

// New returns a server. The caller must call [Server.Serve], which closes the server before it returns,
// or else [Server.Close]. The error matches [lock.ErrInvalid] if an option is not allowed.
func New(o Options) (*Server, error) {
	for _, h := range o.Hosts {
		if h == "" || strings.ContainsAny(h, ":/ ") {
			return nil, fmt.Errorf("%w: status: host %q: must be a name without a port", lock.ErrInvalid, h)
		}
	}
	s := &Server{options: o, mux: http.NewServeMux(), rooms: newRooms(), seconds: newSweepSeconds()}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.SetRoots(o.Roots); err != nil {
		s.cancel()
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.seconds, prometheus.CollectorFunc(s.collect),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	files, err := fs.Sub(pageFiles, "page")
	if err != nil {
		return nil, err
	}
	s.mux.Handle("/", http.FileServerFS(files))
	s.mux.HandleFunc("/healthz", s.healthy)
	s.mux.HandleFunc("/readyz", s.ready)
	s.mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	s.mux.HandleFunc("/api/v1/status", s.apiStatus)
	s.mux.HandleFunc("/api/v1/locks", s.apiLocks)
	s.mux.HandleFunc("/api/v1/lock", s.apiLock)
	return s, nil
}

// SetRoots sets the roots to show. A root with the same monitor as before keeps its data. A removed
// root must not have a running sweep. If a monitor is nil, SetRoots changes nothing and fails with
// [lock.ErrInvalid].
func (s *Server) SetRoots(roots []Root) error {
	if slices.ContainsFunc(roots, func(r Root) bool { return r.Monitor == nil }) {
		return fmt.Errorf("%w: status: each root needs a monitor", lock.ErrInvalid)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, old := range s.roots {
		if !slices.ContainsFunc(roots, func(r Root) bool { return r.Monitor == old.Monitor }) {
			s.seconds.DeletePartialMatch(prometheus.Labels{"root": old.label()})
		}
	}
	var all []*shown
	for _, r := range roots {
		if i := slices.IndexFunc(s.roots, func(old *shown) bool { return old.Monitor == r.Monitor }); i >= 0 {
			all = append(all, s.roots[i])
			continue
		}
		all = append(all, &shown{r, &listing{ctx: s.ctx, passes: &s.passes, own: r.Lock}, watch(r, s.seconds, newGroups(s.ctx, r, &s.passes))})
	}
	s.roots = all
	return nil
}

// shown returns the present roots. Callers must not change the slice.
func (s *Server) shown() []*shown {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.roots
}

// Close ends all passes over the locks, and waits for their end. Afterwards no pass begins.
func (s *Server) Close() {
	s.cancel()
	s.passes.Wait()
}

// security are the headers of all answers. The page loads nothing from other hosts, and no other
// site may frame or read it.
var security = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cache-Control":                "no-store",
}

// ServeHTTP answers GET and HEAD. It refuses other methods (405), host names that are not allowed
// (421), and requests beyond 64 concurrent ones (503); probes and metrics are counted apart.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for key, value := range security {
		w.Header().Set(key, value)
	}
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "nothing here can be changed: GET and HEAD only", http.StatusMethodNotAllowed)
	case !unnamed[r.URL.Path] && !s.named(r.Host):
		http.Error(w, fmt.Sprintf("host %q: must be localhost, an address, or one of reaper.hosts in the configuration", r.Host), http.StatusMisdirectedRequest)
	default:
		s.rooms.serve(s.mux, w, r)
	}
}

// unnamed are the paths that accept any host name, for scrapers and probes. Their answers must not
// show names of locks, their owners, or what sweeps wait for.
var unnamed = map[string]bool{"/metrics": true, "/healthz": true, "/readyz": true}

// named reports whether the Host of a request is allowed. Every address is allowed, because DNS
// rebinding needs a name.
func (s *Server) named(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return true
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name == "localhost" || slices.ContainsFunc(s.options.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
}

// Serve answers the requests on l until ctx ends. Then it closes l and the server, and returns nil. It
// returns an error if l fails. An address has at most 32 connections: of more the oldest is closed. An
// answer that its reader does not take within ten seconds ends the connection.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: askTime + maxSending,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	err := server.Serve(&fewPerAddress{Listener: l})
	closing := server.Close()
	s.Close()
	if errors.Is(err, http.ErrServerClosed) && ctx.Err() != nil {
		return nil
	}
	return errors.Join(err, closing)
}

// reader returns the reader of a root's locks; false while the root has no client.
func (s *Server) reader(r Root) (reader, bool) {
	locks := r.Monitor.Locks()
	if locks == nil {
		return reader{}, false
	}
	return reader{label: r.label(), tree: admin.New(locks), policies: r.Monitor.Policies(), metadata: s.options.Metadata}, true
}

// errNoClient is the error of reads from a root that has no client.
var errNoClient = errors.New("there was no session with ZooKeeper yet")

// look returns a pass over a root's locks, nil if there is none; see listing.look.
func (s *Server) look(ctx context.Context, root *shown) (*reading, error) {
	reader, ok := s.reader(root.Root)
	if !ok {
		return nil, errNoClient
	}
	return root.listing.look(ctx, &reading{reader: reader, most: maxNodes, begun: time.Now(), done: make(chan struct{})})
}
