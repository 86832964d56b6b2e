// The code that the documents' Go snippets assume. TestGoSnippets builds this code together with
// the snippets, and runs the program against a server of its own.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/robfig/cron/v3"
	"github.com/rs/zerolog"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/schedule"
	"github.com/holdfast-io/holdfast/lock/shard"
)

var (
	ctx     = context.Background()
	start   = ctx
	err     error
	servers = strings.Split(os.Getenv("HOLDFAST_ZOOKEEPER"), ",")
	locks   *lock.Client
	other   *lock.Client // stands for the client of another process
	hold    *lock.Hold
	read    *lock.Hold // a read hold on catalog
	catalog *lock.RWMutex
	token   lock.Token
	conn    *zk.Conn
	logger  = zerolog.Nop()
	db      *sql.DB // not opened: the code that uses it is compiled, and not run

	order   = "42"
	key     = int64(42)
	timeout = 10 * time.Second
	work    = make(chan string)

	// For the documents of package schedule, whose snippets are compiled but not run.
	daily   = cron.Every(24 * time.Hour)
	nightly cron.Job
	job     = new(schedule.Job)
	failed  func(error)

	// For the documents of package shard, whose snippets are compiled but not run.
	group *shard.Group

	// For the documents of package locktest, whose snippets are compiled but not run.
	t      *testing.T
	ens    *locktest.Ensemble
	member string
)

func ship(ctx context.Context, order string, token ...lock.Token) error { return ctx.Err() }

func consume(ctx context.Context, shard int, token lock.Token) error { return ctx.Err() }

func poll(ctx context.Context, shard int) {}

func export(ctx context.Context, tick time.Time) error { return ctx.Err() }

const raise = "" // stands for the statement that begins a fenced transaction

// scene sets the variables for the n-th snippet, whose locks are below a root of its own. clear
// closes the snippet's clients and conn.
func scene(n int) (clear func(), _ error) {
	var opened []*lock.Client
	dial := func() (*lock.Client, error) {
		c, err := lock.Dial(ctx, servers, lock.WithRoot("/scene/"+strconv.Itoa(n)))
		if err == nil {
			opened = append(opened, c)
		}
		return c, err
	}
	clear = func() {
		for _, c := range opened {
			c.Close()
		}
		conn.Close()
	}
	var wrong []error
	if locks, err = dial(); err != nil {
		return nil, err
	}
	if other, err = dial(); err != nil {
		return nil, err
	}
	if conn, _, err = zk.Connect(servers, timeout, zk.WithLogInfo(false)); err != nil {
		return nil, err
	}
	for _, path := range []string{"/orders", "/orders/42"} {
		if _, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); !errors.Is(err, zk.ErrNodeExists) {
			wrong = append(wrong, err)
		}
	}
	catalog = locks.RWMutex("catalog")
	hold, err = locks.Mutex("hold").Lock(ctx)
	wrong = append(wrong, err)
	token = hold.Token()
	read, err = catalog.RLock(ctx)
	wrong = append(wrong, err)
	go func() { // a request to release the hold, so that a snippet that listens for requests ends
		select {
		case work <- "a piece":
		case <-hold.Context().Done():
		}
		other.Revoke(ctx, "hold", "the scene is over")
	}()
	return clear, errors.Join(wrong...)
}

func main() {
	status := 0
	for i, s := range snippets {
		clear, err := scene(i)
		if err != nil {
			err = fmt.Errorf("the scene of %s: %w", s.at, err)
		} else if err = s.run(); err != nil {
			err = fmt.Errorf("%s: %w", s.at, err)
		}
		if err != nil {
			fmt.Println(err)
			status = 1
		}
		if clear != nil {
			clear()
		}
	}
	os.Exit(status)
}
