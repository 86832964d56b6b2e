package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// How one would write a lock with a table.
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

// postgresMost is how many connections the server takes.
const postgresMost = 1200

type postgresServer struct {
	*daemon
	look *pgxpool.Pool
}

// startPostgres starts a server that syncs its log to disk with each commit, as
// its defaults are.
func startPostgres(ctx context.Context) (server, string, error) {
	programs, err := findPostgres(ctx)
	if err != nil {
		return nil, "", err
	}
	addr, port, err := freeAddr()
	if err != nil {
		return nil, "", err
	}
	as, err := unprivileged()
	if err != nil {
		return nil, "", err
	}
	dir, err := os.MkdirTemp("", "holdfast-bench-postgres-")
	if err != nil {
		return nil, "", err
	}
	command := func(program string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(programs, program), args...)
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
		return cmd
	}
	data := filepath.Join(dir, "data")
	if as != nil {
		err = os.Chown(dir, int(as.Uid), int(as.Gid))
	}
	if err == nil {
		var output []byte
		if output, err = command("initdb", "--pgdata", data, "--username=bench", "--auth=trust", "--encoding=UTF8", "--no-locale").CombinedOutput(); err != nil {
			err = fmt.Errorf("initdb: %w: %s", err, output)
		}
	}
	if err != nil {
		return nil, "", errors.Join(err, os.RemoveAll(dir))
	}
	look, err := pgxpool.New(ctx, postgresURL(addr))
	if err != nil {
		return nil, "", errors.Join(err, os.RemoveAll(dir))
	}
	s := &postgresServer{look: look}
	cmd := command("postgres", "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "fsync=on", "-c", "synchronous_commit=on", "-c", fmt.Sprintf("max_connections=%d", postgresMost))
	s.daemon, err = startDaemon(ctx, "postgres", dir, addr, cmd, look.Ping)
	if err != nil {
		look.Close()
		return nil, "", err
	}
	version, err := s.prepare(ctx)
	if err != nil {
		return nil, "", errors.Join(err, s.close())
	}
	return s, fmt.Sprintf("PostgreSQL %s (one server, fsync and synchronous_commit on)", version), nil
}

// prepare makes the table, and returns the server's version.
func (s *postgresServer) prepare(ctx context.Context) (version string, err error) {
	if err := s.look.QueryRow(ctx, "SHOW server_version").Scan(&version); err != nil {
		return "", err
	}
	version, _, _ = strings.Cut(version, " ") // the build's vendor follows
	_, err = s.look.Exec(ctx, postgresTable)
	return version, err
}

// findPostgres returns the folder of PostgreSQL's programs: that of the PATH, or
// the newest where Debian's and Ubuntu's packages put them.
func findPostgres(ctx context.Context) (dir string, err error) {
	err = zkserver.Install(ctx, func() (missing []string, _ error) {
		if program, err := exec.LookPath("initdb"); err == nil {
			dir = filepath.Dir(program)
			return nil, nil
		}
		found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
		if err != nil || len(found) == 0 {
			return []string{"postgresql"}, err
		}
		dir = filepath.Dir(found[len(found)-1])
		return nil, nil
	})
	return dir, err
}

// unprivileged returns the user to run PostgreSQL's programs, which refuse to run as
// root; nil: this process's own.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		who, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, fmt.Errorf("no user to run PostgreSQL, which refuses to run as root: %w", err)
	}
	uid, err := strconv.ParseUint(who.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(who.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

func postgresURL(addr string) string {
	return "postgres://bench@" + addr + "/postgres?sslmode=disable"
}

// transactions tells how many have changed something, or tried to.
func (s *postgresServer) transactions(ctx context.Context) (next int64, err error) {
	err = s.look.QueryRow(ctx, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").Scan(&next)
	return next, err
}

func (s *postgresServer) close() error {
	s.look.Close()
	return s.daemon.close()
}

type postgresSession struct {
	wire
	pool *pgxpool.Pool
}

func openPostgres(ctx context.Context, addr string) (session, error) {
	s := new(postgresSession)
	config, err := pgxpool.ParseConfig(postgresURL(addr))
	if err != nil {
		return nil, err
	}
	config.MaxConns = most
	config.ConnConfig.DialFunc, config.ConnConfig.Tracer = s.dial, queries{&s.wire}
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	if _, err := s.pool.Exec(ctx, postgresCleanUp); err != nil {
		s.pool.Close()
		return nil, err
	}
	return s, nil
}

func (s *postgresSession) close() error {
	s.pool.Close()
	return nil
}

func (s *postgresSession) locker(path string) locker {
	return &postgresLocker{pool: s.pool, path: path}
}

type postgresLocker struct {
	pool  *pgxpool.Pool
	path  string
	token int64
}

func (l *postgresLocker) lock(ctx context.Context) error {
	wait := polling()
	for {
		if got, err := l.try(ctx); got || err != nil {
			return err
		}
		select {
		case <-time.After(wait.NextBackoff()):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (l *postgresLocker) try(ctx context.Context) (bool, error) {
	err := l.pool.QueryRow(ctx, postgresObtain, l.path, lease).Scan(&l.token)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func (l *postgresLocker) unlock() error {
	done, err := l.pool.Exec(context.Background(), postgresRelease, l.path, l.token)
	if err == nil && done.RowsAffected() == 0 {
		err = errors.New("the lock was lost")
	}
	return err
}

// queries counts a client's queries as requests.
type queries struct{ wire *wire }

func (q queries) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	q.wire.requests.Add(1)
	return ctx
}

func (queries) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
