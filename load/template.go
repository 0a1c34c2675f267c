package load

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Input is what templates are filled with. Its owner is one step of one iteration.
type Input struct {
	Slots     [][]byte   // what steps extracted; nil: nothing yet
	Rows      [][]string // the row of each set of data
	User      uint64
	Iteration uint64
	Rand      func() uint64
	Now       func() time.Time
}

// ErrUnset says that a template needs what no step has extracted.
var ErrUnset = errors.New("needs a value that was not extracted")

// Template is a text with holes, ready to be filled.
type Template struct {
	parts []part
}

type hole uint8

const (
	literal hole = iota
	slot
	column
	userNumber
	iterationNumber
	call
)

// escape says how what fills a hole is written.
type escape uint8

const (
	asIs escape = iota
	inURL
	inForm
	inJSON
)

type part struct {
	kind     hole
	text     string // of a literal; the name of a function
	a, b     int    // slot; set and column; bounds of random
	args     []Template
	escape   escape
	function function
}

type function uint8

const (
	fnUUID function = iota
	fnNow
	fnRandom
	fnPick
	fnBase64
	fnSHA256
	fnHMAC
)

var functions = map[string]struct {
	fn        function
	low, high int // number of arguments
	doc       string
}{
	"uuid":   {fnUUID, 0, 0, "uuid()"},
	"now":    {fnNow, 0, 1, `now() in milliseconds, now("s") in seconds, now("rfc3339")`},
	"random": {fnRandom, 2, 2, "random(LOW, HIGH)"},
	"pick":   {fnPick, 1, 64, "pick(A, B, ...)"},
	"base64": {fnBase64, 1, 1, "base64(TEXT)"},
	"sha256": {fnSHA256, 1, 1, "sha256(TEXT) in hex"},
	"hmac":   {fnHMAC, 2, 2, "hmac(KEY, TEXT) in hex, with SHA-256"},
}

// Const returns the text of a template without holes.
func (t Template) Const() (string, bool) {
	switch {
	case len(t.parts) == 0:
		return "", true
	case len(t.parts) == 1 && t.parts[0].kind == literal:
		return t.parts[0].text, true
	}
	return "", false
}

// Append fills the template.
func (t Template) Append(dst []byte, in *Input) ([]byte, error) {
	var err error
	for i := range t.parts {
		p := &t.parts[i]
		if p.kind == literal {
			dst = append(dst, p.text...)
			continue
		}
		begin := len(dst)
		if dst, err = p.append(dst, in); err != nil {
			return dst, err
		}
		if p.escape != asIs {
			dst = escaped(dst, begin, p.escape)
		}
	}
	return dst, nil
}

func (p *part) append(dst []byte, in *Input) ([]byte, error) {
	switch p.kind {
	case slot:
		v := in.Slots[p.a]
		if v == nil {
			return dst, ErrUnset
		}
		return append(dst, v...), nil
	case column:
		return append(dst, in.Rows[p.a][p.b]...), nil
	case userNumber:
		return strconv.AppendUint(dst, in.User, 10), nil
	case iterationNumber:
		return strconv.AppendUint(dst, in.Iteration, 10), nil
	}
	return p.call(dst, in)
}

func (p *part) call(dst []byte, in *Input) ([]byte, error) {
	switch p.function {
	case fnUUID:
		return appendUUID(dst, in.Rand(), in.Rand()), nil
	case fnNow:
		switch p.a {
		case 1:
			return strconv.AppendInt(dst, in.Now().Unix(), 10), nil
		case 2:
			return in.Now().UTC().AppendFormat(dst, time.RFC3339), nil
		}
		return strconv.AppendInt(dst, in.Now().UnixMilli(), 10), nil
	case fnRandom:
		return strconv.AppendInt(dst, int64(p.a)+int64(in.Rand()%uint64(p.b-p.a+1)), 10), nil
	case fnPick:
		return p.args[in.Rand()%uint64(len(p.args))].Append(dst, in)
	}
	arg, err := p.args[len(p.args)-1].Append(nil, in)
	if err != nil {
		return dst, err
	}
	switch p.function {
	case fnBase64:
		return base64.StdEncoding.AppendEncode(dst, arg), nil
	case fnSHA256:
		sum := sha256.Sum256(arg)
		return hex.AppendEncode(dst, sum[:]), nil
	}
	key, err := p.args[0].Append(nil, in)
	if err != nil {
		return dst, err
	}
	h := hmac.New(sha256.New, key)
	h.Write(arg)
	return hex.AppendEncode(dst, h.Sum(nil)), nil
}

// appendUUID writes a random UUID, version 4.
func appendUUID(dst []byte, a, b uint64) []byte {
	a = a&^0xf000 | 0x4000
	b = b&^(3<<62) | 1<<63
	const digits = "0123456789abcdef"
	for i := range 32 {
		if i == 8 || i == 12 || i == 16 || i == 20 {
			dst = append(dst, '-')
		}
		x := a
		if i >= 16 {
			x = b
		}
		dst = append(dst, digits[x>>(60-4*(i%16))&15])
	}
	return dst
}

// escaped rewrites what stands in dst from begin on.
func escaped(dst []byte, begin int, e escape) []byte {
	clean := true
	for _, c := range dst[begin:] {
		if mustEscape(c, e) {
			clean = false
			break
		}
	}
	if clean {
		return dst
	}
	raw := string(dst[begin:])
	dst = dst[:begin]
	const digits = "0123456789ABCDEF"
	for i := range len(raw) {
		c := raw[i]
		switch {
		case !mustEscape(c, e):
			dst = append(dst, c)
		case e != inJSON:
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		default:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
	}
	return dst
}

func mustEscape(c byte, e escape) bool {
	switch e {
	case inJSON:
		return c < 0x20 || c == '"' || c == '\\'
	case inForm:
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.~", c) >= 0
		return !plain
	}
	return c <= ' ' || c >= 0x7f || c == '"' || c == '<' || c == '>' || c == '#'
}

// scope knows what names stand for.
type scope struct {
	vars    map[string]string
	slots   []string
	sets    []dataSet
	env     func(string) (string, bool)
	secret  func(string) (string, bool)
	secrets []string // values that were used
	open    []string // variables that are being filled, against cycles
	// allowed slots; nil: all
	reach map[string]bool
}

type dataSet struct {
	name    string
	columns []string
}

// compile reads a template.
func (s *scope) compile(text string, e escape) (Template, error) {
	var t Template
	for text != "" {
		before, rest, found := strings.Cut(text, "${")
		if before != "" {
			t.add(part{text: before})
		}
		if !found {
			break
		}
		inner, after, err := s.expression(rest, e)
		if err != nil {
			return t, err
		}
		for _, p := range inner.parts {
			t.add(p)
		}
		text = after
	}
	return t, nil
}

// add appends a part; literals that meet become one.
func (t *Template) add(p part) {
	if n := len(t.parts); p.kind == literal && n > 0 && t.parts[n-1].kind == literal {
		t.parts[n-1].text += p.text
		return
	}
	t.parts = append(t.parts, p)
}

// expression reads up to the closing brace.
func (s *scope) expression(text string, e escape) (Template, string, error) {
	r := &reader{text: text}
	t, err := s.operand(r, e)
	if err != nil {
		return t, "", err
	}
	if !r.skip("}") {
		return t, "", fmt.Errorf("${%.40s: the closing brace is missing", text)
	}
	return t, r.text, nil
}

// operand reads a name or a call.
func (s *scope) operand(r *reader, e escape) (Template, error) {
	name := r.name()
	if name == "" {
		return Template{}, fmt.Errorf("${%.40s: want a name", r.text)
	}
	if r.skip("(") {
		return s.function(r, name, e)
	}
	return s.resolve(name, e)
}

func (s *scope) function(r *reader, name string, e escape) (Template, error) {
	f, ok := functions[name]
	if !ok {
		known := make([]string, 0, len(functions))
		for k := range functions {
			known = append(known, k)
		}
		msg := fmt.Sprintf("there is no function %s()", name)
		if n := near(name, known); n != "" {
			msg += fmt.Sprintf(": did you mean %s()?", n)
		}
		return Template{}, errors.New(msg)
	}
	p := part{kind: call, text: name, function: f.fn, escape: e}
	for !r.skip(")") {
		if len(p.args) > 0 && !r.skip(",") {
			return Template{}, fmt.Errorf("%s: want a comma or a closing bracket before %.20q", f.doc, r.text)
		}
		arg, err := s.argument(r)
		if err != nil {
			return Template{}, err
		}
		if p.args = append(p.args, arg); len(p.args) > f.high {
			break
		}
	}
	if len(p.args) < f.low || len(p.args) > f.high {
		return Template{}, fmt.Errorf("%s() has %d arguments, want %s", name, len(p.args), f.doc)
	}
	if err := p.settle(f.doc); err != nil {
		return Template{}, err
	}
	return Template{parts: []part{p}}, nil
}

// settle reads the arguments that must be known before.
func (p *part) settle(doc string) error {
	switch p.function {
	case fnRandom:
		for i, to := range []*int{&p.a, &p.b} {
			text, ok := p.args[i].Const()
			n, err := strconv.ParseInt(text, 10, 53)
			if !ok || err != nil {
				return fmt.Errorf("%s wants two whole numbers", doc)
			}
			*to = int(n)
		}
		if p.a > p.b {
			return fmt.Errorf("%s: %d is more than %d", doc, p.a, p.b)
		}
	case fnNow:
		if len(p.args) == 1 {
			text, _ := p.args[0].Const()
			p.a = map[string]int{"ms": 0, "s": 1, "rfc3339": 2}[text]
			if p.a == 0 && text != "ms" {
				return fmt.Errorf("now(%q) is not known: %s", text, doc)
			}
		}
	}
	return nil
}

func (s *scope) argument(r *reader) (Template, error) {
	if text, ok, err := r.quoted(); ok || err != nil {
		return Template{parts: []part{{text: text}}}, err
	}
	if n := r.number(); n != "" {
		return Template{parts: []part{{text: n}}}, nil
	}
	return s.operand(r, asIs)
}

// resolve finds what a name stands for.
func (s *scope) resolve(name string, e escape) (Template, error) {
	one := func(p part) (Template, error) {
		p.escape = e
		return Template{parts: []part{p}}, nil
	}
	head, tail, dotted := strings.Cut(name, ".")
	if dotted {
		switch head {
		case "env":
			return s.known(s.env, tail, "the environment has no variable %q")
		case "secret":
			t, err := s.known(s.secret, tail, "there is no secret %q: give the directory of secrets with --secrets, a file for each")
			if v, _ := t.Const(); err == nil && v != "" {
				s.secrets = append(s.secrets, v)
			}
			return t, err
		}
		for i, set := range s.sets {
			if set.name != head {
				continue
			}
			for j, c := range set.columns {
				if c == tail {
					return one(part{kind: column, a: i, b: j})
				}
			}
			return Template{}, fmt.Errorf("data.%s has no column %q, it has %s", head, tail, strings.Join(set.columns, ", "))
		}
		return Template{}, fmt.Errorf("there is no data.%s", head)
	}
	switch name {
	case "user":
		return one(part{kind: userNumber})
	case "iteration":
		return one(part{kind: iterationNumber})
	}
	for i, known := range s.slots {
		if known == name && (s.reach == nil || s.reach[name]) {
			return one(part{kind: slot, a: i})
		}
	}
	text, ok := s.vars[name]
	if !ok {
		return Template{}, s.unknown(name)
	}
	if slices.Contains(s.open, name) {
		return Template{}, fmt.Errorf("vars.%s needs itself: %s", name, strings.Join(append(s.open, name), " -> "))
	}
	s.open = append(s.open, name)
	defer func() { s.open = s.open[:len(s.open)-1] }()
	// What a variable says literally is written as it stands: it may be an address.
	t, err := s.compile(text, e)
	if err != nil {
		return t, fmt.Errorf("vars.%s: %w", name, err)
	}
	return t, nil
}

func (s *scope) unknown(name string) error {
	known := append([]string{"user", "iteration"}, s.slots...)
	for v := range s.vars {
		known = append(known, v)
	}
	if slices.Contains(s.slots, name) {
		return fmt.Errorf("%q is extracted by a step that does not come before this one", name)
	}
	if n := near(name, known); n != "" {
		return fmt.Errorf("there is no variable %q: did you mean %s?", name, n)
	}
	return fmt.Errorf("there is no variable %q", name)
}

func (s *scope) known(look func(string) (string, bool), name, format string) (Template, error) {
	if look != nil {
		if v, ok := look(name); ok {
			return Template{parts: []part{{text: v}}}, nil
		}
	}
	return Template{}, fmt.Errorf(format, name)
}
