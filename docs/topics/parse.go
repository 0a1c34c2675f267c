package topics

import (
	"regexp"
	"strings"
)

// What a Part is.
const (
	Text  = "text"
	Item  = "item" // of a list, with its mark
	Code  = "code" // lines as they are
	Head  = "head"
	Table = "table"
)

// Part is a piece of a topic.
type Part struct {
	Is   string     `json:"is"`
	Text string     `json:"text,omitempty"`
	Rows [][]string `json:"rows,omitempty"` // of a table; the first has the names of the columns, if they have any
	// Gap is how many empty lines follow.
	Gap int `json:"-"`
}

var item = regexp.MustCompile(`^(-|[0-9]+\.) `)

// ItemMark is the mark at the beginning of an item.
func ItemMark(s string) string { return item.FindString(s) }

var link = regexp.MustCompile(`\[([^][]+)\]\(([^()\s]+)\)`)

// Unlinked is s with what its links say: a link to a section is what section makes of it.
func Unlinked(s string, section func(name string) string) string {
	s = link.ReplaceAllStringFunc(s, func(l string) string {
		m := link.FindStringSubmatch(l)
		if name, ok := strings.CutPrefix(m[2], "#"); ok {
			return m[1] + " (" + section(name) + ")"
		}
		if m[1] == m[2] {
			return "docs/" + m[2]
		}
		return m[1] + " (" + m[2] + ")"
	})
	return strings.ReplaceAll(s, "**", "")
}

// Parse takes the Markdown of a topic apart. Links and marks within a line stay.
func Parse(text string) []Part {
	var out []Part
	var p Part // not ended yet, unless Is is empty
	end := func() {
		if p.Is == Table && len(p.Rows) > 1 {
			p.Rows = append(p.Rows[:1], p.Rows[2:]...) // without the line below the names
			if strings.Join(p.Rows[0], "") == "" {
				p.Rows = p.Rows[1:]
			}
		}
		if p.Is != "" {
			out = append(out, p)
		}
		p = Part{}
	}
	fenced := false
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			end()
			if fenced = !fenced; fenced {
				p.Is = Code
			}
		case fenced && p.Text == "":
			p.Text = line
		case fenced:
			p.Text += "\n" + line
		case line == "":
			end()
			if len(out) > 0 {
				out[len(out)-1].Gap++
			}
		case strings.HasPrefix(line, "#"):
			end()
			p = Part{Is: Head, Text: strings.TrimLeft(line, "# ")}
			end()
		case strings.HasPrefix(line, "|"):
			if p.Is != Table {
				end()
			}
			row := strings.TrimSuffix(strings.TrimSpace(strings.ReplaceAll(line, `\|`, "\x00")), "|")
			cells := strings.Split(strings.TrimPrefix(row, "|"), "|")
			for i, c := range cells {
				cells[i] = strings.ReplaceAll(strings.TrimSpace(c), "\x00", "|")
			}
			p.Is, p.Rows = Table, append(p.Rows, cells)
		case item.MatchString(line):
			end()
			p = Part{Is: Item, Text: line}
		case p.Is == Text || p.Is == Item:
			p.Text += "\n" + strings.TrimSpace(line)
		default:
			end()
			p = Part{Is: Text, Text: strings.TrimSpace(line)}
		}
	}
	end()
	return out
}
