package app

import (
	"context"
	"errors"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/policy"
)

// DialChecked is [Dial] for programs that run for long: it looks, too, whether the server
// does all that locks rest on, which takes some more requests, and whether one of the
// servers has a release that is known to lose data. That is logged; a server that is
// refused is an error that is [lock.ErrUnsupported], unless the configuration accepts it.
func DialChecked(ctx context.Context, cfg *policy.Config, log zerolog.Logger, opts ...lock.Option) (*lock.Client, error) {
	client, err := Dial(ctx, cfg, log, opts...)
	if err != nil {
		return nil, err
	}
	report, err := admin.CheckServer(ctx, client)
	switch {
	case err == nil:
		err = tell(report, cfg.ZooKeeper.UnsafeServer, log)
	case ctx.Err() == nil: // the next session is as good as this one
		log.Warn().Err(err).Msg("the servers could not be looked at")
		err = nil
	}
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return client, nil
}

// tell logs what was found of the servers, and returns why they are refused.
func tell(report admin.ServerReport, unsafe bool, log zerolog.Logger) error {
	for _, s := range report.Servers {
		switch {
		case s.Err != nil:
			log.Debug().Err(s.Err).Str("server", s.Address).Msg("a server does not tell its release")
		case s.Warning != "":
			log.Warn().Str("server", s.Address).Str("release", s.Release).Msg(s.Warning)
		}
	}
	if report.Refused != nil && unsafe {
		log.Warn().Err(report.Refused).Msg("the server is not one that locks can rest on; going on because the configuration says so")
		return nil
	}
	return report.Refused
}
