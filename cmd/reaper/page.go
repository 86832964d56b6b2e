package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/holdfast-io/holdfast/reaper"
	"github.com/holdfast-io/holdfast/reaper/status"
)

// listen listens where the status of the roots is to be served, and returns what serves it
// until its context ends.
func listen(ctx context.Context, s policy.Status, roots []*root, log zerolog.Logger) (serve func(context.Context), err error) {
	if s.Listen == "" {
		return func(context.Context) {}, nil
	}
	o := status.Options{Metadata: s.Metadata, Hosts: s.Hosts}
	for _, r := range roots {
		o.Roots = append(o.Roots, status.Root{Monitor: r.daemon.Monitor(), Lock: cmp.Or(r.Reaper.Lock, reaper.DefaultLock)})
	}
	server, err := status.New(o)
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
		event = log.Warn().Str("seen_by", "whoever reaches this address: it is not of this machine alone")
	}
	event.Str("url", "http://"+address+"/").Msg("status page, metrics and health are served")
	return func(ctx context.Context) {
		if err := server.Serve(ctx, l); err != nil && !errors.Is(err, net.ErrClosed) {
			log.Error().Err(err).Msg("the status page is not served any more")
		}
	}, nil
}
