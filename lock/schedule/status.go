package schedule

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Status returns the job's record. A run whose hold has ended is shown as Unfinished, also if no
// replica has recorded that yet. If there is no record, for example before the first call of
// [Job.Run] or [Job.Once], Upto is zero.
func (j *Job) Status(ctx context.Context) (Status, error) {
	s, _, err := readStatus(ctx, j.tree, j.path, j.name)
	return s, err
}

// List returns the status of all jobs whose records are below base, sorted by name. A base of ""
// means [DefaultPath]. If some jobs cannot be read, List returns an error and the other jobs. If
// ctx ends, List returns the cause and no jobs.
func List(ctx context.Context, locks *lock.Client, base string) ([]Status, error) {
	if locks == nil {
		return nil, invalid("client", "nil", "must come from lock.Dial or lock.New")
	}
	tree := admin.New(locks)
	base, err := checkPath(tree, base)
	if err != nil {
		return nil, err
	}
	var all []Status
	var failed []error
	for names := []string{""}; len(names) > 0 && ctx.Err() == nil; names = names[1:] {
		at := path.Join(base, names[0])
		children, _, err := tree.Children(ctx, at)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			failed = append(failed, fmt.Errorf("list %s: %w", at, err))
		}
		for _, child := range children {
			names = append(names, path.Join(names[0], child))
		}
		if names[0] == "" {
			continue
		}
		s, found, err := readStatus(ctx, tree, at, names[0])
		switch {
		case err != nil:
			failed = append(failed, err)
		case found:
			all = append(all, s)
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Job, b.Job) })
	return all, errors.Join(failed...)
}

// Forget deletes the record of a job that has no replicas any more, for example because it was
// renamed. base is as for [List]. Forget fails with [lock.ErrHeld] if a replica decides or runs a
// tick at the moment, and with [zk.ErrNoNode] if there is no record. A replica that runs the job
// afterwards begins a new record: only later ticks run.
func Forget(ctx context.Context, locks *lock.Client, base, name string) error {
	if locks == nil {
		return invalid("client", "nil", "must come from lock.Dial or lock.New")
	}
	tree := admin.New(locks)
	base, err := checkPath(tree, base)
	if err != nil {
		return err
	}
	if err := znode.CheckName(name); err != nil {
		return fmt.Errorf("%w: job: %w", lock.ErrInvalid, err)
	}
	hold, err := locks.Mutex("jobs/" + name).TryLock(ctx)
	if err != nil {
		return err
	}
	defer unlock(hold)
	at := path.Join(base, name)
	data, stat, err := tree.Get(ctx, at)
	if err == nil && len(data) == 0 { // an ancestor of other jobs
		err = zk.ErrNoNode
	}
	var rec record
	if err == nil {
		rec, err = decode(data)
	}
	if err != nil {
		return unread(name, at, err)
	}
	for _, run := range rec.Runs {
		if run.Outcome == Running && run.Lock != hold.Name() { // the run has a lock of its own
			its, err := locks.Mutex(run.Lock).TryLock(ctx)
			if err != nil {
				return err
			}
			unlock(its)
		}
	}
	err = hold.Txn(ctx, lock.OpDelete(at, stat.Version))
	if errors.Is(admin.Answer(err), zk.ErrNotEmpty) { // other jobs are below it
		err = hold.Txn(ctx, lock.OpSet(at, nil, stat.Version))
	}
	if err != nil {
		return fmt.Errorf("job %q: delete %s: %w", name, at, err)
	}
	return nil
}

// readStatus reads the record of a job, and marks runs as Unfinished whose holds have ended. A run
// may end between the reads, so readStatus reads the record again before it takes a run for
// crashed. found reports whether there is a record.
func readStatus(ctx context.Context, tree admin.Tree, at, name string) (s Status, found bool, err error) {
	var crashed map[string]bool // tokens of the crashed runs
	for range 2 {
		data, _, err := tree.Get(ctx, at)
		if errors.Is(err, zk.ErrNoNode) {
			return Status{Job: name}, false, nil
		}
		if err != nil {
			return Status{Job: name}, false, unread(name, at, err)
		}
		rec, err := decode(data)
		if err != nil {
			return Status{Job: name}, false, fmt.Errorf("job %q: %s: %w", name, at, err)
		}
		s = rec.Status
		s.Job, s.Path = name, at
		if crashed != nil {
			break
		}
		if crashed, err = crashedRuns(ctx, tree, s.Runs); err != nil {
			return s, false, fmt.Errorf("job %q: %w", name, err)
		}
		if len(crashed) == 0 {
			break
		}
	}
	for i, run := range s.Runs {
		if run.Outcome == Running && crashed[run.Token] {
			s.Runs[i].Outcome = Unfinished
		}
	}
	return s, !s.Upto.IsZero(), nil
}

// crashedRuns returns the tokens of the runs that are recorded as Running, but whose holds have
// ended.
func crashedRuns(ctx context.Context, tree admin.Tree, runs []Run) (map[string]bool, error) {
	crashed := map[string]bool{}
	for _, run := range runs {
		if run.Outcome != Running {
			continue
		}
		token, err := entryToken(run.Token)
		if err != nil {
			return nil, err
		}
		state, err := tree.Inspect(ctx, run.Lock)
		if err != nil {
			return nil, err
		}
		lives := slices.ContainsFunc(state.Contenders, func(c admin.Contender) bool {
			return c.Token == token && !c.Read.Earliest().After(c.Expires)
		})
		if !lives {
			crashed[run.Token] = true
		}
	}
	return crashed, nil
}
