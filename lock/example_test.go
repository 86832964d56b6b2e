// Examples of the package, and their helpers.

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/locktest"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// newEnsemble returns a ZooKeeper in memory. A service omits WithDialer and passes the addresses of
// its servers.
func newEnsemble() *locktest.Ensemble {
	return must(locktest.New(locktest.Options{}))
}

// newClient returns a client of a new in-memory ZooKeeper. done closes both.
func newClient(opts ...lock.Option) (locks *lock.Client, done func()) {
	ensemble := newEnsemble()
	locks = must(lock.Dial(context.Background(), ensemble.Servers(), append(opts, lock.WithDialer(ensemble.Dial))...))
	return locks, func() {
		locks.Close()
		ensemble.Close()
	}
}

// must and check end the example if there is an error.
func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func ship(ctx context.Context, token lock.Token) error { return nil }

func Example() {
	ensemble := newEnsemble()
	defer ensemble.Close()
	ctx := context.Background()

	start, cancel := context.WithTimeout(ctx, 30*time.Second) // without a deadline, Dial waits until a server answers
	defer cancel()
	locks, err := lock.Dial(start, ensemble.Servers(), lock.WithTTL(30*time.Second), lock.WithDialer(ensemble.Dial))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	hold, err := locks.Mutex("orders/42").Lock(ctx) // waits its turn
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Unlock()

	// The context ends if the hold is lost. The resource that ship changes can refuse a token that
	// is lower than one it has seen.
	if err := ship(hold.Context(), hold.Token()); err != nil {
		log.Fatal(err)
	}
	fmt.Println("shipped under", hold.Name())
	// Output: shipped under orders/42
}

func ExampleMutex_Do() {
	ctx := context.Background()
	locks, done := newClient()
	defer done()

	check(locks.Mutex("reports/daily").Do(ctx, func(ctx context.Context) error {
		fmt.Println("writing the report")
		return ctx.Err() // ends when the lock is lost
	}))
	// Output: writing the report
}

func ExampleMutex_TryLock() {
	ctx := context.Background()
	locks, done := newClient(lock.WithOwner("billing"))
	defer done()

	hold := must(locks.Mutex("invoices").TryLock(ctx))
	defer hold.Unlock()

	_, err := locks.Mutex("invoices").TryLock(ctx)
	var held *lock.HeldError
	if errors.Is(err, lock.ErrHeld) && errors.As(err, &held) {
		fmt.Printf("%s is at it\n", held.Owner)
	}
	// Output: billing is at it
}

// Several hosts start a job at the same time, and only one of them runs it.
func ExampleMutex_TryDo() {
	ctx := context.Background()
	locks, done := newClient()
	defer done()

	job := locks.Mutex("jobs/nightly")
	check(job.Validate()) // at the start of the service

	ran := must(job.TryDo(ctx, func(context.Context) error {
		again := must(job.TryDo(ctx, func(context.Context) error { return nil }))
		fmt.Println("it runs twice:", again)
		return nil
	}))
	fmt.Println("it ran:", ran)
	// Output:
	// it runs twice: false
	// it ran: true
}

func ExampleAll_Lock() {
	ctx := context.Background()
	locks, done := newClient()
	defer done()

	// A transfer in the other direction may name the locks in the opposite order.
	holds := must(locks.All([]string{"accounts/7", "accounts/3"}).Lock(ctx))
	defer holds.Unlock()

	// The context ends when any of the holds is lost.
	for hold := range holds.All() {
		check(ship(holds.Context(), hold.Token()))
		fmt.Println("under", hold.Name())
	}
	// Output:
	// under accounts/3
	// under accounts/7
}

// Any locks any free environment of a pool. If none is free, it waits for the first that is
// unlocked.
func ExampleAny_Lock() {
	ctx := context.Background()
	locks, done := newClient()
	defer done()

	pool := []string{"env/1", "env/2", "env/3"}
	busy := must(locks.Mutex("env/1").Lock(ctx))
	defer busy.Unlock()

	hold := must(locks.Any(pool).Lock(ctx))
	defer hold.Unlock()
	fmt.Println("tests run in", hold.Name())
	// Output: tests run in env/2
}

// A call with the context of a hold reenters its lock, so functions that need the lock can call
// each other.
func ExampleMutex_Lock_again() {
	ctx := context.Background()
	locks, done := newClient()
	defer done()

	outer := must(locks.Mutex("stock").Lock(ctx))
	inner := must(locks.Mutex("stock").Lock(outer.Context()))
	fmt.Println("one hold:", inner.Token() == outer.Token())
	fmt.Println("first unlock:", inner.Unlock(), "- still held:", outer.Remaining() > 0)
	fmt.Println("last unlock:", outer.Unlock(), "- still held:", outer.Remaining() > 0)
	// Output:
	// one hold: true
	// first unlock: <nil> - still held: true
	// last unlock: <nil> - still held: false
}

func ExampleRWMutex() {
	ctx := context.Background()
	locks, done := newClient()
	defer done()
	catalog := locks.RWMutex("catalog")

	// Two readers hold the lock at the same time, and no writer does meanwhile.
	check(catalog.RDo(ctx, func(context.Context) error {
		return catalog.RDo(ctx, func(context.Context) error {
			_, err := catalog.TryLock(ctx)
			fmt.Println("a writer beside two readers:", errors.Is(err, lock.ErrHeld))
			return nil
		})
	}))

	// A writer that continues as a reader lets other readers in.
	hold := must(catalog.Lock(ctx))
	defer hold.Unlock()
	_, err := catalog.TryRLock(ctx)
	fmt.Println("a reader beside a writer:", errors.Is(err, lock.ErrHeld))
	check(catalog.Downgrade(ctx, hold))
	reader := must(catalog.TryRLock(ctx))
	defer reader.Unlock()
	fmt.Println("a reader after the downgrade:", reader.Remaining() > 0)

	_, err = catalog.Lock(hold.Context())
	fmt.Println("an upgrade is refused:", errors.Is(err, lock.ErrUpgrade))
	// Output:
	// a writer beside two readers: true
	// a reader beside a writer: true
	// a reader after the downgrade: true
	// an upgrade is refused: true
}

func ExampleSemaphore() {
	ctx := context.Background()
	locks, done := newClient()
	defer done()

	// Four exports may run at the same time; a big one counts as three.
	exports := locks.Semaphore("exports", 4)
	big := must(exports.Acquire(ctx, 3))
	defer big.Unlock()
	small := must(exports.Acquire(ctx, 1))
	defer small.Unlock()
	_, err := exports.TryAcquire(ctx, 1)
	fmt.Println("a fifth permit:", errors.Is(err, lock.ErrHeld))

	// All clients must pass the same number. Only an explicit call changes it.
	_, err = locks.Semaphore("exports", 5).TryAcquire(ctx, 1)
	fmt.Println("another number:", errors.Is(err, lock.ErrPermits))
	check(exports.Resize(ctx, 5))
	one := must(exports.TryAcquire(ctx, 1))
	defer one.Unlock()
	fmt.Println("resized to five:", one.Remaining() > 0)
	// Output:
	// a fifth permit: true
	// another number: true
	// resized to five: true
}

func ExampleHold_Context() {
	ctx := context.Background()
	locks, done := newClient()
	defer done()

	// The hold ends after 100 ms.
	hold := must(locks.Mutex("draw", lock.WithTTL(100*time.Millisecond), lock.WithMaxHold(100*time.Millisecond)).Lock(ctx))
	<-hold.Context().Done()
	switch err := context.Cause(hold.Context()); {
	case errors.Is(err, lock.ErrMaxHold), errors.Is(err, lock.ErrExpired): // expired: a busy machine
		fmt.Println("the time is over")
	case errors.Is(err, lock.ErrLost):
		fmt.Println("another reason:", err)
	}
	// Output: the time is over
}

func ExampleHold_Token() {
	ctx := context.Background()
	locks, done := newClient()
	defer done()

	// The resource that the lock guards remembers the highest token.
	var highest lock.Token
	write := func(by lock.Token) string {
		if by.Compare(highest) < 0 {
			return "refused"
		}
		highest = by
		return "written"
	}

	var tokens []lock.Token
	for range 2 {
		hold := must(locks.Mutex("ledger").Lock(ctx))
		tokens = append(tokens, hold.Token())
		hold.Unlock()
	}
	fmt.Println("second holder:", write(tokens[1]))
	fmt.Println("first holder, late:", write(tokens[0]))
	// Output:
	// second holder: written
	// first holder, late: refused
}

// One process detaches a hold and exits; another one continues the hold.
func ExampleHold_Detach() {
	ensemble := newEnsemble()
	defer ensemble.Close()
	ctx := context.Background()
	dial := func() *lock.Client {
		return must(lock.Dial(ctx, ensemble.Servers(), lock.WithDialer(ensemble.Dial)))
	}

	first := dial()
	hold := must(first.Mutex("etl").Lock(ctx))
	ticket := must(hold.Detach(ctx, 5*time.Minute))
	text := ticket.String()
	first.Close()

	second := dial()
	defer second.Close()
	ticket = must(lock.ParseTicket(text))
	again := must(second.Attach(ctx, ticket))
	fmt.Println("same entry:", again.EntryPath() == hold.EntryPath())
	fmt.Println("higher token:", again.Token().Compare(hold.Token()) > 0)
	_, err := second.Attach(ctx, ticket)
	fmt.Println("once more:", errors.Is(err, lock.ErrAttached))
	again.Unlock()
	// Output:
	// same entry: true
	// higher token: true
	// once more: true
}

// New uses an existing connection of the service, and leaves it open.
func ExampleNew() {
	ensemble := newEnsemble()
	defer ensemble.Close()
	ctx := context.Background()

	conn, _, err := zk.Connect(ensemble.Servers(), 10*time.Second, zk.WithDialer(ensemble.Dial), zk.WithLogInfo(false))
	check(err)
	defer conn.Close()

	locks := must(lock.New(conn, lock.WithRoot("/shop/locks"), lock.WithSessionTimeout(10*time.Second)))
	defer locks.Close()
	check(locks.Mutex("till").Do(ctx, func(context.Context) error {
		fmt.Println("counting")
		return nil
	}))
	// Output: counting
}

// Txn writes only as the holder. If the process was paused and lost the lock meanwhile, nothing
// changes.
func ExampleHold_Txn() {
	ctx := context.Background()
	locks, done := newClient()
	defer done()

	hold := must(locks.Mutex("config").Lock(ctx))
	err := hold.Txn(ctx,
		lock.OpCreate("/config", []byte("v1"), 0, zk.WorldACL(zk.PermAll)),
		lock.OpCreate("/config/limits", []byte("10"), 0, zk.WorldACL(zk.PermAll)))
	fmt.Println("both written:", err == nil)

	err = hold.Txn(ctx, lock.OpSet("/config", []byte("v2"), 7))
	fmt.Println("another version:", errors.Is(err, zk.ErrBadVersion))

	// While the process is paused, another one ends the hold by force.
	must(admin.New(locks).Break(ctx, hold.EntryPath(), znode.Broken{Owner: "operator", Reason: "does not answer"}))
	err = hold.Txn(ctx, lock.OpSet("/config", []byte("v2"), 0))
	fmt.Println("too late:", errors.Is(err, lock.ErrLost))
	// Output:
	// both written: true
	// another version: true
	// too late: true
}

// The readiness check of a service, such as /readyz, fails while Check returns an error.
func ExampleClient_Check() {
	locks, done := newClient()
	defer done()

	readyz := func(w http.ResponseWriter, _ *http.Request) {
		if err := locks.Check(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
	answer := httptest.NewRecorder()
	readyz(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	fmt.Println(answer.Code)
	// Output: 200
}

// A loop finishes its work in time if the lock is about to be lost.
func ExampleHold_AtRisk() {
	ensemble := newEnsemble()
	defer ensemble.Close()
	ctx := context.Background()
	locks := must(lock.Dial(ctx, ensemble.Servers(), lock.WithTTL(4*time.Second), lock.WithSessionTimeout(4*time.Second), lock.WithDialer(ensemble.Dialer("shop"))))
	defer locks.Close()

	hold := must(locks.Mutex("import").Lock(ctx))
	check(ensemble.Partition("shop")) // no renewal succeeds from now on
	work := time.NewTicker(10 * time.Millisecond)
	defer work.Stop()
	for {
		select {
		case <-work.C: // the next piece
			continue
		case left := <-hold.AtRisk():
			fmt.Println("at risk, with time left to finish:", left > 100*time.Millisecond)
			if hold.Remaining() > 0 { // as of now: it may be safe again
				fmt.Println("saved")
			}
		case <-hold.Context().Done():
			fmt.Println("lost:", errors.Is(hold.Err(), lock.ErrExpired))
		}
		break
	}
	ensemble.Heal("shop")
	check(hold.Unlock())
	// Output:
	// at risk, with time left to finish: true
	// saved
}

// Use WithBarging for work that any process may do next: the fastest one gets the lock.
func ExampleMutex_WithBarging() {
	ctx := context.Background()
	locks, done := newClient()
	defer done()

	check(locks.Mutex("cache/refill").WithBarging().Do(ctx, func(context.Context) error {
		fmt.Println("refilled")
		return nil
	}))
	// Output: refilled
}

// Extend gives a hold a longer lease, for example before a pause of the process.
func ExampleHold_Extend() {
	ctx := context.Background()
	locks, done := newClient()
	defer done()

	hold := must(locks.Mutex("firmware", lock.WithTTL(time.Minute)).Lock(ctx))
	defer hold.Unlock()
	fmt.Println("for", hold.Remaining().Round(time.Minute))
	check(hold.Extend(ctx, 10*time.Minute)) // counted from now
	fmt.Println("for", hold.Remaining().Round(time.Minute))
	// Output:
	// for 1m0s
	// for 10m0s
}

// counter is an observer that counts events.
type counter struct {
	mu     sync.Mutex
	counts map[lock.EventKind]int
}

func (c *counter) Observe(_ context.Context, e lock.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[e.Kind]++
}

// A service counts the events of its locks. lock/observe has ready-made observers.
func ExampleWithObserver() {
	ensemble := newEnsemble()
	defer ensemble.Close()
	ctx := context.Background()
	observer := &counter{counts: map[lock.EventKind]int{}}
	locks := must(lock.Dial(ctx, ensemble.Servers(), lock.WithObserver(observer), lock.WithDialer(ensemble.Dial)))
	for range 3 {
		check(locks.Mutex("till").Do(ctx, func(context.Context) error { return nil }))
	}
	locks.Close()
	fmt.Println("acquired:", observer.counts[lock.EventAcquired], "lost:", observer.counts[lock.EventLost])
	// Output: acquired: 3 lost: 0
}

// A candidate with a higher priority leads next, although another candidate joined before it.
func ExampleElection_WithPriority() {
	ctx := context.Background()
	locks, done := newClient()
	defer done()

	leads := must(locks.Election("scheduler").Campaign(ctx, "spare"))
	next := make(chan string)
	var stood sync.WaitGroup
	stand := func(value string, priority int) {
		l := must(locks.Election("scheduler").WithPriority(priority).Campaign(ctx, value))
		next <- value
		check(l.Resign())
	}
	stood.Go(func() { stand("another spare", 1) })
	await(ctx, locks, 2) // until the first of them waits
	stood.Go(func() { stand("the best", 9) })
	await(ctx, locks, 3)
	check(leads.Resign())
	fmt.Println(<-next)
	fmt.Println(<-next)
	stood.Wait()
	// Output:
	// the best
	// another spare
}

// await waits until there are at least n candidates.
func await(ctx context.Context, locks *lock.Client, n int) {
	for {
		candidates := must(locks.Election("scheduler").Candidates(ctx))
		if len(candidates) >= n {
			return
		}
	}
}

func ExampleElection() {
	ensemble := newEnsemble()
	defer ensemble.Close()
	ctx := context.Background()
	dial := func() *lock.Client {
		return must(lock.Dial(ctx, ensemble.Servers(), lock.WithDialer(ensemble.Dial)))
	}
	one, two := dial(), dial()
	defer one.Close()
	defer two.Close()

	// A candidate publishes a value, and waits until it leads.
	leadership := must(one.Election("scheduler").Campaign(ctx, "10.0.0.1:8080"))
	// Work with leadership.Context(), which ends before another candidate leads. Pass its token to
	// resources that refuse earlier leaders' tokens.

	next := make(chan *lock.Leadership)
	go func() {
		l := must(two.Election("scheduler").Campaign(ctx, "10.0.0.2:8080"))
		next <- l
	}()

	// An observer is no candidate.
	for leader, err := range one.Election("scheduler").Observe(ctx) {
		check(err)
		if !leader.Leads { // there is no leader for a moment
			continue
		}
		fmt.Println("leader:", leader.Value)
		if leader.Value == "10.0.0.2:8080" {
			break
		}
		check(leadership.Resign())
	}
	check((<-next).Resign())
	_, err := two.Election("scheduler").Leader(ctx)
	fmt.Println("no leader:", errors.Is(err, lock.ErrNoLeader))
	// Output:
	// leader: 10.0.0.1:8080
	// leader: 10.0.0.2:8080
	// no leader: true
}

// A holder releases its lock when another client requests that.
func ExampleHold_Revoked() {
	ctx := context.Background()
	locks, done := newClient(lock.WithOwner("deploy"))
	defer done()

	hold := must(locks.Mutex("node3").Lock(ctx))
	// In another process:
	check(locks.Revoke(ctx, "node3", "node3 is drained"))

	select {
	case r := <-hold.Revoked():
		fmt.Printf("%s asks for %s: %s\n", r.Owner, hold.Name(), r.Reason)
	case <-hold.Context().Done():
		log.Fatal(hold.Err())
	}
	check(hold.Unlock())
	// Output: deploy asks for node3: node3 is drained
}
