package locktest_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/lock/locktest"
)

// TestStress: clients send random requests under random faults. In the end all members have the
// same data, and no deleted node or ended session leaves anything behind. The clients speak the
// protocol themselves, because go-zookeeper has a data race if requests are queued while it
// reconnects.
func TestStress(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { stress(t, seed) })
		})
	}
}

const (
	stressLength  = time.Minute
	stressClients = 6
)

func stress(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	ens := locktest.Start(t, locktest.Options{Members: 3, Seed: seed, ElectionTime: 300 * time.Millisecond})
	begin := time.Now()
	var clients sync.WaitGroup
	answers := make([]int, stressClients)
	for i := range stressClients {
		clients.Go(func() {
			answers[i] = stressClient(ens, fmt.Sprint(i), rand.New(rand.NewPCG(seed, uint64(i+1))), begin.Add(stressLength))
		})
	}
	var mu sync.Mutex
	faults := rand.New(rand.NewPCG(seed, 1000))
	ens.Intercept(func(locktest.Request) (f locktest.Fault) {
		mu.Lock()
		defer mu.Unlock()
		switch faults.IntN(200) {
		case 0:
			f.Drop = locktest.BeforeApply
		case 1:
			f.Drop = locktest.AfterApply
		case 2:
			f.Delay = time.Duration(faults.IntN(5000)) * time.Millisecond
		case 3:
			f.DelayReply = time.Duration(faults.IntN(5000)) * time.Millisecond
		case 4:
			f.Code = -127
		}
		return f
	})
	for time.Since(begin) < stressLength {
		time.Sleep(time.Duration(rnd.IntN(1000)) * time.Millisecond)
		label := fmt.Sprint(rnd.IntN(stressClients))
		member := ens.Servers()[rnd.IntN(3)]
		switch rnd.IntN(14) {
		case 0:
			ens.Cut(label)
		case 1:
			ens.Partition(label)
		case 2:
			ens.Partition(label, member)
		case 3, 4:
			ens.Heal(label)
		case 5:
			ens.Freeze(label)
		case 6, 7:
			ens.Thaw(label)
		case 8:
			ens.ExpireLabel(label)
		case 9:
			ens.Stop(member)
		case 10, 11:
			for _, m := range ens.Servers() {
				ens.Start(m)
			}
		case 12:
			ens.Lag(member, time.Duration(rnd.IntN(3000))*time.Millisecond)
		case 13:
			latency := time.Duration(rnd.IntN(20)) * time.Millisecond
			ens.SetLatency(func(string, string) time.Duration { return latency })
		}
	}
	ens.Intercept(nil)
	for i := range stressClients {
		ens.Heal(fmt.Sprint(i))
		ens.Thaw(fmt.Sprint(i))
	}
	for _, m := range ens.Servers() {
		ens.Start(m)
		ens.Lag(m, 0)
	}
	clients.Wait()
	time.Sleep(10 * time.Second) // until the remaining sessions have expired
	synctest.Wait()
	iferr.Error(t, ens.Check())
	total := 0
	for _, n := range answers {
		total += n
	}
	if total < 100 { // about 500 to 5,000, by the seed
		t.Errorf("only %d requests were answered", total)
	}
}

// stressClient sends random requests, on one connection after the other, and returns the number of
// replies.
func stressClient(ens *locktest.Ensemble, label string, rnd *rand.Rand, until time.Time) (answers int) {
	var last rawConn
	for time.Now().Before(until) {
		conn, err := ens.Dialer(label)("tcp", ens.Servers()[rnd.IntN(3)], time.Second)
		if err != nil {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		c := rawConn{Conn: conn, session: last.session, password: last.password, lastZxid: last.lastZxid, patience: 2 * time.Second}
		if err := c.handshake(3 * time.Second); err == nil && c.session == 0 {
			last = rawConn{} // the session expired
		} else if err == nil {
			answers += c.stress(rnd, until)
			last = c
		}
		if !time.Now().Before(until) && last.session != 0 {
			c.send(1, -11)
		}
		conn.Close()
		time.Sleep(10 * time.Millisecond)
	}
	return answers
}

// stress sends random requests until one fails, and returns the number of replies.
func (c *rawConn) stress(rnd *rand.Rand, until time.Time) (answers int) {
	for xid := int32(1); time.Now().Before(until); xid++ {
		path := fmt.Sprintf("/%d", rnd.IntN(5))
		flags := int32(rnd.IntN(4))
		var err error
		switch rnd.IntN(8) {
		case 0:
			err = c.send(xid, 1, path, []byte{}, open, flags)
		case 1:
			err = c.send(xid, 2, path, int32(-1))
		case 2:
			err = c.send(xid, 5, path, []byte{1}, int32(-1))
		case 3:
			err = c.send(xid, 3, path, true)
		case 4:
			err = c.send(xid, 12, "/", true)
		case 5:
			err = c.send(xid, 14, int32(1), false, int32(-1), path, []byte{}, open, flags,
				int32(5), false, int32(-1), path, []byte{2}, int32(0), int32(-1), true, int32(-1))
		case 6:
			err = c.send(xid, 9, path)
		case 7:
			err = c.send(xid, 101, c.lastZxid-5, []string{path}, []string{"/1", "/2"}, []string{"/", path})
		}
		for r := (reply{}); err == nil && r.xid != xid; {
			r = c.reply()
			err = r.err
		}
		if err != nil {
			break
		}
		answers++
		time.Sleep(time.Duration(rnd.IntN(50)) * time.Millisecond)
	}
	return answers
}
