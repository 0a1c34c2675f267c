package cli

import (
	"strings"
	"unicode/utf8"
)

// helpWidth is as wide as help gets: longer lines are hard to read.
const helpWidth = 80

// inside stands for a space inside of backquotes, where no line ends.
const inside = "\x00"

// Wrap breaks a text into lines of at most width columns, where words end; 0 or
// less: it is one line. Lines of a paragraph are joined first; those that begin with a
// space are kept. Each line but the first begins with indent.
func Wrap(text string, width int, indent string) string {
	parts := strings.Split(text, "`")
	for i := 1; i < len(parts)-1; i += 2 {
		parts[i] = strings.Join(strings.Fields(parts[i]), inside)
	}
	var lines []string
	line := ""
	flush := func() {
		if line != "" {
			lines = append(lines, line)
		}
		line = ""
	}
	for raw := range strings.SplitSeq(strings.Join(parts, "`"), "\n") {
		if raw == "" || raw[0] == ' ' {
			flush()
			lines = append(lines, raw)
			continue
		}
		for word := range strings.FieldsSeq(raw) {
			room := width
			if len(lines) > 0 {
				room -= utf8.RuneCountInString(indent)
			}
			switch {
			case line == "":
				line = word
			case width > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > room:
				flush()
				line = word
			default:
				line += " " + word
			}
		}
	}
	flush()
	return strings.ReplaceAll(strings.Join(lines, "\n"+indent), inside, " ")
}
