package joblogs

import "testing"

// TestShown: what a job wrote does not move the cursor, and text in any language stays.
func TestShown(t *testing.T) {
	for text, want := range map[string]string{
		"plain\n\ttext\r\n":        "plain\n\ttext\n",
		"\x1b[2J\x07 red\u009b31m": `\x1b[2J\x07 red\x9b31m`,
		"gr\u00fc\u00df, \u4e16":   "gr\u00fc\u00df, \u4e16",
		"\u202eevil":               `\u202eevil`,
		"a\rb":                     `a\x0db`,
	} {
		if got := shown(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
