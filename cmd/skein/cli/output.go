package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/skein-project/skein/present"
)

// Table is a list of rows under a header.
type Table struct {
	Head []string
	Rows [][]string
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Form is how much a table shows, and for whom.
type Form int

// Forms. A wide table has everything, with exact times; the one for scripts
// has also plain numbers: seconds and bytes.
const (
	FormTable Form = iota
	FormWide
	FormTSV
)

// Wide says that a table has everything.
func (f Form) Wide() bool { return f != FormTable }

// Age shows a number of seconds, or - for nil.
func (f Form) Age(seconds *float64) string {
	if f == FormTSV && seconds != nil {
		return PlainSeconds(*seconds)
	}
	return AgeOf(seconds)
}

// Bytes shows a size.
func (f Form) Bytes(n uint64) string {
	if f == FormTSV {
		return strconv.FormatUint(n, 10)
	}
	return present.BytesOf(n)
}

// PlainSeconds is a number of seconds to the microsecond.
func PlainSeconds(s float64) string {
	return strconv.FormatFloat(math.Round(s*1e6)/1e6, 'f', -1, 64)
}

// View is one result in all its forms.
type View struct {
	// Raw is the API's body; Body stands for it when there is none.
	Raw  []byte
	Body any
	// Items are the lines of jsonl; nil: the body is the only one.
	Items []any
	// Table makes the rows.
	Table func(f Form) Table
	// Page writes the pretty form; nil: the table.
	Page func(w io.Writer)
	// Toml makes the form that skein reads again; nil: there is none.
	Toml func() ([]byte, error)
}

// CheckedWriter keeps the first error: a result that could not be written must
// not look like one that was.
type CheckedWriter struct {
	W   io.Writer
	Err error
}

func (c *CheckedWriter) Write(p []byte) (int, error) {
	n, err := c.W.Write(p)
	if err != nil && c.Err == nil {
		c.Err = err
	}
	return n, err
}

// Show writes v to stdout in the form that -o asks for.
func (a *App) Show(v View) error {
	switch a.Output {
	case "json":
		return v.writeJSON(a.Out)
	case "jsonl":
		return v.writeLines(a.Out)
	case "tsv":
		WriteTSV(a.Out, v.Table(FormTSV))
	case "csv":
		WriteCSV(a.Out, v.Table(FormTSV))
	case "toml":
		if v.Toml == nil {
			return Usagef("this has no TOML form").WithHint("`skein job status ID -o toml` shows a job as a job file")
		}
		b, err := v.Toml()
		if err != nil {
			return err
		}
		_, err = a.Out.Write(b)
		return err
	case "wide":
		a.WriteTable(v.Table(FormWide))
	default:
		if v.Page != nil {
			v.Page(a.Out)
			return nil
		}
		a.WriteTable(v.Table(FormTable))
	}
	return nil
}

func (v View) text() ([]byte, error) {
	if v.Raw != nil {
		return v.Raw, nil
	}
	b, err := json.Marshal(v.Body)
	if err != nil {
		return nil, fmt.Errorf("encode result: %w", err)
	}
	return b, nil
}

func (v View) writeJSON(w io.Writer) error {
	b, err := v.text()
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	if err := json.Indent(&buf, bytes.TrimSpace(b), "", "  "); err != nil {
		return fmt.Errorf("result is not JSON: %w", err)
	}
	fmt.Fprintln(w, buf.String())
	return nil
}

func (v View) writeLines(w io.Writer) error {
	if v.Items == nil {
		b, err := v.text()
		if err != nil {
			return err
		}
		var buf bytes.Buffer
		if err := json.Compact(&buf, bytes.TrimSpace(b)); err != nil {
			return fmt.Errorf("result is not JSON: %w", err)
		}
		fmt.Fprintln(w, buf.String())
		return nil
	}
	for _, item := range v.Items {
		b, err := json.Marshal(item)
		if err != nil {
			return fmt.Errorf("encode result: %w", err)
		}
		fmt.Fprintln(w, string(b))
	}
	return nil
}

// Items turns a list into lines.
func Items[T any](list []T) []any {
	out := make([]any, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}

// WriteTSV separates cells by tabs; the script's twin of the table.
func WriteTSV(w io.Writer, t Table) {
	clean := strings.NewReplacer("\t", " ", "\n", " ")
	for row := range t.plain() {
		for i, c := range row {
			row[i] = clean.Replace(c)
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
}

// WriteCSV writes the same cells as RFC 4180 wants them, but for the ends of
// lines.
func WriteCSV(w io.Writer, t Table) {
	c := csv.NewWriter(w)
	for row := range t.plain() {
		_ = c.Write(row) // w keeps its error
	}
	c.Flush()
}

// plain are copies of the lines for programs. What is not known is an empty cell
// there: a column of numbers stays one.
func (t Table) plain() iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		for _, row := range t.lines() {
			row = slices.Clone(row)
			for i, cell := range row {
				if cell == present.Unknown {
					row[i] = ""
				}
			}
			if !yield(row) {
				return
			}
		}
	}
}

// lines are the head, if there is one, and the rows.
func (t Table) lines() [][]string {
	if t.Head == nil {
		return t.Rows
	}
	return append([][]string{t.Head}, t.Rows...)
}

// WriteTable aligns columns by two spaces and cuts lines on a terminal only. Names
// may be those of others, or of a job's program: no control character gets through.
func (a *App) WriteTable(t Table) {
	widths := make([]int, len(t.Head))
	rows := append([][]string{t.Head}, t.Rows...)
	for n, row := range rows {
		row = slices.Clone(row)
		rows[n] = row
		for i, c := range row {
			row[i] = present.Plain(c)
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	colored := a.Colored()
	for n, row := range rows {
		var line strings.Builder
		used := 0
		for i, c := range row {
			size := utf8.RuneCountInString(c)
			if a.OutWidth > 0 && used+size > a.OutWidth {
				c = Cut(c, a.OutWidth-used)
				size = utf8.RuneCountInString(c)
			}
			if colored && n > 0 {
				line.WriteString(Paint(c))
			} else {
				line.WriteString(c)
			}
			used += size
			if i == len(row)-1 || a.OutWidth > 0 && used+2 >= a.OutWidth {
				break
			}
			pad := widths[i] - size + 2
			line.WriteString(strings.Repeat(" ", pad))
			used += pad
		}
		fmt.Fprintln(a.Out, strings.TrimRight(line.String(), " "))
	}
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

// Paint colours the words that stand for a state. The word stays: colour is
// never the only signal.
func Paint(word string) string {
	color := ""
	switch word {
	case "alive", "completed", "ok", "holder", "up":
		color = "32"
	case "suspect", "joining", "partial", "degraded", "connecting", "warn":
		color = "33"
	case "dead", "failed", "left", "removed", "down", "fail":
		color = "31"
	default:
		return word
	}
	return "\x1b[" + color + "m" + word + "\x1b[0m"
}

// EndArray ends a JSON array whose items were written one by one; some says
// that there were any.
func (a *App) EndArray(some bool) error {
	end := "\n]\n"
	if !some {
		end = "[]\n"
	}
	_, err := io.WriteString(a.Out, end)
	return err
}
