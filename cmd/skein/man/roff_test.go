package man

import "testing"

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"--follow":       `\-\-follow`,
		".dot begins":    `\&.dot begins`,
		"'quote' begins": `\(aqquote\(aq begins`,
		`a\b`:            `a\eb`,
		"± 1":            `\[u00B1] 1`,
		"`skein run`":    "skein run",
		"a\x1b[1m\tb":    "a[1m b",
		"~/x^y":          `\(ti/x\(hay`,
	} {
		if got := escape(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := argument(`say "no"`); got != `"say \(dqno\(dq"` {
		t.Errorf("argument: %s", got)
	}
	for text, want := range map[string]string{"Submit": "submit", "HTTP": "HTTP", "": ""} {
		if got := lower(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
