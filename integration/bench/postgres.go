package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-io/holdfast/integration/pgserver"
	"github.com/holdfast-io/holdfast/integration/wait"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// The statements of a lock in a table.
const (
	postgresTable = `
		CREATE SEQUENCE tokens;
		CREATE TABLE locks (name text PRIMARY KEY, token bigint NOT NULL, expires timestamptz NOT NULL)`
	postgresObtain = `
		INSERT INTO locks AS held (name, token, expires) VALUES ($1, nextval('tokens'), now() + $2)
		ON CONFLICT (name) DO UPDATE SET token = excluded.token, expires = excluded.expires WHERE held.expires < now()
		RETURNING token`
	postgresRelease = `DELETE FROM locks WHERE name = $1 AND token = $2`
	postgresCleanUp = `DELETE FROM locks WHERE expires < now()`
)

// startPostgres starts a server that syncs its log at each commit.
func startPostgres(ctx context.Context) (*server, error) {
	var programs string
	err := zkserver.Install(ctx, func() (missing []string, _ error) {
		if programs = pgserver.Find(); programs == "" {
			missing = []string{"postgresql"}
		}
		return missing, nil
	})
	if err != nil {
		return nil, err
	}
	return startDaemon(ctx, "postgres", func(d *daemon) error {
		command, data, err := pgserver.Prepare(programs, d.dir, "bench")
		if err != nil {
			return err
		}
		look, err := pgxpool.New(ctx, postgresURL(d.addr))
		if err != nil {
			return err
		}
		d.hangUp = func() error { look.Close(); return nil }
		d.cmd = command("postgres", "-D", data, "-p", d.port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
			"-c", "fsync=on", "-c", "synchronous_commit=on", "-c", "max_connections=1200")
		d.ready = func(ctx context.Context) error {
			var version string
			if err := look.QueryRow(ctx, "SHOW server_version").Scan(&version); err != nil {
				return err
			}
			version, _, _ = strings.Cut(version, " ") // without the vendor's version, which follows
			d.version = fmt.Sprintf("PostgreSQL %s (one server, fsync and synchronous_commit on)", version)
			_, err := look.Exec(ctx, postgresTable)
			return err
		}
		// The number of the next transaction counts the transactions that changed something or
		// tried to.
		d.transactions = func(ctx context.Context) (next int64, err error) {
			err = look.QueryRow(ctx, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").Scan(&next)
			return next, err
		}
		return nil
	})
}

func postgresURL(addr string) string {
	return "postgres://bench@" + addr + "/postgres?sslmode=disable"
}

func openPostgres(ctx context.Context, addr string) (session, error) {
	w := new(wire)
	config, err := pgxpool.ParseConfig(postgresURL(addr))
	if err != nil {
		return session{}, err
	}
	config.MaxConns = most
	config.ConnConfig.DialFunc, config.ConnConfig.Tracer = w.dial, queries{w}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return session{}, err
	}
	if _, err := pool.Exec(ctx, postgresCleanUp); err != nil {
		pool.Close()
		return session{}, err
	}
	return session{
		counts: w.counts,
		close:  func() error { pool.Close(); return nil },
		locker: func(path string) locker { return postgresLocker(pool, path) },
	}, nil
}

func postgresLocker(pool *pgxpool.Pool, path string) locker {
	var token int64
	try := func(ctx context.Context) (bool, error) {
		return got(pool.QueryRow(ctx, postgresObtain, path, lease).Scan(&token), pgx.ErrNoRows)
	}
	return locker{
		try: try,
		lock: func(ctx context.Context) error {
			backoff := polling()
			for {
				if got, err := try(ctx); got || err != nil {
					return err
				}
				if err := wait.Sleep(ctx, backoff.NextBackoff()); err != nil {
					return err
				}
			}
		},
		unlock: func() error {
			done, err := pool.Exec(context.Background(), postgresRelease, path, token)
			if err == nil && done.RowsAffected() == 0 {
				err = errors.New("the lock was lost")
			}
			return err
		},
	}
}

// queries counts a client's queries as requests.
type queries struct{ wire *wire }

func (q queries) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	q.wire.requests.Add(1)
	return ctx
}

func (queries) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
