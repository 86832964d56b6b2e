package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/cmd/internal/app"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

const (
	maxMembers = 9
	maxSkew    = 24 * time.Hour // between consecutive members, ahead or behind
)

func newDev() *cobra.Command {
	var listen string
	var members int
	var skew time.Duration
	cmd := &cobra.Command{
		Use:        "dev",
		SuggestFor: []string{"server", "serve"},
		Short:      "Serve a ZooKeeper in memory, for development",
		Long: `Serve a ZooKeeper in memory, for development: no Java, no installation, no files. It
listens on loopback only, because any client that reaches it may do anything. All
its data is gone when it ends, by Ctrl-C.

It speaks ZooKeeper's protocol to go-zookeeper, zkCli.sh, kazoo and Curator, and is
tested against a real server. With --members the further members listen on the
following ports. The clock of each member is --clock-skew ahead of the one before.
Session timeouts are from 4s to 40s, as by ZooKeeper's defaults.

It models nodes of all kinds but those with a TTL, transactions, watches, sessions,
ACLs of the schemes world, auth and digest, and the four-letter words ruok, srvr,
mntr, conf and envi. What it does not model it refuses as a server on which that is
switched off: nodes with a TTL, persistent and recursive watches, getEphemerals,
getAllChildrenNumber, whoAmI and reads in a transaction (-6, unimplemented),
reconfiguration (-123, disabled), other ACL schemes (-114, invalid ACL) and other
authentication (-115, authentication failed). It has no quotas, observers, TLS or
SASL.

Exit status: 0 when it is stopped by Ctrl-C or SIGTERM.`,
		Example: `  holdfast dev
  holdfast dev --members 3 --clock-skew 90s
  holdfast dev --listen 127.0.0.1:12181
  holdfast ls --servers 127.0.0.1:12181   # in another terminal`,
		Args: app.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if members < 1 || members > maxMembers {
				return app.Usage("--members %d: must be from 1 to %d", members, maxMembers)
			}
			if skew.Abs() > maxSkew {
				return app.Usage("--clock-skew %v: must be at most %v ahead or behind", skew, maxSkew)
			}
			listeners, err := listenDev(listen, members)
			if err != nil {
				return err
			}
			ens, err := locktest.New(locktest.Options{Members: members, TickTime: 2 * time.Second})
			if err != nil {
				return errors.Join(err, closeAll(listeners))
			}
			for i, member := range ens.Servers() {
				if err := ens.SetClock(member, time.Duration(i+1)*skew); err != nil {
					return errors.Join(err, closeAll(listeners))
				}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "ZooKeeper in memory at %s; all its data is gone when it ends (Ctrl-C).\n", addresses(listeners))
			return serveDev(cmd, ens, listeners)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:2181", "`host:port` of the first member, on loopback; port 0 is any free one")
	cmd.Flags().IntVar(&members, "members", 1, "how many servers")
	cmd.Flags().DurationVar(&skew, "clock-skew", 0, "how far each member's clock is ahead of the one before, and the first of this machine's")
	return cmd
}

// listenDev opens a port on loopback for each member: the port of listen and the ports after it; for
// port 0, any free ports.
func listenDev(listen string, members int) ([]net.Listener, error) {
	address, err := config.ParseListen(listen)
	if err != nil {
		return nil, app.Usage("--listen %q: must be a port or host:port on loopback, such as 2181 or 127.0.0.1:2181", listen)
	}
	host, port, _ := net.SplitHostPort(address)
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, app.Usage("--listen %q: must be on loopback, such as 127.0.0.1:2181, because any client that reaches it may do anything", listen)
	}
	first, err := strconv.Atoi(port)
	if err != nil || first+members-1 > 65535 {
		return nil, app.Usage("--listen %q: must leave room for the ports of %d members up to 65535", listen, members)
	}
	var listeners []net.Listener
	for i := range members {
		at := net.JoinHostPort(host, port)
		if first > 0 {
			at = net.JoinHostPort(host, strconv.Itoa(first+i))
		}
		l, err := net.Listen("tcp", at)
		if err != nil {
			return nil, fmt.Errorf("--listen %q: choose another port, or stop the program that has it: %w", listen, errors.Join(err, closeAll(listeners)))
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// serveDev serves the members until the command's context ends or a member fails. Then it closes the
// ensemble. The end of the context is no error.
func serveDev(cmd *cobra.Command, ens *locktest.Ensemble, listeners []net.Listener) error {
	errs := make([]error, len(listeners))
	var serving sync.WaitGroup
	for i, member := range ens.Servers() {
		serving.Go(func() {
			defer ens.Close()
			errs[i] = ens.Serve(listeners[i], member)
		})
	}
	defer context.AfterFunc(cmd.Context(), ens.Close)()
	serving.Wait()
	return errors.Join(errs...)
}

// addresses joins the addresses of the listeners, in the form of --servers.
func addresses(listeners []net.Listener) string {
	var all []string
	for _, l := range listeners {
		all = append(all, l.Addr().String())
	}
	return strings.Join(all, ",")
}

func closeAll(listeners []net.Listener) (err error) {
	for _, l := range listeners {
		err = errors.Join(err, l.Close())
	}
	return err
}
