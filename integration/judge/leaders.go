package judge

import (
	"fmt"

	"github.com/holdfast-io/holdfast/integration/crew"
)

// OpShown is a record of a client that asked for an election's leader, and got Token and Value. No
// Token: it was told that there is no leader.
const OpShown = "shown"

// LeadersShown finds wrong answers about the leader of an election. It also counts the answers,
// and the answers without a leader. An answer is wrong in each of these cases:
//   - another candidate validly led during the whole question;
//   - a later leader was elected, or shown, before the question;
//   - the value is not that of the candidate with this token.
func LeadersShown(records []*crew.Record, byLock map[string][]*Hold) (found []string, shown, none int) {
	var answers []*crew.Record
	for _, r := range records {
		if r.Op == OpShown && r.Result == "" {
			answers = append(answers, r)
		}
	}
	for _, r := range answers {
		wrong := func(format string, args ...any) {
			found = append(found, fmt.Sprintf("election %s: %s was shown token %q from %d to %d, ", r.Lock, r.Worker, r.Token, r.Call, r.Return)+fmt.Sprintf(format, args...))
		}
		if shown++; r.Token == "" {
			none++
		}
		for _, h := range byLock[r.Lock] {
			switch {
			case h.Begin <= r.Call && h.End() >= r.Return && r.Token != h.Token:
				wrong("while %s led with token %s", h.Worker, h.Token)
			case h.grant == nil:
			case r.Token == h.Token && h.grant.Value != r.Value:
				wrong("with the value %q, and %s gave %q", r.Value, h.Worker, h.grant.Value)
			case r.Token != "" && r.Token < h.Token && h.grant.Return < r.Call:
				wrong("after %s had been elected with token %s", h.Worker, h.Token)
			}
		}
		for _, before := range answers {
			if before.Lock == r.Lock && before.Return < r.Call && r.Token != "" && r.Token < before.Token {
				wrong("after %s had been shown token %s", before.Worker, before.Token)
			}
		}
	}
	return found, shown, none
}
