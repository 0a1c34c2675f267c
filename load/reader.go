package load

import (
	"fmt"
	"strings"
)

// reader takes words off a short text.
type reader struct{ text string }

func (r *reader) blank() { r.text = strings.TrimLeft(r.text, " \t") }

// skip takes a mark, if it is next.
func (r *reader) skip(mark string) bool {
	r.blank()
	rest, ok := strings.CutPrefix(r.text, mark)
	if ok {
		r.text = rest
	}
	return ok
}

// name takes a name with dots.
func (r *reader) name() string {
	r.blank()
	n := 0
	for n < len(r.text) {
		c := r.text[n]
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (n == 0 || c != '.' && c != '-' && (c < '0' || c > '9')) {
			break
		}
		n++
	}
	name := r.text[:n]
	r.text = r.text[n:]
	return name
}

// number takes digits, with a sign and a point.
func (r *reader) number() string {
	r.blank()
	n := 0
	for n < len(r.text) && (r.text[n] >= '0' && r.text[n] <= '9' || r.text[n] == '.' || n == 0 && r.text[n] == '-') {
		n++
	}
	if n == 1 && r.text[0] == '-' {
		return ""
	}
	text := r.text[:n]
	r.text = r.text[n:]
	return text
}

// quoted takes a text in single or double quotes, in which a backslash takes the
// next letter as it is.
func (r *reader) quoted() (string, bool, error) {
	r.blank()
	if r.text == "" || r.text[0] != '\'' && r.text[0] != '"' {
		return "", false, nil
	}
	q := r.text[0]
	var b strings.Builder
	for i := 1; i < len(r.text); i++ {
		switch c := r.text[i]; {
		case c == q:
			r.text = r.text[i+1:]
			return b.String(), true, nil
		case c == '\\' && i+1 < len(r.text):
			i++
			b.WriteByte(r.text[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", false, fmt.Errorf("%.40s: the closing quote is missing", r.text)
}
