package config

// Secret is a text that prints as [redacted] everywhere: in logs, errors,
// JSON and with every verb of fmt.
type Secret struct{ text string }

// redacted is what every form of a Secret shows.
const redacted = "[redacted]"

// NewSecret hides text.
func NewSecret(text string) Secret { return Secret{text: text} }

// Reveal returns the text.
func (s Secret) Reveal() string { return s.text }

// String returns [redacted].
func (Secret) String() string { return redacted }

// GoString returns [redacted].
func (Secret) GoString() string { return redacted }

// MarshalText returns [redacted].
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
