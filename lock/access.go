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
	access.HoldOf = func(leadership any) any {
		l := leadership.(*Leadership)
		return &Hold{hold{client: l.client, e: l.e, t: l.t}}
	}
	access.LeadershipOf = func(hold any) any { return &Leadership{&hold.(*Hold).hold} }
	access.OfToken = func(token any) access.Token { return token.(Token).parts }
	access.MakeToken = func(parts access.Token) any { return Token{parts} }
}
