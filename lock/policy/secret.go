package policy

import "fmt"

const redacted = "[redacted]"

// Secret is a text that logs, messages, JSON and YAML do not show: it prints and marshals as
// "[redacted]". Only [Secret.Reveal] returns the text. The zero Secret is empty.
type Secret struct {
	// A pointer, because fmt prints unexported fields without calling their methods: of a pointer
	// it prints the address.
	text *string
}

// NewSecret returns text as a secret.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal returns the text.
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
