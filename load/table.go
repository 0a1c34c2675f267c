package load

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// table reads the keys of one table. What is missing, of another type or out of
// bounds is a fault, and so is each key that nobody asked for.
type table struct {
	f    *faults
	at   place
	m    map[string]any
	used map[string]bool
}

func newTable(f *faults, at place, m map[string]any) *table {
	return &table{f: f, at: at, m: m, used: map[string]bool{}}
}

func (t *table) take(key string) (any, bool) {
	t.used[key] = true
	v, ok := t.m[key]
	return v, ok
}

func (t *table) fail(key, hint, format string, args ...any) {
	t.f.add(t.at.key(key), hint, format, args...)
}

// end tells of the keys that nobody asked for.
func (t *table) end() {
	known := slices.Sorted(maps.Keys(t.used))
	for _, key := range slices.Sorted(maps.Keys(t.m)) {
		if t.used[key] {
			continue
		}
		hint := "known here: " + strings.Join(known, ", ")
		if n := near(key, known); n != "" {
			hint = fmt.Sprintf("did you mean %s?", n)
		}
		t.fail(key, hint, "unknown key")
	}
}

func typeName(v any) string {
	switch v.(type) {
	case string:
		return "a text"
	case int64:
		return "a whole number"
	case float64:
		return "a number"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	case []map[string]any:
		return "a list of tables"
	}
	return "a date or time"
}

func (t *table) wrong(key, want string, v any) { t.fail(key, "", "is %s, want %s", typeName(v), want) }

func (t *table) text(key string) string {
	v, ok := t.take(key)
	if !ok {
		return ""
	}
	s, ok := v.(string)
	if !ok {
		t.wrong(key, "a text", v)
	}
	if len(s) > maxText {
		t.fail(key, "", "has %d bytes, at most %d are allowed", len(s), maxText)
		return ""
	}
	return s
}

// word is a text out of a list; the first is the default.
func (t *table) word(key string, words ...string) string {
	s := t.text(key)
	if s == "" {
		return words[0]
	}
	if !slices.Contains(words, s) {
		t.fail(key, "want "+strings.Join(words, ", "), "%q is not known", s)
		return words[0]
	}
	return s
}

func (t *table) flag(key string) bool {
	v, ok := t.take(key)
	b, is := v.(bool)
	if ok && !is {
		t.wrong(key, "true or false", v)
	}
	return b
}

func (t *table) number(key string, low, high float64) (float64, bool) {
	v, ok := t.take(key)
	if !ok {
		return 0, false
	}
	var x float64
	switch n := v.(type) {
	case int64:
		x = float64(n)
	case float64:
		x = n
	default:
		t.wrong(key, "a number", v)
		return 0, false
	}
	if !(x >= low && x <= high) {
		t.fail(key, "", "%g is out of range, want %g to %g", x, low, high)
		return 0, false
	}
	return x, true
}

func (t *table) count(key string, low, high int) (int, bool) {
	x, ok := t.number(key, float64(low), float64(high))
	if ok && x != math.Trunc(x) {
		t.fail(key, "", "%g is not a whole number", x)
		return 0, false
	}
	return int(x), ok
}

// duration is a text as 90s or 2m; def stands for a missing one.
func (t *table) duration(key string, def, low, high time.Duration) time.Duration {
	v, ok := t.take(key)
	if !ok {
		return def
	}
	s, ok := v.(string)
	if !ok {
		t.wrong(key, `a time as "30s" or "5m"`, v)
		return def
	}
	d, err := parseDuration(s)
	switch {
	case err != nil:
		t.fail(key, `write times as "500ms", "30s", "5m" or "1h"`, "%s", err)
		return def
	case d < low || d > high:
		t.fail(key, "", "%s is out of range, want %s to %s", s, low, high)
		return def
	}
	return d
}

func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a time", s)
	}
	return d, nil
}

// sub is a table inside, nil if it is missing.
func (t *table) sub(key string) *table {
	v, ok := t.take(key)
	if !ok {
		return nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		t.wrong(key, "a table", v)
		return nil
	}
	return newTable(t.f, t.at.key(key), m)
}

// subs are the tables inside one, by name.
func (t *table) subs(key string, most int) []*table {
	all := t.sub(key)
	if all == nil {
		return nil
	}
	var out []*table
	for _, name := range slices.Sorted(maps.Keys(all.m)) {
		if err := checkName(name); err != nil {
			all.fail(name, "", "%s", err)
		}
		if one := all.sub(name); one != nil {
			out = append(out, one)
		}
	}
	if len(out) > most {
		t.fail(key, "", "has %d, at most %d are allowed", len(out), most)
		return out[:most]
	}
	return out
}

func (t *table) name() string { return string(t.at[strings.LastIndexByte(string(t.at), '.')+1:]) }

// texts is a list of texts; one text is a list of it.
func (t *table) texts(key string, most int) []string {
	v, ok := t.take(key)
	if !ok {
		return nil
	}
	var out []string
	switch list := v.(type) {
	case string:
		out = []string{list}
	case []any:
		for i, one := range list {
			s, ok := one.(string)
			if !ok {
				t.f.add(t.at.key(key).item(i), "", "is %s, want a text", typeName(one))
				continue
			}
			out = append(out, s)
		}
	default:
		t.wrong(key, "a list of texts", v)
	}
	if len(out) > most {
		t.fail(key, "", "has %d entries, at most %d are allowed", len(out), most)
		out = out[:most]
	}
	return out
}

// textMap is a table of texts; numbers and truth values stand for themselves.
func (t *table) textMap(key string, most int) map[string]string {
	sub := t.sub(key)
	if sub == nil {
		return nil
	}
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(sub.m)) {
		switch v := sub.m[name].(type) {
		case string:
			out[name] = v
		case int64:
			out[name] = strconv.FormatInt(v, 10)
		case bool, float64:
			out[name] = fmt.Sprint(v)
		default:
			sub.wrong(name, "a text", v)
		}
	}
	if len(out) > most {
		t.fail(key, "", "has %d entries, at most %d are allowed", len(out), most)
	}
	return out
}

// checkName checks the name of a step, a variable, a flow.
func checkName(s string) error {
	if s == "" || len(s) > maxName {
		return fmt.Errorf("a name has 1 to %d letters, %q has %d", maxName, s, len(s))
	}
	for i, r := range s {
		if r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (i == 0 || r != '-' && (r < '0' || r > '9')) {
			return fmt.Errorf("%q is no name: want letters, digits, _ and -, a letter first", s)
		}
	}
	return nil
}
