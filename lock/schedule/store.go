package schedule

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/admin"
)

// absent stands for the version of a missing node.
const absent = -1

// read returns the job's record and the version of its node. If the node is missing, read returns a
// zero record and absent.
func (j *Job) read(ctx context.Context) (*record, int32, error) {
	data, stat, err := j.tree.Get(ctx, j.path)
	if errors.Is(err, zk.ErrNoNode) {
		return &record{}, absent, nil
	}
	if err != nil {
		return nil, 0, unread(j.name, j.path, err)
	}
	rec, err := decode(data)
	if err != nil {
		return nil, 0, fmt.Errorf("job %q: %s: %w", j.name, j.path, err)
	}
	return &rec, stat.Version, nil
}

// unread returns the error of a failed read of the job's record.
func unread(name, path string, err error) error {
	if errors.Is(err, zk.ErrNoAuth) {
		err = fmt.Errorf("%w: the node's ACL does not let us: %w", lock.ErrDenied, err)
	}
	return fmt.Errorf("job %q: read %s: %w", name, path, err)
}

// write sets Job and Next of the record, and writes it over the given version of the node, as the
// holder of hold. It fails with errChanged if another replica has written or deleted the node since
// it had that version.
func (j *Job) write(ctx context.Context, hold *lock.Hold, rec *record, version int32) error {
	rec.Job, rec.Next = j.name, j.next(rec.Upto)
	data, err := rec.encode()
	if err != nil {
		return fmt.Errorf("job %q: %w", j.name, err)
	}
	ops := []lock.Op{lock.OpSet(j.path, data, version)}
	if version == absent {
		if ops, err = j.creates(ctx, data); err != nil {
			return err
		}
	}
	err = hold.Txn(ctx, ops...)
	answer := admin.Answer(err)
	if errors.Is(answer, zk.ErrBadVersion) || errors.Is(answer, zk.ErrNodeExists) || errors.Is(answer, zk.ErrNoNode) {
		return errChanged
	}
	if err != nil {
		return fmt.Errorf("job %q: write %s: %w", j.name, j.path, err)
	}
	return nil
}

var errChanged = errors.New("the record has changed")

// creates returns the operations that create the job's node and its missing ancestors.
func (j *Job) creates(ctx context.Context, data []byte) ([]lock.Op, error) {
	acl := j.tree.Identity().ACL
	ops := []lock.Op{lock.OpCreate(j.path, data, 0, acl)}
	for above := path.Dir(j.path); above != "/"; above = path.Dir(above) {
		switch _, _, err := j.tree.Get(ctx, above); {
		case err == nil || errors.Is(err, zk.ErrNoAuth): // the node exists
			return ops, nil
		case !errors.Is(err, zk.ErrNoNode):
			return nil, unread(j.name, above, err)
		}
		ops = slices.Insert(ops, 0, lock.OpCreate(above, nil, 0, acl))
	}
	return ops, nil
}
