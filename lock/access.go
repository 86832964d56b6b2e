package lock

import (
	"context"

	"github.com/holdfast-io/holdfast/lock/internal/access"
)

func init() {
	access.OfClient = func(client any) access.Client { return client.(*Client).access() }
	access.Describe = func(ctx context.Context, hold any, metadata map[string]string) error {
		h := hold.(*Hold)
		if err := h.check(ctx, "describe"); err != nil {
			return err
		}
		return h.e.Describe(ctx, metadata)
	}
	access.OfToken = func(token any) access.Token { return token.(Token).parts }
	access.MakeToken = func(parts access.Token) any { return Token{parts} }
}
