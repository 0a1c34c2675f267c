package descriptor

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
)

// item is a line of a document, with the object below it if there is one.
type item struct {
	keyword string
	args    []string
	object  []byte // decoded, nil if there is none
	tag     string // of the object
	text    string // as it stands, line ends included
	start   int    // offset of its first byte
}

// normalize undoes the line ends of the control port. It leaves its argument
// alone.
func normalize(text []byte) ([]byte, error) {
	if bytes.IndexByte(text, '\r') >= 0 {
		text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	}
	if bytes.ContainsAny(text, "\r\x00") {
		return nil, fmt.Errorf("%w: NUL or a CR within a line", ErrSyntax)
	}
	return text, nil
}

// scan splits a document in items and hands them to each until it says no.
func scan(text []byte, each func(item) (bool, error)) error {
	for at := 0; at < len(text); {
		it, next, err := scanItem(text, at)
		if err != nil {
			return err
		}
		if more, err := each(it); err != nil || !more {
			return err
		}
		at = next
	}
	return nil
}

// items returns all items of a document, at most limit.
func items(text []byte, limit int) ([]item, error) {
	var all []item
	err := scan(text, func(it item) (bool, error) {
		if len(all) == limit {
			return false, fmt.Errorf("%w: more than %d items", ErrTooLarge, limit)
		}
		all = append(all, it)
		return true, nil
	})
	return all, err
}

func scanItem(text []byte, at int) (it item, next int, err error) {
	line, next, err := scanLine(text, at)
	if err != nil {
		return it, 0, err
	}
	keyword, rest, _ := strings.Cut(line, " ")
	if keyword == "" || strings.ContainsFunc(keyword, notKeyword) {
		return it, 0, fmt.Errorf("%w: byte %d: line without a keyword", ErrSyntax, at)
	}
	it = item{keyword: keyword, args: strings.Fields(rest), start: at}
	if bytes.HasPrefix(text[next:], []byte("-----BEGIN ")) {
		if next, err = it.scanObject(text, next); err != nil {
			return it, 0, err
		}
	}
	it.text = string(text[at:next])
	return it, next, nil
}

func notKeyword(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && r != '-'
}

func (it *item) scanObject(text []byte, at int) (next int, err error) {
	line, next, err := scanLine(text, at)
	if err != nil {
		return 0, err
	}
	tag, ok := strings.CutSuffix(strings.TrimPrefix(line, "-----BEGIN "), "-----")
	if !ok || tag == "" {
		return 0, fmt.Errorf("%w: byte %d: object without a name", ErrSyntax, at)
	}
	end := []byte("\n-----END " + tag + "-----\n")
	// The newline before END may be the one that ends BEGIN.
	n := bytes.Index(text[next-1:], end)
	if n < 0 {
		return 0, fmt.Errorf("%w: byte %d: object %.40q has no end", ErrSyntax, at, tag)
	}
	body := text[next-1 : next-1+n]
	it.object, err = decode64(strings.ReplaceAll(string(body), "\n", ""))
	if err != nil {
		return 0, fmt.Errorf("%w: byte %d: object %.40q is not base64", ErrSyntax, at, tag)
	}
	if it.object == nil {
		it.object = []byte{}
	}
	it.tag = tag
	return next - 1 + n + len(end), nil
}

func scanLine(text []byte, at int) (line string, next int, err error) {
	n := bytes.IndexByte(text[at:], '\n')
	if n < 0 {
		return "", 0, fmt.Errorf("%w: byte %d: last line is cut off", ErrSyntax, at)
	}
	return string(text[at : at+n]), at + n + 1, nil
}

// decode64 reads base64 with or without padding.
func decode64(s string) ([]byte, error) {
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
}

// fixed64 reads exactly n bytes of base64 from argument i.
func (it item) fixed64(i, n int) ([]byte, error) {
	if i >= len(it.args) {
		return nil, fmt.Errorf("%w: %s: argument %d is missing", ErrSyntax, it.keyword, i+1)
	}
	raw, err := decode64(it.args[i])
	if err != nil || len(raw) != n {
		return nil, fmt.Errorf("%w: %s: argument %d is not base64 of %d bytes", ErrSyntax, it.keyword, i+1, n)
	}
	return raw, nil
}

// is reports whether the item has the keyword and, if one is wanted, the
// object.
func (it item) is(keyword, tag string) bool {
	return it.keyword == keyword && it.tag == tag && (tag == "") == (it.object == nil)
}

// appendObject writes an object in lines of 64 characters.
func appendObject(out []byte, tag string, raw []byte) []byte {
	out = append(out, "-----BEGIN "+tag+"-----\n"...)
	text := base64.StdEncoding.EncodeToString(raw)
	for len(text) > 0 {
		n := min(64, len(text))
		out = append(append(out, text[:n]...), '\n')
		text = text[n:]
	}
	return append(out, "-----END "+tag+"-----\n"...)
}
