package pseudonym

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"strings"
)

// leftOut stands where something was that has a name in it which cannot be replaced.
const leftOut = "[left out]"

// Text returns a text without names.
func (n *Names) Text(text []byte) []byte { return n.text(text, false) }

// text replaces what stands as a word. Bare text of JSON is no string: what would be a
// value there stays.
func (n *Names) text(text []byte, bare bool) []byte {
	out := make([]byte, 0, len(text)+len(text)/8)
	for i := 0; i < len(text); {
		if size, as := n.at(text, i, bare); size > 0 {
			out, i = append(out, as...), i+size
			continue
		}
		out, i = append(out, text[i]), i+1
	}
	return out
}

// inWord reports whether c is part of a word.
func inWord(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// at finds what begins at text[i], and says what stands for it.
func (n *Names) at(text []byte, i int, bare bool) (size int, as string) {
	rest, begins := text[i:], i == 0 || !inWord(text[i-1])
	if begins {
		if size = wordLen(rest); size == onionLen && encoded32(rest[:size]) {
			return size, n.onion(string(rest[:size]))
		}
		if size, as = n.addressAt(rest); size > 0 {
			return size, as
		}
	}
	return n.nameAt(rest, begins, bare)
}

// nameAt finds the longest known name at the beginning of rest.
func (n *Names) nameAt(rest []byte, begins, bare bool) (size int, as string) {
	for _, name := range n.byFirst[lower(rest[0])] {
		size := len(name)
		switch {
		case !begins && inWord(name[0]) || size > len(rest) || size < len(rest) && inWord(rest[size]) && inWord(name[size-1]):
		case bare && json.Valid([]byte(name)): // a number, true, false or null
		case strings.EqualFold(string(rest[:size]), name):
			return size, n.known[name]
		}
	}
	return 0, ""
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func wordLen(b []byte) int {
	for i, c := range b {
		if !inWord(c) {
			return i
		}
	}
	return len(b)
}

func encoded32(b []byte) bool {
	return len(bytes.Trim(b, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ234567")) == 0
}

// maxAddr is the longest text of an address.
const maxAddr = 45

// addressAt finds an address at the beginning of rest.
func (n *Names) addressAt(rest []byte) (size int, as string) {
	run, colons, dots := 0, 0, 0
	for run < min(len(rest), maxAddr+7) && strings.IndexByte("0123456789abcdefABCDEF:.", rest[run]) >= 0 {
		switch rest[run] {
		case ':':
			colons++
		case '.':
			dots++
		}
		run++
	}
	if colons < 2 && dots < 3 {
		return 0, ""
	}
	// A port, or the end of a sentence, may follow: "10.0.0.1:51820", "at fd00::1."
	for text := string(rest[:run]); text != ""; text = text[:max(0, strings.LastIndexAny(text, ":."))] {
		a, err := netip.ParseAddr(text)
		if err != nil || len(text) < len(rest) && inWord(rest[len(text)]) {
			continue
		}
		return len(text), n.address(a)
	}
	return 0, ""
}

// JSON returns JSON, or the text of metrics, without names: strings are read and written
// anew, so that neither an escape hides a name nor a name breaks an escape. A string that
// was cut off counts to the end of its line.
func (n *Names) JSON(text []byte) []byte {
	out := make([]byte, 0, len(text)+len(text)/8)
	for len(text) > 0 {
		i := bytes.IndexByte(text, '"')
		if i < 0 {
			i = len(text)
		}
		out, text = append(out, n.text(text[:i], true)...), text[i:]
		if len(text) == 0 {
			break
		}
		size, whole := stringLen(text)
		out, text = append(out, n.literal(text[:size], whole)...), text[size:]
	}
	return out
}

// stringLen is the length of the string at the beginning of text, and whether it ends.
func stringLen(text []byte) (size int, whole bool) {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '\n':
			return i, false
		case '"':
			return i + 1, true
		}
	}
	return len(text), false
}

// longestEscape is that of a character of two, \ud83d\ude00.
const longestEscape = 12

// literal replaces what is in a string.
func (n *Names) literal(text []byte, whole bool) []byte {
	var s string
	if whole {
		if json.Unmarshal(text, &s) != nil {
			return []byte(`"` + leftOut + `"`)
		}
		if as := n.value(s); as != s {
			return quoted(as)
		}
		return text
	}
	for cut := 0; cut <= min(longestEscape, len(text)-1); cut++ {
		if json.Unmarshal(append(bytes.Clone(text[:len(text)-cut]), '"'), &s) == nil {
			return bytes.TrimSuffix(quoted(n.value(s)), []byte(`"`))
		}
	}
	return []byte(`"` + leftOut)
}

func quoted(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// leastEncoded is the shortest encoding that is looked into.
const leastEncoded = 12

// value replaces what is in a string that was read. What is encoded in it and has a name
// inside is left out.
func (n *Names) value(s string) string {
	var out []byte
	for len(s) > 0 {
		size := encodedLen(s)
		if size >= leastEncoded && n.hides(s[:size]) {
			out = append(out, 0) // so that what is replaced around it does not touch it
		} else {
			size = max(size, 1)
			out = append(out, s[:size]...)
		}
		s = s[size:]
	}
	return strings.ReplaceAll(string(n.Text(out)), "\x00", leftOut)
}

// encodedLen is how much of the beginning of s could be base64 or hex.
func encodedLen(s string) int {
	for i := range len(s) {
		if c := s[i]; !inWord(c) && c != '+' && c != '/' && c != '-' && c != '_' && c != '=' {
			return i
		}
	}
	return len(s)
}

// hides reports whether an encoding has a name or the key of an onion address inside.
func (n *Names) hides(part string) bool {
	plain := strings.TrimRight(part, "=")
	for _, decode := range []func(string) ([]byte, error){hex.DecodeString, base64.RawStdEncoding.DecodeString, base64.RawURLEncoding.DecodeString} {
		if raw, err := decode(plain); err == nil && n.names(raw) {
			return true
		}
	}
	return false
}

func (n *Names) names(raw []byte) bool {
	for _, key := range n.keys {
		if bytes.Contains(raw, key) {
			return true
		}
	}
	for i := range raw {
		if size, _ := n.nameAt(raw[i:], i == 0 || !inWord(raw[i-1]), false); size > 0 {
			return true
		}
	}
	return false
}
