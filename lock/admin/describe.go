package admin

import (
	"context"
	"fmt"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/internal/access"
	"github.com/holdfast-io/holdfast/lock/znode"
)

// Describe replaces the metadata of a hold's entry, see [lock.WithMetadata], and waits until ZooKeeper
// has acknowledged that. If ctx ends first, the next renewal writes the metadata. Metadata that is not
// allowed, and the hold of a leader of an election, are a [lock.ErrInvalid]; if the hold has ended,
// Describe returns the reason.
func Describe(ctx context.Context, hold *lock.Hold, metadata map[string]string) error {
	if hold == nil || ctx == nil {
		return fmt.Errorf("%w: describe: hold and context must not be nil", lock.ErrInvalid)
	}
	if err := znode.CheckMetadata(metadata); err != nil {
		return fmt.Errorf("%w: metadata: %w", lock.ErrInvalid, err)
	}
	_, leads := hold.Metadata()[znode.ValueKey]
	if _, value := metadata[znode.ValueKey]; leads || value {
		return fmt.Errorf("%w: describe: the value of a leader is changed by Leadership.Proclaim", lock.ErrInvalid)
	}
	return access.Describe(ctx, hold, metadata)
}
