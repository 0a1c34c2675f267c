package web

import (
	"strconv"
	"strings"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/present"
)

// field is one of a form.
type field struct {
	name, label string
	options     []string // what is chosen from; the first stands for what is said where nothing is chosen, empty for anything
	check       bool
}

// head writes what stands before the body.
func (d *doc) head(p plainPage, style string, v view) {
	d.put(`<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">`,
		`<meta name="color-scheme" content="light dark"><title>`)
	d.WriteString(p.title + " · skein")
	if v.header.Node != "" {
		d.WriteString(" at ")
		d.WriteString(escaped(string(v.header.Node), mostWord))
	}
	d.put(`</title><link rel="stylesheet"`)
	d.attr("href", style)
	d.put(`></head>`)
}

// body writes a page: the way to the others, its form, its cards. below is what leads
// from where it is served to the others.
func (d *doc) body(p plainPage, below string, pages []plainPage, v view, problem *api.Problem, q query) {
	d.put(`<header><div class="brand"><strong>skein</strong>`)
	if v.header.Node != "" {
		d.put(` <span class="dim">seen from `)
		d.text(string(v.header.Node), mostWord)
		d.put(`</span>`)
	}
	d.put(`</div><nav aria-label="pages" class="wrap">`)
	for _, other := range pages {
		d.put(`<a`)
		d.attr("href", below+other.name)
		if other.name == p.name {
			d.put(` aria-current="page"`)
		}
		d.put(`>`, markup(other.title), `</a>`)
	}
	d.put(`</nav>`)
	if !v.header.ObservedAt.IsZero() {
		d.put(`<div class="tools dim">as of `, markup(v.header.ObservedAt.UTC().Format("15:04:05")), ` UTC</div>`)
	}
	d.put(`</header><main id="main"><h1 class="quiet">`, markup(p.title), `</h1><div class="grid">`)
	if v.sentence != "" {
		d.put(`<p class="sentence wide">`)
		d.text(v.sentence, mostSaid)
		d.put(`</p>`)
	}
	if problem != nil {
		d.problem(problem)
	}
	if len(p.fields) > 0 {
		d.form(p, q)
	}
	if problem == nil {
		for _, x := range v.parts {
			d.card(x, q)
		}
	}
	d.put(`</div></main>`)
}

func (d *doc) problem(p *api.Problem) {
	d.put(`<section class="card wide"><h2 class="bad">Not shown</h2><p>`)
	d.text(p.Detail, mostSaid)
	d.put(`</p>`)
	if p.Hint != "" {
		d.put(`<p class="dim">`)
		d.text(p.Hint, mostSaid)
		d.put(`</p>`)
	}
	d.put(`</section>`)
}

// form writes what a page is filtered by. It asks for the same page.
func (d *doc) form(p plainPage, q query) {
	d.put(`<form method="get" class="filter plain card wide">`)
	for _, f := range p.fields {
		d.put(`<label>`)
		now := q.Get(f.name)
		switch {
		case f.check:
			d.put(`<input type="checkbox" value="on"`)
			d.attr("name", f.name)
			if now != "" {
				d.put(` checked`)
			}
			d.put(`> `, markup(f.label))
		case f.options != nil:
			d.put(markup(f.label), ` <select`)
			d.attr("name", f.name)
			d.put(`>`)
			if f.name == "state" {
				d.put(`<option value="">any</option>`)
			}
			for _, o := range f.options {
				d.put(`<option`)
				if o == now {
					d.put(` selected`)
				}
				d.put(`>`, markup(o), `</option>`)
			}
			d.put(`</select>`)
		default:
			d.put(markup(f.label), ` <input type="text" maxlength="200" autocomplete="off"`)
			d.attr("name", f.name)
			d.attr("value", clean(now, maxFilter))
			d.put(`>`)
		}
		d.put(`</label>`)
	}
	d.put(`<button type="submit">Show</button></form>`)
}

// card writes a part of a page.
func (d *doc) card(p part, q query) {
	d.put(`<section class="card wide"><h2>`)
	d.text(p.title, mostWord)
	d.put(`</h2>`)
	if p.table == nil {
		d.put(`<dl class="facts lines">`)
		for _, f := range p.fields {
			d.put(`<div><dt>`)
			d.text(f.Name, mostWord)
			d.put(`</dt><dd>`)
			d.text(f.Text, mostSaid)
			d.put(`</dd></div>`)
		}
		d.put(`</dl></section>`)
		return
	}
	d.table(p, q)
	d.put(`</section>`)
}

// table writes the rows of a table that have all words, up to a bound.
func (d *doc) table(p part, q query) {
	form, wide := present.FormTable, q.Get("wide") != ""
	if wide {
		form = present.FormWide
	}
	names, lines, words := p.table.Names(form), p.table.Lines(form), q.words()
	kinds := map[string]present.Column{}
	for _, c := range p.table.Columns {
		kinds[c.Name] = c
	}
	shown, more := 0, 0
	for i, cells := range lines {
		if !has(cells, words) {
			continue
		}
		if shown == mostRows {
			more++
			continue
		}
		if shown++; shown == 1 {
			d.put(`<div class="scroll" tabindex="0" role="region"`)
			d.attr("aria-label", clean(p.title, mostWord))
			d.put(`><table class="plain"><thead><tr>`)
			for _, n := range names {
				d.put(`<th scope="col"`, class(kinds[n], wide), `>`)
				d.text(strings.ReplaceAll(n, "_", " "), mostWord)
				d.put(`</th>`)
			}
			d.put(`</tr></thead><tbody>`)
		}
		d.row(p, i, names, cells, kinds, wide)
	}
	if shown == 0 {
		d.put(`<p class="none">`)
		if len(q.Values) == 0 {
			d.put("None.")
		} else {
			d.text(p.none, mostWord)
		}
		d.put(`</p>`)
		return
	}
	d.put(`</tbody></table></div>`)
	if more > 0 {
		d.put(`<p class="dim">and `, markup(strconv.Itoa(more)), ` more: filter them</p>`)
	}
}

func (d *doc) row(p part, i int, names, cells []string, kinds map[string]present.Column, wide bool) {
	d.put(`<tr>`)
	for k, text := range cells {
		_, said := p.said[names[k]]
		if said {
			d.put(`<td class="said">`)
		} else {
			d.put(`<td`, class(kinds[names[k]], wide), `>`)
		}
		way := ""
		if k == 0 && p.link != nil {
			way = p.link(i)
		}
		switch {
		case way != "":
			d.put(`<a`)
			d.attr("href", way)
			d.put(`>`)
			d.text(text, mostWord)
			d.put(`</a>`)
		case kinds[names[k]].Kind == present.State && text != present.Unknown:
			d.state(text)
		case said:
			d.text(text, mostSaid)
		default:
			d.text(text, mostWord)
		}
		d.put(`</td>`)
	}
	d.put(`</tr>`)
}

// lowRank is from where on columns leave a narrow screen.
const lowRank = 3

// class is that of a column's cells.
func class(c present.Column, wide bool) markup {
	right, low := c.Kind == present.Number, c.Rank >= lowRank && !wide
	switch {
	case right && low:
		return ` class="right low"`
	case right:
		return ` class="right"`
	case low:
		return ` class="low"`
	}
	return ""
}

// has reports whether each word is in one of the cells.
func has(cells, words []string) bool {
	for _, w := range words {
		found := false
		for _, c := range cells {
			found = found || strings.Contains(strings.ToLower(c), w)
		}
		if !found {
			return false
		}
	}
	return true
}
