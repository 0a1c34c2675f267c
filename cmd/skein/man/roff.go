package man

import (
	"fmt"
	"strings"
)

// section of the pages about commands: they are for who looks after a machine.
const section = 8

// page is a manual page in the making, in the macros of man(7).
type page struct{ b strings.Builder }

// newPage begins the page of name: date and version stand in its margins.
func newPage(name string, section int, title string, o Options) *page {
	p := &page{}
	fmt.Fprintf(&p.b, ".TH %s %d %s %s skein\n.nh\n", argument(strings.ToUpper(name)), section, `"`+o.Date+`"`, argument("skein "+o.Version))
	p.section("NAME")
	p.b.WriteString(escape(name) + ` \- ` + escape(lower(title)) + "\n")
	return p
}

func (p *page) section(title string) { p.b.WriteString(".SH " + argument(title) + "\n") }

func (p *page) subsection(title string) { p.b.WriteString(".SS " + argument(title) + "\n") }

// text writes paragraphs, which empty lines separate.
func (p *page) text(text string) {
	for i, para := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			p.b.WriteString(".PP\n")
		}
		p.lines(para)
	}
}

// lines writes text that is filled, one line of the source each.
func (p *page) lines(text string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			p.b.WriteString(escape(line) + "\n")
		}
	}
}

// verbatim writes lines as they are.
func (p *page) verbatim(text string) {
	p.b.WriteString(".nf\n.RS 4\n")
	for line := range strings.Lines(text) {
		line = strings.TrimRight(strings.TrimPrefix(line, "  "), "\n ")
		if line == "" {
			p.b.WriteString(".sp\n")
			continue
		}
		p.b.WriteString(escape(line) + "\n")
	}
	p.b.WriteString(".RE\n.fi\n")
}

// item writes a tagged paragraph. tag is roff already.
func (p *page) item(tag, text string) {
	p.b.WriteString(".TP\n" + tag + "\n")
	p.lines(text)
}

// seeAlso names other pages.
func (p *page) seeAlso(names ...string) {
	p.section("SEE ALSO")
	for i, name := range names {
		end := ","
		if i == len(names)-1 {
			end = ""
		}
		name, number, _ := strings.Cut(name, "(")
		p.b.WriteString(bold(name) + "(" + number + end + "\n")
	}
}

func (p *page) bytes() []byte { return []byte(p.b.String()) }

func bold(text string) string { return `\fB` + escape(text) + `\fR` }

func italic(text string) string { return `\fI` + escape(text) + `\fR` }

// argument quotes text as one argument of a macro.
func argument(text string) string {
	return `"` + strings.ReplaceAll(escape(text), `"`, `\(dq`) + `"`
}

// escape makes roff of plain text: a hyphen stays one that can be copied, a dot
// that begins a line is no request, what is not ASCII is named by its number.
// Quotes of code are left out.
func escape(text string) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r == '`':
		case r == '\'':
			b.WriteString(`\(aq`)
		case r == '^':
			b.WriteString(`\(ha`)
		case r == '~':
			b.WriteString(`\(ti`)
		case r == '.' && i == 0:
			b.WriteString(`\&.`)
		case r == '\t':
			b.WriteByte(' ')
		case r < ' ' || r == 0x7f:
		case r > '~':
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// lower makes a sentence's first letter small, unless it begins an abbreviation.
func lower(text string) string {
	if len(text) > 1 && text[0] >= 'A' && text[0] <= 'Z' && (text[1] < 'A' || text[1] > 'Z') {
		return string(text[0]+'a'-'A') + text[1:]
	}
	return text
}
