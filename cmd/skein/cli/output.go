package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/skein-project/skein/present"
)

// View is one result in all its forms.
type View struct {
	// Raw is the API's body; Body stands for it when there is none.
	Raw  []byte
	Body any
	// Items are the lines of jsonl; nil: the body is the only one.
	Items []any
	// Table makes the rows.
	Table func() present.Table
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
		WriteTSV(a.Out, v.Table())
	case "csv":
		WriteCSV(a.Out, v.Table())
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
		a.writeTable(v.Table(), present.FormWide)
	default:
		if v.Page != nil {
			v.Page(a.Out)
			return nil
		}
		a.WriteTable(v.Table())
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
func WriteTSV(w io.Writer, t present.Table) {
	WriteTSVRows(w, [][]string{t.Names(present.FormPlain)})
	WriteTSVRows(w, t.Lines(present.FormPlain))
}

// WriteTSVRows is WriteTSV without the names of the columns.
func WriteTSVRows(w io.Writer, rows [][]string) {
	clean := strings.NewReplacer("\t", " ", "\n", " ")
	for row := range plain(rows) {
		for i, c := range row {
			row[i] = clean.Replace(c)
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
}

// WriteCSV writes the same cells as RFC 4180 wants them, but for the ends of
// lines.
func WriteCSV(w io.Writer, t present.Table) {
	WriteCSVRows(w, [][]string{t.Names(present.FormPlain)})
	WriteCSVRows(w, t.Lines(present.FormPlain))
}

// WriteCSVRows is WriteCSV without the names of the columns.
func WriteCSVRows(w io.Writer, rows [][]string) {
	c := csv.NewWriter(w)
	for row := range plain(rows) {
		_ = c.Write(row) // w keeps its error
	}
	c.Flush()
}

// plain are copies of rows for programs. What is not known is an empty cell
// there: a column of numbers stays one.
func plain(rows [][]string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		for _, row := range rows {
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

// WriteTable writes a table for people, as wide as the terminal.
func (a *App) WriteTable(t present.Table) { a.writeTable(t, present.FormTable) }

func (a *App) writeTable(t present.Table, f present.Form) {
	paint := present.Paint
	if !a.Colored() {
		paint = nil
	}
	fmt.Fprint(a.Out, t.Write(f, a.OutWidth, paint))
}

// WriteFields writes the lines of a page, names aligned.
func WriteFields(w io.Writer, fields []present.Field) {
	width := 0
	for _, f := range fields {
		width = max(width, len(f.Name))
	}
	for _, f := range fields {
		fmt.Fprintf(w, "  %-*s  %s\n", width, f.Name, present.Plain(f.Text))
	}
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

// Element writes a thing of a long list as JSON or as a line of JSON; it reports false where
// that is not the output. Whoever calls it ends the list.
func (a *App) Element(v any, first bool) (bool, error) {
	encode, before, after := json.Marshal, "", "\n"
	switch a.Output {
	case "json":
		encode, after = func(v any) ([]byte, error) { return json.MarshalIndent(v, "  ", "  ") }, ""
		if before = ",\n  "; first {
			before = "[\n  "
		}
	case "jsonl":
	default:
		return false, nil
	}
	text, err := encode(v)
	if err != nil {
		return true, fmt.Errorf("encode %T: %w", v, err)
	}
	_, err = fmt.Fprintf(a.Out, "%s%s%s", before, text, after)
	return true, err
}
