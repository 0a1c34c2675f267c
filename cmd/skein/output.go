package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// table is a list of rows under a header.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// form is how much a table shows, and for whom.
type form int

// Forms. A wide table has everything, with exact times; the one for scripts
// has also plain numbers: seconds and bytes.
const (
	formTable form = iota
	formWide
	formTSV
)

func (f form) wide() bool { return f != formTable }

// age shows a number of seconds, or - for nil.
func (f form) age(seconds *float64) string {
	if f == formTSV && seconds != nil {
		return plainSeconds(*seconds)
	}
	return ageOf(seconds)
}

// bytes shows a size.
func (f form) bytes(n uint64) string {
	if f == formTSV {
		return strconv.FormatUint(n, 10)
	}
	return bytesOf(n)
}

// plainSeconds is a number of seconds to the microsecond.
func plainSeconds(s float64) string {
	return strconv.FormatFloat(math.Round(s*1e6)/1e6, 'f', -1, 64)
}

// view is one result in all its forms.
type view struct {
	// raw is the API's body; body stands for it when there is none.
	raw  []byte
	body any
	// items are the lines of jsonl; nil: the body is the only one.
	items []any
	// table makes the rows.
	table func(f form) table
	// page writes the pretty form; nil: the table.
	page func(w io.Writer)
	// toml makes the form that skein reads again; nil: there is none.
	toml func() ([]byte, error)
}

// checkedWriter keeps the first error: a result that could not be written must
// not look like one that was.
type checkedWriter struct {
	w   io.Writer
	err error
}

func (c *checkedWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if err != nil && c.err == nil {
		c.err = err
	}
	return n, err
}

// show writes v to stdout in the form that -o asks for.
func (a *app) show(v view) error {
	switch a.output {
	case "json":
		return v.writeJSON(a.out)
	case "jsonl":
		return v.writeLines(a.out)
	case "tsv":
		writeTSV(a.out, v.table(formTSV))
	case "csv":
		writeCSV(a.out, v.table(formTSV))
	case "toml":
		if v.toml == nil {
			return usagef("this has no TOML form").hint("`skein job status ID -o toml` shows a job as a job file")
		}
		b, err := v.toml()
		if err != nil {
			return err
		}
		_, err = a.out.Write(b)
		return err
	case "wide":
		a.writeTable(v.table(formWide))
	default:
		if v.page != nil {
			v.page(a.out)
			return nil
		}
		a.writeTable(v.table(formTable))
	}
	return nil
}

func (v view) text() ([]byte, error) {
	if v.raw != nil {
		return v.raw, nil
	}
	b, err := json.Marshal(v.body)
	if err != nil {
		return nil, fmt.Errorf("encode result: %w", err)
	}
	return b, nil
}

func (v view) writeJSON(w io.Writer) error {
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

func (v view) writeLines(w io.Writer) error {
	if v.items == nil {
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
	for _, item := range v.items {
		b, err := json.Marshal(item)
		if err != nil {
			return fmt.Errorf("encode result: %w", err)
		}
		fmt.Fprintln(w, string(b))
	}
	return nil
}

// items turns a list into lines.
func items[T any](list []T) []any {
	out := make([]any, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}

// writeTSV separates cells by tabs; the script's twin of the table.
func writeTSV(w io.Writer, t table) {
	clean := strings.NewReplacer("\t", " ", "\n", " ")
	for _, row := range t.lines() {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = clean.Replace(c)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
}

// writeCSV writes the same cells as RFC 4180 wants them, but for the ends of
// lines.
func writeCSV(w io.Writer, t table) {
	c := csv.NewWriter(w)
	_ = c.WriteAll(t.lines()) // w keeps its error
}

// lines are the head, if there is one, and the rows.
func (t table) lines() [][]string {
	if t.head == nil {
		return t.rows
	}
	return append([][]string{t.head}, t.rows...)
}

// writeTable aligns columns by two spaces and cuts lines on a terminal only.
func (a *app) writeTable(t table) {
	widths := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	colored := a.colored()
	for n, row := range append([][]string{t.head}, t.rows...) {
		var line strings.Builder
		used := 0
		for i, c := range row {
			size := utf8.RuneCountInString(c)
			if a.outWidth > 0 && used+size > a.outWidth {
				c = cut(c, a.outWidth-used)
				size = utf8.RuneCountInString(c)
			}
			if colored && n > 0 {
				line.WriteString(paint(c))
			} else {
				line.WriteString(c)
			}
			used += size
			if i == len(row)-1 || a.outWidth > 0 && used+2 >= a.outWidth {
				break
			}
			pad := widths[i] - size + 2
			line.WriteString(strings.Repeat(" ", pad))
			used += pad
		}
		fmt.Fprintln(a.out, strings.TrimRight(line.String(), " "))
	}
}

// cut shortens s to n columns.
func cut(s string, n int) string {
	if n <= 0 {
		return ""
	}
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// paint colours the words that stand for a state. The word stays: colour is
// never the only signal.
func paint(word string) string {
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
