package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/reaper"
	"github.com/holdfast-io/holdfast/reaper/status"
)

// page is the status page: its server, and its listener.
type page struct {
	server *status.Server
	at     net.Listener
}

// listen opens the address of the status page. The page is nil if the configuration has no address.
func listen(ctx context.Context, s config.Status, log zerolog.Logger) (*page, error) {
	if s.Listen == "" {
		return nil, nil
	}
	server, err := status.New(status.Options{Metadata: s.Metadata, Hosts: s.Hosts})
	if err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.Listen)
	if err != nil {
		server.Close()
		return nil, fmt.Errorf("reaper.listen %s: give another address, or none: %w", s.Listen, err)
	}
	address := l.Addr().String()
	event := log.Info()
	if a, err := netip.ParseAddrPort(address); err != nil || !a.Addr().IsLoopback() {
		event = log.Warn().Str("seen_by", "any host that reaches this address: it is not of this machine alone")
	}
	event.Str("url", "http://"+address+"/").Msg("status page, metrics and health are served")
	return &page{server, l}, nil
}

// serve serves the page until ctx ends, and logs an error.
func (p *page) serve(ctx context.Context, log zerolog.Logger) {
	if err := p.server.Serve(ctx, p.at); err != nil && !errors.Is(err, net.ErrClosed) {
		log.Error().Err(err).Msg("the status page is not served any more")
	}
}

// show sets the roots on the page, if there is a page.
func (p *page) show(roots []*root) error {
	if p == nil {
		return nil
	}
	var all []status.Root
	for _, r := range roots {
		all = append(all, status.Root{Monitor: r.daemon.Monitor(), Lock: cmp.Or(r.Reaper.Lock, reaper.DefaultLock)})
	}
	return p.server.SetRoots(all)
}
