package template

import "encoding/json"

// Larger reports whether a value has more bytes than that as JSON.
func Larger(v any, than int) bool { return jsonSize(v, than) > than }

// jsonSize is at most how many bytes a value has as JSON, or some number above most.
func jsonSize(v any, most int) int {
	switch v := v.(type) {
	case string:
		return 2 + len(v)
	case json.Number:
		return len(v)
	case json.RawMessage:
		return len(v)
	case []any:
		n := 2
		for i := 0; i < len(v) && n <= most; i++ {
			n += 1 + jsonSize(v[i], most-n)
		}
		return n
	case map[string]any:
		n := 2
		for k, one := range v {
			if n += 4 + len(k) + jsonSize(one, most-n); n > most {
				break
			}
		}
		return n
	}
	return 1
}
