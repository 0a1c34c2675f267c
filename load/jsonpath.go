package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Path leads to a value in a JSON text: $.a.b[0]['c d'].
type Path struct {
	steps []pathStep
}

type pathStep struct {
	name  string
	index int // of a list; -1: name counts
}

// maxPath bounds the steps of a path, and with it how deep it looks.
const maxPath = 32

// ParsePath reads a path.
func ParsePath(text string) (Path, error) {
	var p Path
	r := &reader{text: text}
	if !r.skip("$") {
		return p, fmt.Errorf("JSON path %q: want $ first, as $.token", text)
	}
	for r.blank(); r.text != ""; r.blank() {
		st := pathStep{index: -1}
		switch {
		case r.skip("["):
			name, quoted, err := r.quoted()
			if err != nil {
				return p, fmt.Errorf("JSON path %q: %w", text, err)
			}
			if st.name = name; !quoted {
				n, err := strconv.Atoi(r.number())
				if err != nil || n < 0 {
					return p, fmt.Errorf("JSON path %q: want a number or a name in quotes in brackets", text)
				}
				st.index = n
			}
			if !r.skip("]") {
				return p, fmt.Errorf("JSON path %q: the closing bracket is missing", text)
			}
		case r.skip("."):
			n := strings.IndexAny(r.text, ".[")
			if n < 0 {
				n = len(r.text)
			}
			st.name, r.text = strings.TrimSpace(r.text[:n]), r.text[n:]
			if st.name == "" || strings.ContainsAny(st.name, "*?()@'\"") {
				return p, fmt.Errorf("JSON path %q: %q is no name; wildcards and filters are not known", text, st.name)
			}
		default:
			return p, fmt.Errorf("JSON path %q: want . or [ before %q", text, r.text)
		}
		if p.steps = append(p.steps, st); len(p.steps) > maxPath {
			return p, fmt.Errorf("JSON path %q has more than %d steps", text, maxPath)
		}
	}
	return p, nil
}

// Find returns the bytes of the value that p leads to, nil if there is none. It
// allocates nothing, and goes through the text once.
func (p Path) Find(text []byte) []byte {
	at := spaces(text, 0)
	for _, st := range p.steps {
		if at = st.into(text, at); at < 0 {
			return nil
		}
	}
	end := skipValue(text, at)
	if end < 0 {
		return nil
	}
	return text[at:end]
}

// into returns where the member begins in the object or list at a place, -1 if it
// is not there.
func (st pathStep) into(text []byte, at int) int {
	if at >= len(text) {
		return -1
	}
	object := text[at] == '{'
	if !object && text[at] != '[' || object != (st.index < 0) {
		return -1
	}
	for i := 0; ; i++ {
		at = spaces(text, at+1)
		if at >= len(text) || text[at] == '}' || text[at] == ']' {
			return -1
		}
		found := i == st.index
		if object {
			end := skipString(text, at)
			if end < 0 {
				return -1
			}
			found = sameName(text[at:end], st.name)
			if at = spaces(text, end); at >= len(text) || text[at] != ':' {
				return -1
			}
			at = spaces(text, at+1)
		}
		if found {
			return at
		}
		if at = skipValue(text, at); at < 0 {
			return -1
		}
		if at = spaces(text, at); at >= len(text) || text[at] != ',' {
			return -1
		}
	}
}

func sameName(quoted []byte, name string) bool {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner) == name
	}
	var s string
	return json.Unmarshal(quoted, &s) == nil && s == name
}

func spaces(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r') {
		at++
	}
	return at
}

// skipString returns where the text in quotes at a place ends, -1 if it does not.
func skipString(text []byte, at int) int {
	if at >= len(text) || text[at] != '"' {
		return -1
	}
	for at++; at < len(text); at++ {
		switch text[at] {
		case '\\':
			at++
		case '"':
			return at + 1
		}
	}
	return -1
}

// skipValue returns where the value at a place ends, -1 if there is none.
func skipValue(text []byte, at int) int {
	if at >= len(text) {
		return -1
	}
	switch c := text[at]; {
	case c == '"':
		return skipString(text, at)
	case c == '{' || c == '[':
		for depth := 0; at < len(text); {
			switch text[at] {
			case '"':
				if at = skipString(text, at); at < 0 {
					return -1
				}
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return at + 1
				}
			}
			at++
		}
		return -1
	case c == '-' || c >= '0' && c <= '9' || c == 't' || c == 'f' || c == 'n':
		end := at
		for end < len(text) && strings.IndexByte(",]} \n\t\r", text[end]) < 0 {
			end++
		}
		return end
	}
	return -1
}

// plainValue is a value as a text: strings without their quotes.
func plainValue(raw []byte) []byte {
	if len(raw) < 2 || raw[0] != '"' {
		return raw
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return raw
	}
	return []byte(s)
}
