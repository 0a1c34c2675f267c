package load

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxRows bounds a file of rows, in bytes.
const MaxRows = 64 << 20

// Rows are those of a file, all of one length.
type Rows struct {
	Columns []string
	Rows    [][]string
}

// ParseRows reads rows by the ending of the file's name: csv with a first line of
// names, json (a list of objects) or jsonl.
func ParseRows(file string, text []byte) (*Rows, error) {
	if len(text) > MaxRows {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are allowed", file, len(text), MaxRows)
	}
	if !utf8.Valid(text) {
		line := 1
		for one := range bytes.Lines(text) {
			if !utf8.Valid(one) {
				break
			}
			line++
		}
		return nil, fmt.Errorf("%s: line %d is not UTF-8", file, line)
	}
	var r *Rows
	var err error
	switch {
	case strings.HasSuffix(file, ".csv"):
		r, err = csvRows(text)
	case strings.HasSuffix(file, ".jsonl"):
		r, err = jsonRows(bytes.NewReader(text), false)
	case strings.HasSuffix(file, ".json"):
		r, err = jsonRows(bytes.NewReader(text), true)
	default:
		return nil, fmt.Errorf("%s: want a file named .csv, .json or .jsonl", file)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(r.Rows) == 0 {
		return nil, fmt.Errorf("%s has no rows", file)
	}
	return r, nil
}

func csvRows(text []byte) (*Rows, error) {
	in := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff"))))
	in.TrimLeadingSpace = true
	all, err := in.ReadAll() // it says the line, and refuses rows of another length
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("is empty")
	}
	return &Rows{Columns: all[0], Rows: all[1:]}, nil
}

func jsonRows(in io.Reader, list bool) (*Rows, error) {
	d := json.NewDecoder(in)
	if list {
		if t, err := d.Token(); err != nil || t != json.Delim('[') {
			return nil, errors.New("want a list of objects")
		}
	}
	r := &Rows{}
	for d.More() {
		var m map[string]any
		row := len(r.Rows) + 1
		if err := d.Decode(&m); err != nil {
			return nil, fmt.Errorf("row %d: %w", row, err)
		}
		if row == 1 {
			r.Columns = slices.Sorted(maps.Keys(m))
		}
		values := make([]string, len(r.Columns))
		for i, c := range r.Columns {
			v, ok := m[c]
			if !ok {
				return nil, fmt.Errorf("row %d lacks %q, which row 1 has", row, c)
			}
			if s, ok := v.(string); ok {
				values[i] = s
				continue
			}
			b, err := json.Marshal(v)
			if err != nil {
				return nil, fmt.Errorf("row %d: %w", row, err)
			}
			values[i] = string(b)
		}
		r.Rows = append(r.Rows, values)
	}
	return r, nil
}
