package main

import "context"

// free is workload A: one client locks and unlocks a lock that no other client wants, again and
// again.
func free(title string, bars ...bar) *experiment {
	return &experiment{
		table: table{"A", title, []figure{{"lock + unlock, median", milliseconds}, {"requests", decimals}, {"transactions", decimals}, {"bytes out", kilobytes}, {"bytes in", kilobytes}}, bars},
		turns: 12, takes: all,
		prepare: func(ctx context.Context, s *site, p *peer) (trial, error) {
			if p.open == nil {
				return startProcess(ctx, s, p, 1, task{command: []any{"free", s.cycles}, warmUp: s.warmUp, figures: freeFigures})
			}
			return withClients(1, freeLock(false))(ctx, s, p)
		},
	}
}

// freeAnew is free with another lock each time.
func freeAnew(title string, bars ...bar) *experiment {
	e := free(title, bars...)
	e.takes, e.prepare = goPeers, withClients(1, freeLock(true))
	return e
}

func freeLock(anew bool) func(context.Context, *crew) (round, error) {
	return func(ctx context.Context, c *crew) (round, error) {
		lockers := []locker{c.sessions[0].locker(c.newPath())}
		cycles := func(ctx context.Context, n int) ([]float64, error) {
			if anew {
				lockers = lockers[:0]
				for range n {
					lockers = append(lockers, c.sessions[0].locker(c.newPath()))
				}
			}
			return timed(n, func(i int) error { return lockers[i%len(lockers)].cycle(ctx) })
		}
		_, err := cycles(ctx, 30) // warms up
		return func(ctx context.Context) (turn, error) {
			var done performance
			var err error
			done.each, err = c.costOf(ctx, c.sessions, func() (int, error) {
				done.times, err = cycles(ctx, c.cycles)
				return len(done.times), err
			})
			if err != nil {
				return nil, err
			}
			return freeFigures(done), c.settle(ctx)
		}, err
	}
}

func freeFigures(done performance) turn {
	return turn{median(done.times), done.each.requests, done.each.transactions, done.each.out, done.each.in}
}
