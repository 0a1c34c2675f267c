package web

import (
	"html"
	"strings"

	"github.com/skein-project/skein/present"
)

// markup is HTML of this program's own: nothing that comes from elsewhere has this
// type, it goes through text and attr.
type markup string

// Most that is shown of a text, in characters.
const (
	mostWord = 120 // a name, a cell of a table
	mostSaid = 600 // a sentence, a reason
)

// doc is a page that is being written. The library's templates would do the same, and
// make the program 5 MB larger: the linker keeps every exported method for them.
type doc struct{ strings.Builder }

// put writes markup.
func (d *doc) put(parts ...markup) {
	for _, p := range parts {
		d.WriteString(string(p))
	}
}

// text writes what somebody else wrote, cut, with what cannot be seen made visible;
// nothing in it is obeyed, nor turns the direction of what stands beside it.
func (d *doc) text(s string, most int) {
	d.put("<bdi>")
	d.WriteString(escaped(s, most))
	d.put("</bdi>")
}

// attr writes an attribute.
func (d *doc) attr(name markup, value string) {
	d.put(" ", name, `="`)
	d.WriteString(html.EscapeString(value))
	d.put(`"`)
}

func escaped(s string, most int) string { return html.EscapeString(clean(s, most)) }

// clean is at most so many characters of s that can be seen.
func clean(s string, most int) string {
	n := 0
	for i := range s {
		if n++; n > most {
			s = s[:i] + "…"
			break
		}
	}
	return present.Plain(s)
}

// tones are the shape and the class of a state, as the page has them.
var tones = map[present.Tone][2]markup{
	present.Good: {"●", "ok"}, present.Doubtful: {"▲", "warn"}, present.Bad: {"✕", "bad"}, present.Neutral: {"◆", "dim"},
}

// state writes a word that stands for a state, with its shape and colour.
func (d *doc) state(word string) {
	t := tones[present.ToneOf(word)]
	d.put(`<span class="state `, t[1], `"><span aria-hidden="true">`, t[0], `</span> `)
	d.text(word, mostWord)
	d.put(`</span>`)
}
