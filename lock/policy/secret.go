package policy

import "fmt"

const redacted = "[redacted]"

// Secret is a text that does not show in logs, messages, JSON or YAML: printed
// or marshalled in whatever way, it is "[redacted]". Only [Secret.Reveal] gives
// it away. The zero Secret is empty.
type Secret struct {
	// A pointer, since fmt prints the unexported fields of a struct without
	// asking their methods: what it then shows of a Secret is an address.
	text *string
}

// NewSecret returns text as a secret.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal returns the text itself.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// String returns "[redacted]".
func (Secret) String() string { return redacted }

// Format writes "[redacted]" for every verb of package fmt.
func (Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, redacted) }

// MarshalText returns "[redacted]", for JSON and YAML too.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
