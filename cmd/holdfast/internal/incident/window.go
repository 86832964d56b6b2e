package incident

import (
	"cmp"
	"slices"
	"time"
)

// window returns the part of the log that a picture of the lock shows, in the times of
// history.Machine.Elapsed. from is -1 if the lock has no row and Since is not set.
func (r *Report) window(l *Lock) (from, to time.Duration) {
	from, to = -1, -1
	for _, row := range r.Rows {
		if row.Lock != l.Name {
			continue
		}
		if from < 0 {
			from = row.at
		}
		to = max(to, row.at)
	}
	if !r.Since.IsZero() {
		from = r.begin(r.Since)
	}
	if !r.Until.IsZero() {
		return from, max(from, r.end(r.Until))
	}
	for _, lane := range l.Lanes() {
		to = max(to, r.until(lane))
	}
	return from, to
}

// ended returns the elapsed time at the log's end.
func (r *Report) ended() time.Duration {
	all := r.pieces()
	last := all[len(all)-1]
	return last.at + r.Last.Sub(last.stamp)
}

// begin returns the elapsed time at which the leader's clock first showed since or later. If it never
// did, begin returns the elapsed time at the log's end.
func (r *Report) begin(since time.Time) time.Duration {
	pieces := r.pieces()
	for i, p := range pieces {
		if at := p.at + since.Sub(p.stamp); at <= r.endOf(pieces, i) {
			return max(at, p.at)
		}
	}
	return r.ended()
}

// end returns the elapsed time at which the leader's clock last showed until or earlier; 0 if it never
// did.
func (r *Report) end(until time.Time) time.Duration {
	pieces := r.pieces()
	for i, p := range slices.Backward(pieces) {
		if at := p.at + until.Sub(p.stamp); at >= p.at {
			return min(at, r.endOf(pieces, i))
		}
	}
	return 0
}

// stamp returns what the leader's clock showed at an elapsed time.
func (r *Report) stamp(at time.Duration) time.Time {
	terms := r.pieces()
	i := len(terms) - 1
	for i > 0 && terms[i].at > at {
		i--
	}
	return terms[i].stamp.Add(at - terms[i].at)
}

// piece is a part of the log with one leader whose clock was not stepped. It begins at the elapsed
// time at, with the given stamp.
type piece struct {
	at    time.Duration
	stamp time.Time
}

func (r *Report) pieces() []piece {
	all := []piece{{0, r.First}}
	for _, e := range r.terms {
		all = append(all, piece{r.m.Elapsed(e), e.Time})
	}
	slices.SortStableFunc(all, func(a, b piece) int { return cmp.Compare(a.at, b.at) })
	return all
}

// endOf returns the elapsed time at the end of the i-th piece.
func (r *Report) endOf(pieces []piece, i int) time.Duration {
	if i+1 < len(pieces) {
		return pieces[i+1].at
	}
	return r.ended()
}

// until returns the elapsed time at the end of a lane: at the entry's end, or at the lease's end if the
// entry existed at the end of the log.
func (r *Report) until(lane *Lane) time.Duration {
	if lane.End != nil {
		return r.m.Elapsed(*lane.End)
	}
	if len(lane.Spans) == 0 {
		return 0
	}
	end := r.m.Elapsed(lane.Lease) + lane.Lease.TTL
	return max(end, r.m.Elapsed(lane.Spans[len(lane.Spans)-1].From))
}
