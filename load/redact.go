package load

import "strings"

// leastSecret is how long a secret is at least; shorter ones are everywhere, and none.
const leastSecret = 4

// Redact takes secrets out of a text that people see, in whatever form a template writes them.
func Redact(text string, secrets []string) string {
	for _, s := range secrets {
		if len(s) < leastSecret {
			continue
		}
		text = strings.ReplaceAll(text, s, "[redacted]")
		for _, form := range []escape{inJSON, inForm, inURL} {
			text = strings.ReplaceAll(text, string(escaped([]byte(s), 0, form)), "[redacted]")
		}
		for line := range strings.Lines(s) { // of a text that is shown line by line
			if line = strings.TrimSpace(line); len(line) < len(s) && len(line) >= 2*leastSecret {
				text = strings.ReplaceAll(text, line, "[redacted]")
			}
		}
	}
	return text
}
