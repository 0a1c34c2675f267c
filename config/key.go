package config

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/skein-project/skein/cluster"
)

// key describes one key of the configuration.
type key struct {
	name string   // dotted path
	doc  []string // comment lines of the example file
	// kind is the wanted TOML type in words, for errors.
	kind string
	// set checks v, a value as the TOML decoder makes it, and stores it.
	set func(c *Config, v any) error
	// parse turns the text of an environment variable or flag into a value
	// for set.
	parse func(text string) (any, error)
	// show returns the value in TOML form.
	show func(c *Config) string
	// live keys take effect by a reload; the others need a restart.
	live bool
}

// section is a part of Config: where a key lies decides whether a reload
// changes it.
type section interface{ Fixed | Live }

// spec describes a key whose value lies in S.
type spec[S section] struct {
	name, kind string
	doc        []string
	set        func(s *S, v any) error
	parse      func(text string) (any, error)
	show       func(s *S) string
}

func (p spec[S]) key() key {
	_, live := any((*S)(nil)).(*Live)
	at := func(c *Config) *S {
		if live {
			return any(&c.Live).(*S)
		}
		return any(&c.Fixed).(*S)
	}
	return key{
		name: p.name, kind: p.kind, doc: p.doc, parse: p.parse, live: live,
		set:  func(c *Config, v any) error { return p.set(at(c), v) },
		show: func(c *Config) string { return p.show(at(c)) },
	}
}

// Env returns the environment variable that overrides a key.
func Env(key string) string {
	return "SKEIN_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// errType says that a value is not of the key's type.
type errType struct{ want, got string }

func (e errType) Error() string { return fmt.Sprintf("want %s, got %s", e.want, e.got) }

func typeName(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case int64:
		return "an integer"
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
	default:
		return "a date or time"
	}
}

func text(v string) (any, error) { return v, nil }

func stringKey[S section](name string, at func(*S) *string, check func(string) error, doc ...string) key {
	return spec[S]{
		name: name, doc: doc, kind: "a string", parse: text,
		set: func(c *S, v any) error {
			s, ok := v.(string)
			if !ok {
				return errType{"a string", typeName(v)}
			}
			if err := check(s); err != nil {
				return err
			}
			*at(c) = s
			return nil
		},
		show: func(c *S) string { return quote(*at(c)) },
	}.key()
}

func boolKey[S section](name string, at func(*S) *bool, doc ...string) key {
	return spec[S]{
		name: name, doc: doc, kind: "true or false",
		parse: func(s string) (any, error) {
			switch s {
			case "true", "false":
				return s == "true", nil
			}
			return nil, errType{"true or false", strconv.Quote(s)}
		},
		set: func(c *S, v any) error {
			b, ok := v.(bool)
			if !ok {
				return errType{"true or false", typeName(v)}
			}
			*at(c) = b
			return nil
		},
		show: func(c *S) string { return strconv.FormatBool(*at(c)) },
	}.key()
}

// integer is what intKey can store.
type integer interface {
	~int | ~int64 | ~uint32 | ~uint64
}

func intKey[S section, T integer](name string, at func(*S) *T, low, high int64, doc ...string) key {
	return spec[S]{
		name: name, doc: doc, kind: "an integer",
		parse: func(s string) (any, error) {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				return nil, errType{"an integer", strconv.Quote(s)}
			}
			return n, nil
		},
		set: func(c *S, v any) error {
			n, ok := v.(int64)
			if !ok {
				return errType{"an integer", typeName(v)}
			}
			if n < low || n > high {
				return fmt.Errorf("%d is out of range, want %d to %d", n, low, high)
			}
			*at(c) = T(n)
			return nil
		},
		show: func(c *S) string { return fmt.Sprint(*at(c)) },
	}.key()
}

func floatKey[S section](name string, get func(*S) float64, put func(*S, float64), low, high float64, doc ...string) key {
	return spec[S]{
		name: name, doc: doc, kind: "a number",
		parse: func(s string) (any, error) {
			f, err := strconv.ParseFloat(s, 64)
			if err != nil {
				return nil, errType{"a number", strconv.Quote(s)}
			}
			return f, nil
		},
		set: func(c *S, v any) error {
			var f float64
			switch n := v.(type) {
			case int64:
				f = float64(n)
			case float64:
				f = n
			default:
				return errType{"a number", typeName(v)}
			}
			if math.IsNaN(f) || f < low || f > high {
				return fmt.Errorf("%g is out of range, want %g to %g", f, low, high)
			}
			put(c, f)
			return nil
		},
		show: func(c *S) string { return strconv.FormatFloat(get(c), 'g', -1, 64) },
	}.key()
}

// valueKey is a string key whose text is parsed into a T; the empty text, if
// allowed by parse, is T's zero value.
func valueKey[S section, T any](name string, at func(*S) *T, parse func(string) (T, error), show func(T) string, doc ...string) key {
	return spec[S]{
		name: name, doc: doc, kind: "a string", parse: text,
		set: func(c *S, v any) error {
			s, ok := v.(string)
			if !ok {
				return errType{"a string", typeName(v)}
			}
			t, err := parse(s)
			if err != nil {
				return err
			}
			*at(c) = t
			return nil
		},
		show: func(c *S) string { return quote(show(*at(c))) },
	}.key()
}

// oneOf parses one of a closed set of words.
func oneOf[T ~string](words ...T) func(string) (T, error) {
	return func(s string) (T, error) {
		if slices.Contains(words, T(s)) {
			return T(s), nil
		}
		list := make([]string, len(words))
		for i, w := range words {
			list[i] = string(w)
		}
		return "", fmt.Errorf("%q is unknown, want one of: %s", s, strings.Join(list, ", "))
	}
}

func word[T ~string](v T) string { return string(v) }

// maxEndpoints is what a membership record can carry.
const maxEndpoints = 4

func parseEndpoints(v any, limit int) ([]netip.AddrPort, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, errType{"a list of strings", typeName(v)}
	}
	if len(list) > limit {
		return nil, fmt.Errorf("%d addresses, at most %d are allowed", len(list), limit)
	}
	out := make([]netip.AddrPort, 0, len(list))
	for _, e := range list {
		s, ok := e.(string)
		if !ok {
			return nil, errType{"a list of strings", "a list with " + typeName(e)}
		}
		a, err := netip.ParseAddrPort(s)
		if err != nil || a.Port() == 0 || a.Addr().IsUnspecified() || a.Addr().IsMulticast() {
			return nil, fmt.Errorf("%q is not an address, want \"ip:port\" like \"192.0.2.1:51820\"", s)
		}
		out = append(out, netip.AddrPortFrom(a.Addr().Unmap(), a.Port()))
	}
	return out, nil
}

func showEndpoints(list []netip.AddrPort) string {
	parts := make([]string, len(list))
	for i, a := range list {
		parts[i] = quote(a.String())
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func splitList(s string) any {
	list := []any{}
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// maxPeers bounds [mesh.peers].
const maxPeers = 500

func setPeers(c *Live, v any) error {
	table, ok := v.(map[string]any)
	if !ok {
		return errType{"a table of node = [addresses]", typeName(v)}
	}
	if len(table) > maxPeers {
		return fmt.Errorf("%d peers, at most %d are allowed", len(table), maxPeers)
	}
	peers := make(map[cluster.NodeID][]netip.AddrPort, len(table))
	for _, name := range sortedKeys(table) {
		node, err := cluster.ParseNodeID(name)
		if err != nil {
			return err
		}
		addrs, err := parseEndpoints(table[name], maxEndpoints)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if len(addrs) == 0 {
			return fmt.Errorf("%s: no address", name)
		}
		peers[node] = addrs
	}
	c.Peers = peers
	return nil
}

// parsePeers reads "n1=192.0.2.1:51820,n1=192.0.2.2:51820,n2=...".
func parsePeers(s string) (any, error) {
	table := map[string]any{}
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		node, addr, ok := strings.Cut(part, "=")
		if !ok {
			return nil, errType{"node=ip:port,...", strconv.Quote(part)}
		}
		list, _ := table[node].([]any)
		table[node] = append(list, any(addr))
	}
	return table, nil
}

func showPeers(c *Live) string {
	parts := make([]string, 0, len(c.Peers))
	for _, node := range sortedKeys(c.Peers) {
		parts = append(parts, string(node)+" = "+showEndpoints(c.Peers[node]))
	}
	if len(parts) == 0 {
		return "{}"
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}

func sortedKeys[K ~string, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// quote writes s as a TOML basic string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, "\\u%04x", r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
