package present

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Kind is what the cells of a column are.
type Kind int

// Kinds of cells.
const (
	Text   Kind = iota
	State       // a word that stands for a state: see ToneOf
	Number      // compared by size; its plain form is digits
	Time        // an age, or a time in a wide table
)

// Column is one column of a table.
type Column struct {
	Name string
	Kind Kind
	// Rank says which columns leave a table that is too wide: those of the highest
	// rank first. A column of rank 0 stays.
	Rank int
	// Wide columns are shown only where everything is.
	Wide bool
	// Least is the width that it has at least.
	Least int
}

// Cell is one value in all its forms.
type Cell struct {
	Text  string // in a table
	Exact string // in a wide one: whole names, times; empty: Text
	Plain string // for a program: seconds, bytes, digits; empty: Exact
}

// In is the cell in one form.
func (c Cell) In(f Form) string {
	switch {
	case f == FormPlain && c.Plain != "":
		return c.Plain
	case f != FormTable && c.Exact != "":
		return c.Exact
	}
	return c.Text
}

// Form is how much a table shows, and for whom.
type Form int

// Forms. A wide table has everything, with exact times; the plain one is for
// programs: whole numbers, seconds and bytes.
const (
	FormTable Form = iota
	FormWide
	FormPlain
)

// Table is a list of rows under a header.
type Table struct {
	Columns []Column
	Rows    [][]Cell
}

// NewTable makes a table of texts.
func NewTable(names ...string) Table {
	t := Table{Columns: make([]Column, len(names))}
	for i, name := range names {
		t.Columns[i].Name = name
	}
	return t
}

// Leaving is the table whose columns of these names leave, the first of them first, where
// not all fit.
func (t Table) Leaving(names ...string) Table {
	t.Columns = slices.Clone(t.Columns)
	for i, c := range t.Columns {
		if place := slices.Index(names, c.Name); place >= 0 {
			t.Columns[i].Rank = len(names) - place
		}
	}
	return t
}

// Add adds a row that is the same in all forms.
func (t *Table) Add(cells ...string) {
	row := make([]Cell, len(cells))
	for i, c := range cells {
		row[i].Text = c
	}
	t.Rows = append(t.Rows, row)
}

// shown are the columns of a form, by their place.
func (t Table) shown(f Form) []int {
	var list []int
	for i, c := range t.Columns {
		if f != FormTable || !c.Wide {
			list = append(list, i)
		}
	}
	return list
}

// Names are the names of the columns that a form shows.
func (t Table) Names(f Form) []string {
	var names []string
	for _, i := range t.shown(f) {
		names = append(names, t.Columns[i].Name)
	}
	return names
}

// Lines are the rows in one form, without the names.
func (t Table) Lines(f Form) [][]string {
	at := t.shown(f)
	lines := make([][]string, len(t.Rows))
	for n, row := range t.Rows {
		lines[n] = make([]string, len(at))
		for k, i := range at {
			lines[n][k] = row[i].In(f)
		}
	}
	return lines
}

// gap stands between two columns.
const gap = "  "

// Fit is the table without the columns that must leave so that a line has no more
// than width columns of text; 0: all fit.
func (t Table) Fit(width int) Table {
	t.Columns, t.Rows = slices.Clone(t.Columns), slices.Clone(t.Rows)
	for width > 0 {
		total, last := 0, -1
		for k, w := range t.widths(FormTable) {
			i := t.shown(FormTable)[k]
			total += w + len(gap)
			if r := t.Columns[i].Rank; r > 0 && (last < 0 || r >= t.Columns[last].Rank) {
				last = i
			}
		}
		if total-len(gap) <= width || last < 0 {
			break
		}
		t.Columns = slices.Delete(t.Columns, last, last+1)
		for n, row := range t.Rows {
			t.Rows[n] = slices.Delete(slices.Clone(row), last, last+1)
		}
	}
	return t
}

// widths are those of the columns that a form shows.
func (t Table) widths(f Form) []int {
	at := t.shown(f)
	widths := make([]int, len(at))
	for k, i := range at {
		widths[k] = max(t.Columns[i].Least, utf8.RuneCountInString(t.Columns[i].Name))
		for _, row := range t.Rows {
			widths[k] = max(widths[k], utf8.RuneCountInString(row[i].In(f)))
		}
	}
	return widths
}

// Write makes the lines of a text: columns are aligned, and on a terminal of so
// many columns those that do not fit leave, or else are cut; 0: nothing is cut. A
// wide table is whole. Words are painted by paint, which may be nil. Names may be
// those of others, or of a job's program: no control character gets through.
func (t Table) Write(f Form, width int, paint func(word string) string) string {
	if f != FormTable {
		width = 0
	}
	t = t.Fit(width)
	widths := t.widths(f)
	var out strings.Builder
	for n, cells := range append([][]string{t.Names(f)}, t.Lines(f)...) {
		var line strings.Builder
		used := 0
		for i, c := range cells {
			c = Plain(c)
			size := utf8.RuneCountInString(c)
			if width > 0 && used+size > width {
				c = Cut(c, width-used)
				size = utf8.RuneCountInString(c)
			}
			if n > 0 && paint != nil {
				line.WriteString(paint(c))
			} else {
				line.WriteString(c)
			}
			used += size
			if i == len(cells)-1 || width > 0 && used+len(gap) >= width {
				break
			}
			pad := widths[i] - size + len(gap)
			line.WriteString(strings.Repeat(" ", pad))
			used += pad
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return out.String()
}

// Cut shortens s to n columns.
func Cut(s string, n int) string {
	if n <= 0 {
		return ""
	}
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// Tone is how good a state is.
type Tone int

// Tones.
const (
	Neutral Tone = iota
	Good
	Doubtful
	Bad
)

// ToneOf tells how good the state is that a word stands for. The word stays with
// its colour: colour is never the only signal.
func ToneOf(word string) Tone {
	switch word {
	case "alive", "completed", "passed", "ok", "holder", "up":
		return Good
	case "suspect", "joining", "partial", "degraded", "connecting", "warn", "silent", "stopped":
		return Doubtful
	case "dead", "failed", "aborted", "incomplete", "left", "removed", "down", "fail":
		return Bad
	}
	return Neutral
}

// Paint colours the words that stand for a state, for terminals.
func Paint(word string) string {
	color := map[Tone]string{Good: "32", Doubtful: "33", Bad: "31"}[ToneOf(word)]
	if color == "" {
		return word
	}
	return "\x1b[" + color + "m" + word + "\x1b[0m"
}

// Field is one line of a page: what it is about, and what is said of it.
type Field struct{ Name, Text string }

// column is a column, and how its cell is made of a row.
type column[R any] struct {
	Column
	cell func(R) Cell
}

// col is a column that every table has while there is room.
func col[R any](name string, kind Kind, rank int, cell func(R) Cell) column[R] {
	return column[R]{Column{Name: name, Kind: kind, Rank: rank}, cell}
}

// more is a column of wide tables.
func more[R any](name string, kind Kind, cell func(R) Cell) column[R] {
	return column[R]{Column{Name: name, Kind: kind, Wide: true}, cell}
}

func tableOf[R any](rows []R, columns ...column[R]) Table {
	t := Table{Columns: make([]Column, len(columns)), Rows: make([][]Cell, len(rows))}
	for i, c := range columns {
		t.Columns[i] = c.Column
	}
	for n, r := range rows {
		t.Rows[n] = make([]Cell, len(columns))
		for i, c := range columns {
			t.Rows[n][i] = c.cell(r)
		}
	}
	return t
}
