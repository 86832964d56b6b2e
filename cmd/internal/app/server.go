package app

import (
	"context"
	"errors"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/config"
)

// DialChecked is [Dial] for programs that run for long. With a few more requests it also checks
// whether the server supports the protocol, and whether a server's release is known to lose data.
// It logs the findings. If the check refuses the server, the error matches [lock.ErrUnsupported],
// unless the configuration accepts the server.
func DialChecked(ctx context.Context, cfg *config.Config, log zerolog.Logger, opts ...lock.Option) (*lock.Client, error) {
	client, err := Dial(ctx, cfg, log, opts...)
	if err != nil {
		return nil, err
	}
	report, err := admin.CheckServer(ctx, client)
	switch {
	case err == nil:
		err = tell(report, cfg.ZooKeeper.UnsafeServer, log)
	case ctx.Err() == nil: // a new session would not help: go on with this one
		log.Warn().Err(err).Msg("the servers could not be checked")
		err = nil
	}
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return client, nil
}

// tell logs the findings about the servers. It returns the reason if they are refused, unless unsafe is
// set.
func tell(report admin.ServerReport, unsafe bool, log zerolog.Logger) error {
	for _, s := range report.Servers {
		switch {
		case s.Err != nil:
			log.Debug().Err(s.Err).Str("server", s.Address).Msg("a server does not report its release")
		case s.Warning != "":
			log.Warn().Str("server", s.Address).Str("release", s.Release).Msg(s.Warning)
		}
	}
	if report.Refused != nil && unsafe {
		log.Warn().Err(report.Refused).Msg("the server lacks behavior that locks require; going on because the configuration allows it")
		return nil
	}
	return report.Refused
}
