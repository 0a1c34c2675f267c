package h1

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"

	"github.com/skein-project/skein/load"
)

// Response is an answer. Its memory is used again by the next one.
type Response struct {
	Status   int
	Body     []byte
	Size     int64 // bytes of the body, kept or not
	Reusable bool  // the connection is good for another request
	head     []byte
	fields   []field
	old      bool // HTTP/1.0
}

// field is a line of the head, as places in it.
type field struct{ name, colon, value, end int }

func (r *Response) reset() {
	r.Status, r.Size, r.Reusable = 0, 0, false
	r.head, r.fields, r.Body = r.head[:0], r.fields[:0], r.Body[:0]
	if cap(r.Body) > 4*bodyStep { // one large answer is not kept for ever
		r.Body = nil
	}
}

// Get is the first field of a name, "" if there is none.
func (r *Response) Get(name string) string {
	for _, f := range r.fields {
		if n := r.head[f.name:f.colon]; len(n) == len(name) && equalFold(n, name) {
			return string(r.head[f.value:f.end])
		}
	}
	return ""
}

// Each calls f for each field; what it gets is only good meanwhile.
func (r *Response) Each(f func(name, value []byte)) {
	for _, one := range r.fields {
		f(r.head[one.name:one.colon], r.head[one.value:one.end])
	}
}

// Fields counts those of the head.
func (r *Response) Fields() int { return len(r.fields) }

// HeadSize is the size of the head in bytes.
func (r *Response) HeadSize() int { return len(r.head) }

// parse reads the head.
func (r *Response) parse() error {
	r.fields = r.fields[:0]
	b := r.head
	first := bytes.IndexByte(b, '\n')
	if err := r.statusLine(trimEnd(b[:first])); err != nil {
		return err
	}
	for at := first + 1; at < len(b); {
		n := bytes.IndexByte(b[at:], '\n')
		line := trimEnd(b[at : at+n])
		if len(line) == 0 {
			break
		}
		if len(r.fields) == MaxFields {
			return protocol("the head has more than %d fields", MaxFields)
		}
		colon, value, err := splitField(line)
		if err != nil {
			return err
		}
		end := len(line)
		for end > value && isBlank(line[end-1]) {
			end--
		}
		r.fields = append(r.fields, field{at, at + colon, at + value, at + end})
		at += n + 1
	}
	return nil
}

func trimEnd(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		return line[:n-1]
	}
	return line
}

// statusLine reads HTTP/1.1 200 OK.
func (r *Response) statusLine(line []byte) error {
	rest, ok := bytes.CutPrefix(line, []byte("HTTP/1."))
	if !ok || len(rest) < 5 || rest[0] != '0' && rest[0] != '1' || rest[1] != ' ' || len(rest) > 5 && rest[5] != ' ' {
		return protocol("%.40q is no status line", line)
	}
	r.old = rest[0] == '0'
	r.Status = 0
	for _, c := range rest[2:5] {
		if c < '0' || c > '9' {
			return protocol("%.40q is no status line", line)
		}
		r.Status = r.Status*10 + int(c-'0')
	}
	if r.Status < 100 {
		return protocol("there is no status %d", r.Status)
	}
	for _, c := range rest[5:] {
		if c < ' ' && c != '\t' || c == 0x7f {
			return protocol("a control character in the status line")
		}
	}
	return nil
}

// splitField finds the colon of a field, and where its value begins.
func splitField(line []byte) (colon, value int, err error) {
	for colon < len(line) && token[line[colon]] {
		colon++
	}
	if colon == 0 || colon == len(line) || line[colon] != ':' {
		return 0, 0, protocol("%.40q is no field of a head", line)
	}
	for _, c := range line[colon+1:] {
		if c < ' ' && c != '\t' || c == 0x7f {
			return 0, 0, protocol("a control character in the field %.40q", line[:colon])
		}
	}
	value = colon + 1
	for value < len(line) && isBlank(line[value]) {
		value++
	}
	return colon, value, nil
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// trimBlanks is b without blanks at its ends; bytes.Trim makes a set of them each time.
func trimBlanks(b []byte) []byte {
	for len(b) > 0 && isBlank(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isBlank(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

// token are the bytes that names of fields are made of.
var token = func() (t [256]bool) {
	for c := byte('0'); c <= 'z'; c++ {
		t[c] = c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a'
	}
	for _, c := range []byte("!#$%&'*+-.^_`|~") {
		t[c] = true
	}
	return t
}()

func equalFold(b []byte, s string) bool {
	for i := range len(s) {
		x, y := b[i], s[i]
		if x == y {
			continue
		}
		if x|0x20 != y|0x20 || x|0x20 < 'a' || x|0x20 > 'z' {
			return false
		}
	}
	return true
}

// framing says how long the body is: a length, chunks, or until the target closes (-1).
// What says two things is refused: others on the way may believe the other one.
func (r *Response) framing(head bool) (length int64, chunked bool, err error) {
	length = -1
	keep, closes := false, false
	for _, f := range r.fields {
		name, value := r.head[f.name:f.colon], r.head[f.value:f.end]
		switch len(name) {
		case len("Content-Length"):
			if equalFold(name, "Content-Length") {
				n, err := contentLength(value)
				if err != nil {
					return 0, false, err
				}
				if length >= 0 && n != length {
					return 0, false, protocol("two lengths of the body: %d and %d", length, n)
				}
				length = n
			}
		case len("Transfer-Encoding"):
			if equalFold(name, "Transfer-Encoding") {
				if chunked || r.old || !strings.EqualFold(string(value), "chunked") {
					return 0, false, protocol("Transfer-Encoding %.40q is not understood", value)
				}
				chunked = true
			}
		case len("Connection"):
			if equalFold(name, "Connection") {
				closes = closes || has(value, "close")
				keep = keep || has(value, "keep-alive")
			}
		}
	}
	if chunked && length >= 0 {
		return 0, false, protocol("the body has a length and chunks")
	}
	r.Reusable = !closes && (!r.old || keep)
	if head || r.Status == 204 || r.Status == 304 {
		return 0, false, nil
	}
	return length, chunked, nil
}

// has finds a word in a list.
func has(list []byte, word string) bool {
	for len(list) > 0 {
		one := list
		if i := bytes.IndexByte(list, ','); i >= 0 {
			one, list = list[:i], list[i+1:]
		} else {
			list = nil
		}
		one = trimBlanks(one)
		if len(one) == len(word) && equalFold(one, word) {
			return true
		}
	}
	return false
}

func contentLength(value []byte) (int64, error) {
	n := int64(0)
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, protocol("Content-Length %.40q is no length", value)
		}
		n = n*10 + int64(c-'0')
	}
	if len(value) == 0 || len(value) > 15 {
		return 0, protocol("Content-Length %.40q is no length", value)
	}
	return n, nil
}

// Inflate unpacks a body of gzip, as far as a body may be kept.
func Inflate(body []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, protocol("the body is no gzip: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(z, MaxBody+1))
	switch {
	case err != nil:
		return nil, protocol("the body is no gzip: %w", err)
	case len(b) > MaxBody:
		return nil, &Error{load.TooLarge, fmt.Errorf("the body has more than %d bytes when it is unpacked", MaxBody)}
	}
	return b, nil
}
