package template

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/skein-project/skein/cluster/flow"
)

// NameChars are those of names in references, beside capital letters and dashes.
const NameChars = "abcdefghijklmnopqrstuvwxyz0123456789_"

// Value is a JSON value in which texts may have ${...}.
type Value struct {
	v any // as decoded; texts with references are of type text
}

// MayBeList reports that v is a list, or that it depends on what a reference is.
func (v Value) MayBeList() bool {
	switch v.v.(type) {
	case []any, text:
		return true
	}
	return false
}

// text is a text with references.
type text struct {
	parts []part
	lone  bool // it is one reference and nothing else: it keeps its type
}

// part is a literal or a reference.
type part struct {
	literal string
	path    []string // nil: a literal
}

// Decode reads one JSON value, numbers as they are written.
func Decode(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("more than one value")
	}
	return v, nil
}

// Parse reads a JSON value and the references in its texts.
func Parse(b json.RawMessage) (Value, error) {
	if len(b) > flow.MaxTemplate {
		return Value{}, fmt.Errorf("%d bytes, at most %d are allowed", len(b), flow.MaxTemplate)
	}
	v, err := Decode(b)
	if err != nil {
		return Value{}, err
	}
	v, err = parseTexts(v)
	return Value{v}, err
}

func parseTexts(v any) (any, error) {
	switch v := v.(type) {
	case string:
		return parseText(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			one, err := parseTexts(v[i])
			if err != nil {
				return nil, err
			}
			out[i] = one
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			one, err := parseTexts(v[k])
			if err != nil {
				return nil, err
			}
			out[k] = one
		}
		return out, nil
	}
	return v, nil
}

// parseText finds the references of a text; without any it is a plain string.
func parseText(s string) (any, error) {
	if !strings.Contains(s, "${") {
		return s, nil
	}
	var t text
	rest := s
	for rest != "" {
		literal, after, found := strings.Cut(rest, "${")
		if literal != "" {
			t.parts = append(t.parts, part{literal: literal})
		}
		if !found {
			break
		}
		ref, behind, closed := strings.Cut(after, "}")
		if !closed {
			return nil, fmt.Errorf("%.64q: ${ without }", s)
		}
		path := strings.Split(strings.TrimSpace(ref), ".")
		for _, p := range path {
			if p == "" || strings.Trim(p, NameChars+"ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" {
				return nil, fmt.Errorf("${%.64s}: want names joined by dots", ref)
			}
		}
		t.parts = append(t.parts, part{path: path})
		rest = behind
	}
	t.lone = len(t.parts) == 1
	return t, nil
}

// Refs calls f with each reference in v.
func (v Value) Refs(f func(path []string) error) error { return refsIn(v.v, f) }

func refsIn(v any, f func(path []string) error) error {
	switch v := v.(type) {
	case text:
		for _, p := range v.parts {
			if p.path != nil {
				if err := f(p.path); err != nil {
					return err
				}
			}
		}
	case []any:
		for _, one := range v {
			if err := refsIn(one, f); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if err := refsIn(v[k], f); err != nil {
				return err
			}
		}
	}
	return nil
}

// Fill replaces the references in v by what look finds.
func (v Value) Fill(look func(path []string) (any, error)) (any, error) { return fill(v.v, look) }

func fill(v any, look func(path []string) (any, error)) (any, error) {
	switch v := v.(type) {
	case text:
		if v.lone {
			return look(v.parts[0].path)
		}
		var b strings.Builder
		for _, p := range v.parts {
			if p.path == nil {
				b.WriteString(p.literal)
				continue
			}
			one, err := look(p.path)
			if err != nil {
				return nil, err
			}
			if s, ok := one.(string); ok {
				b.WriteString(s)
			} else if enc, err := json.Marshal(one); err == nil {
				b.Write(enc)
			}
			if b.Len() > flow.MaxTemplate {
				return nil, fmt.Errorf("text of more than %d bytes", flow.MaxTemplate)
			}
		}
		return b.String(), nil
	case []any:
		out := make([]any, len(v))
		for i := range v {
			one, err := fill(v[i], look)
			if err != nil {
				return nil, err
			}
			out[i] = one
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			one, err := fill(v[k], look)
			if err != nil {
				return nil, err
			}
			out[k] = one
		}
		return out, nil
	}
	return v, nil
}

// Walk follows path into v.
func Walk(v any, path []string) (any, error) {
	for i, name := range path {
		switch in := v.(type) {
		case map[string]any:
			next, ok := in[name]
			if !ok {
				return nil, fmt.Errorf("%s: there is no %q", strings.Join(path[:i+1], "."), name)
			}
			v = next
		case []any:
			n, err := strconv.Atoi(name)
			if err != nil || n < 0 || n >= len(in) {
				return nil, fmt.Errorf("%s: %q is no index of a list of %d", strings.Join(path[:i+1], "."), name, len(in))
			}
			v = in[n]
		default:
			return nil, fmt.Errorf("%s: there is nothing in it", strings.Join(path[:i+1], "."))
		}
	}
	return v, nil
}
