package lines

import (
	"fmt"
	"strconv"
	"strings"
)

// lineScanner finds on which line each key and each item of a list begins. The
// decoder tells positions by the name of a key alone, and steps of a flow all have
// the same names. It reads texts that the decoder has taken: what it does not
// understand it passes over.
type lineScanner struct {
	text  string
	at    int
	line  int
	lines map[string]int
	items map[string]int // of lists of tables
}

// Of maps places to their lines: a key is "flow.main#0.get", an item of a list "thresholds#1".
func Of(text string) map[string]int {
	s := &lineScanner{text: text, line: 1, lines: map[string]int{}, items: map[string]int{}}
	s.run()
	return s.lines
}

func (s *lineScanner) run() {
	prefix := place("")
	for s.skipSpace(true); s.at < len(s.text); s.skipSpace(true) {
		if s.text[s.at] == '[' {
			prefix = s.header()
			continue
		}
		begin := s.line
		key := s.key("=")
		if s.at >= len(s.text) {
			return
		}
		s.at++ // the =
		at := prefix
		for _, name := range key {
			at = at.key(name)
			if s.lines[string(at)] == 0 {
				s.lines[string(at)] = begin
			}
		}
		s.value(at)
	}
}

// header reads [name] or [[name]] and returns the place that follows.
func (s *lineScanner) header() place {
	begin := s.line
	s.at++
	list := s.at < len(s.text) && s.text[s.at] == '['
	if list {
		s.at++
	}
	names := s.key("]")
	for s.at < len(s.text) && s.text[s.at] == ']' {
		s.at++
	}
	at := place("")
	for i, name := range names {
		at = at.key(name)
		if n, ok := s.items[string(at)]; ok && i < len(names)-1 {
			at = at.item(n - 1)
		}
	}
	if list {
		n := s.items[string(at)]
		s.items[string(at)] = n + 1
		if n == 0 {
			s.lines[string(at)] = begin
		}
		at = at.item(n)
	}
	s.lines[string(at)] = begin
	return at
}

// key reads a dotted name up to a byte of end.
func (s *lineScanner) key(end string) (names []string) {
	var b strings.Builder
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case strings.IndexByte(end, c) >= 0:
			return append(names, b.String())
		case c == '\n':
			s.line++
			s.at++
			return append(names, b.String())
		case c == '.':
			names = append(names, b.String())
			b.Reset()
		case c == '"' || c == '\'':
			begin := s.at
			s.quoted()
			name := s.text[begin:s.at]
			if plain, err := strconv.Unquote(name); err == nil {
				name = plain
			}
			b.WriteString(strings.Trim(name, "'"))
			continue
		case c != ' ' && c != '\t':
			b.WriteByte(c)
		}
		s.at++
	}
	return append(names, b.String())
}

// value passes over a value, and notes the items of a list and the keys of a table.
func (s *lineScanner) value(at place) {
	s.skipSpace(false)
	if s.at >= len(s.text) {
		return
	}
	switch s.text[s.at] {
	case '[':
		s.at++
		for i := 0; ; i++ {
			s.skipSpace(true)
			if s.at >= len(s.text) || s.text[s.at] == ']' {
				s.at++
				return
			}
			s.lines[string(at.item(i))] = s.line
			before := s.at
			s.value(at.item(i))
			s.skipSpace(true)
			if s.at < len(s.text) && s.text[s.at] == ',' {
				s.at++
			} else if s.at == before {
				return
			}
		}
	case '{':
		s.at++
		for {
			s.skipSpace(true)
			if s.at >= len(s.text) || s.text[s.at] == '}' {
				s.at++
				return
			}
			begin, before := s.line, s.at
			inner := at
			for _, name := range s.key("=}") {
				inner = inner.key(name)
				s.lines[string(inner)] = begin
			}
			if s.at >= len(s.text) || s.text[s.at] != '=' {
				return
			}
			s.at++
			s.value(inner)
			s.skipSpace(true)
			if s.at < len(s.text) && s.text[s.at] == ',' {
				s.at++
			} else if s.at == before {
				return
			}
		}
	case '"', '\'':
		s.quoted()
	default:
		for s.at < len(s.text) && !strings.ContainsRune(",]}\n#", rune(s.text[s.at])) {
			s.at++
		}
	}
}

// quoted passes over a text in quotes of any kind.
func (s *lineScanner) quoted() {
	q := s.text[s.at : s.at+1]
	end := q
	if strings.HasPrefix(s.text[s.at:], q+q+q) {
		end = q + q + q
	}
	s.at += len(end)
	for s.at < len(s.text) {
		switch {
		case strings.HasPrefix(s.text[s.at:], end):
			s.at += len(end)
			for len(end) == 3 && s.at < len(s.text) && s.text[s.at] == q[0] { // quotes may end the text
				s.at++
			}
			return
		case q == `"` && s.text[s.at] == '\\' && s.at+1 < len(s.text):
			s.at++
		}
		if s.text[s.at] == '\n' {
			s.line++
			if len(end) == 1 {
				return
			}
		}
		s.at++
	}
}

// skipSpace passes over blanks, and over comments and ends of lines if all is true.
func (s *lineScanner) skipSpace(all bool) {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '\n' && all:
			s.line++
		case c == ' ' || c == '\t' || c == '\r':
		case c == '#' && all:
			for s.at < len(s.text) && s.text[s.at] != '\n' {
				s.at++
			}
			continue
		default:
			return
		}
		s.at++
	}
}

// place is where something stands, as package load has it.
type place string

func (p place) key(name string) place {
	if p == "" {
		return place(name)
	}
	return p + "." + place(name)
}

func (p place) item(i int) place { return place(fmt.Sprintf("%s#%d", p, i)) }
