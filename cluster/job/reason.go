package job

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/skein-project/skein/cluster"
)

// ReasonOf turns an error into a failure reason: valid UTF-8 of one line without
// control characters, 1 to cluster.MaxReason bytes. A guest's own words may be in
// it, and it will be shown on terminals.
func ReasonOf(err error) string {
	s := OneLine(err.Error())
	if s == "" {
		return "failed without a reason"
	}
	return Clip(s, cluster.MaxReason)
}

// OneLine is s as valid UTF-8 of one line without control characters.
func OneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == '\t' || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	return strings.Join(strings.Fields(s), " ")
}

// Clip cuts s to at most n bytes without cutting a rune.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const mark = "..."
	cut := n - len(mark)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + mark
}
