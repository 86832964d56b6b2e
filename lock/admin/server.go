package admin

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/access"
	"github.com/holdfast-io/holdfast/lock/internal/servercheck"
)

// ServerReport is the result of [CheckServer].
type ServerReport struct {
	// Refused matches [lock.ErrUnsupported] if the session's server lacks behavior that the
	// protocol requires, or if one of Servers is a ClickHouse Keeper; otherwise it is nil.
	Refused error
	// Unchecked says why the check is incomplete, for example because of an ACL
	// ([lock.ErrDenied]); nil if it is complete.
	Unchecked error
	// Servers are the servers given to [lock.Dial], in their order; none for a client made by
	// [lock.New].
	Servers []ServerRelease
}

// ServerRelease is the release of one server.
type ServerRelease struct {
	Address string
	// Release is the release, such as "3.9.5"; "" if it is unknown, for example because the
	// four-letter word srvr is not permitted.
	Release string
	// Warning is one line about known defects of the release, and the remedy; "" if there are
	// none, or the release is unknown.
	Warning string
	// LosesNodes reports that the release can lose the children of a node that was deleted and made anew
	// during a snapshot, a defect of all present ones: [ZOOKEEPER-4846].
	//
	// [ZOOKEEPER-4846]: https://issues.apache.org/jira/browse/ZOOKEEPER-4846
	LosesNodes bool
	// Err says why the server did not answer; nil if it did.
	Err error
	// DataDir is the folder of its snapshots, by the four-letter word conf, and Heap the largest size
	// of its heap in bytes, by envi; "" and 0 if it does not tell. Releases before 3.5 do not tell Heap.
	DataDir string
	Heap    int64
	// Mismatches is how often, since its start, the digest of its data was not the leader's, by the word
	// mntr; -1 if it does not tell. Releases before 3.6 do not.
	Mismatches int64
}

// CheckServer checks whether the server of the client's session supports the protocol. It makes
// transactions below the root, and leaves no node behind. It also asks each of the client's servers
// for its release. It fails with [lock.ErrInvalid] if an argument is nil. It also fails if there
// was no session, or ctx ended.
func CheckServer(ctx context.Context, client *lock.Client) (ServerReport, error) {
	c := access.OfClient(client)
	switch {
	case c.Conn == nil:
		return ServerReport{}, fmt.Errorf("%w: client: must be made by Dial or New", lock.ErrInvalid)
	case ctx == nil:
		return ServerReport{}, fmt.Errorf("%w: context: must not be nil", lock.ErrInvalid)
	}
	var r ServerReport
	err := c.Check.Full(ctx)
	var unchecked *servercheck.Unchecked
	switch {
	case errors.As(err, &unchecked):
		r.Unchecked = unchecked.Why
	case errors.Is(err, lock.ErrUnsupported):
		r.Refused = err
	case err != nil:
		return ServerReport{}, fmt.Errorf("check the server: %w", err)
	}
	r.Servers = releases(ctx, c)
	for _, s := range r.Servers {
		if r.Refused == nil && isKeeper(s.Release) {
			r.Refused = servercheck.Keeper(s.Address + " calls itself " + s.Release)
		}
	}
	return r, nil
}

// releases asks all servers concurrently for their releases.
func releases(ctx context.Context, c access.Client) []ServerRelease {
	found := make([]ServerRelease, len(c.Conn.Servers()))
	var asked sync.WaitGroup
	for i, address := range c.Conn.Servers() {
		asked.Go(func() {
			s := &found[i]
			s.Address = address
			answer, err := c.Conn.Word(ctx, address, "srvr")
			s.Err = err
			s.Release = parseRelease(answer)
			s.Warning, s.LosesNodes = warningOf(s.Release), losesNodes(s.Release)
			conf, _ := c.Conn.Word(ctx, address, "conf") // not permitted by default
			envi, _ := c.Conn.Word(ctx, address, "envi")
			mntr, _ := c.Conn.Word(ctx, address, "mntr")
			s.DataDir, s.Heap, s.Mismatches = parseDataDir(conf), parseHeap(envi), parseMismatches(mntr)
		})
	}
	asked.Wait()
	return found
}
