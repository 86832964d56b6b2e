package app

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestDialChecked: a server whose faults Dial cannot see is also refused, unless the configuration
// accepts it.
func TestDialChecked(t *testing.T) {
	for name, test := range map[string]struct {
		quirks  locktest.Quirks
		unsafe  bool
		refused bool
	}{
		"good":           {locktest.Quirks{}, false, false},
		"keeper":         {locktest.Quirks{Keeper: true}, false, true},
		"clock":          {locktest.Quirks{StuckClock: true}, false, true},
		"clock accepted": {locktest.Quirks{StuckClock: true}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ens := locktest.Start(t, locktest.Options{Quirks: test.quirks})
				cfg := config.Default()
				cfg.ZooKeeper.Servers, cfg.ZooKeeper.UnsafeServer = ens.Servers(), test.unsafe
				var log bytes.Buffer
				client, err := DialChecked(t.Context(), cfg, zerolog.New(zerolog.SyncWriter(&log)), lock.WithDialer(ens.Dialer("a")))
				if err == nil {
					if err := client.Close(); err != nil {
						t.Error(err)
					}
				}
				if test.refused != errors.Is(err, lock.ErrUnsupported) || test.refused != (client == nil) {
					t.Errorf("%v, %v", client, err)
				}
				if test.refused && Status(t.Context(), err) != StatusFailed || errors.Is(err, lock.ErrUnavailable) {
					t.Errorf("status %d of %v", Status(t.Context(), err), err)
				}
				if test.unsafe != strings.Contains(log.String(), "going on because the configuration allows it") {
					t.Errorf("log: %s", &log)
				}
				time.Sleep(4 * time.Second) // until go-zookeeper has ended
			})
		})
	}
}

func TestReleasesAreWarnedOf(t *testing.T) {
	var log bytes.Buffer
	err := tell(admin.ServerReport{Servers: []admin.ServerRelease{
		{Address: "zk1:2181", Release: "3.9.3", Warning: "loses writes"},
		{Address: "zk2:2181", Release: "3.9.5"},
		{Address: "zk3:2181", Err: errors.New("refused")},
	}}, false, zerolog.New(&log))
	if err != nil || strings.Count(log.String(), `"level":"warn"`) != 1 || !strings.Contains(log.String(), `"server":"zk1:2181"`) {
		t.Errorf("%v, log %s", err, &log)
	}
}

// noKDC is a lock.SASL that fails.
type noKDC struct{}

func (noKDC) Start(context.Context, string) (lock.SASLExchange, error) {
	return nil, errors.New("no KDC answers")
}

// TestDialWithSASL: a SASL error matches ErrSASL and has no advice about the network. If SASL failed
// for another reason than the credentials, the error also matches ErrUnavailable, so that waiting
// commands try again.
func TestDialWithSASL(t *testing.T) {
	t.Setenv("HOLDFAST_TEST_PASSWORD", "secret")
	for _, test := range []struct {
		sasl   *config.SASL
		also   []lock.Option
		denied bool
		says   string
	}{
		{&config.SASL{Mechanism: config.DigestMD5, User: "u", PasswordEnv: "HOLDFAST_TEST_PASSWORD"}, nil, true, "the server has no SASL"},
		{nil, []lock.Option{lock.WithSASL(noKDC{})}, false, "no KDC answers"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ens := locktest.Start(t, locktest.Options{})
			cfg := config.Default()
			cfg.ZooKeeper.Servers, cfg.ZooKeeper.SASL = ens.Servers(), test.sasl
			_, err := Dial(t.Context(), cfg, zerolog.Nop(), append(test.also, lock.WithDialer(ens.Dialer("a")))...)
			if !errors.Is(err, lock.ErrSASL) || errors.Is(err, lock.ErrDenied) != test.denied || errors.Is(err, lock.ErrUnavailable) == test.denied ||
				!strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "Is a server running there") || Status(t.Context(), err) != StatusFailed {
				t.Errorf("status %d: %v", Status(t.Context(), err), err)
			}
			time.Sleep(4 * time.Second) // until go-zookeeper has ended
		})
	}
}
