package load

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Answer is what checks and extractions look at.
type Answer struct {
	Status  int
	Body    []byte
	Size    int64         // of the body as it came
	Latency time.Duration // from the intended start to the last byte
	Header  func(name string) string
}

// Check is one condition on an answer.
type Check struct {
	Text string
	what subject
	name string // of a header
	path Path
	op   string
	want []byte
	num  float64
	re   *regexp.Regexp
}

type subject uint8

const (
	ofStatus subject = iota
	ofSize
	ofLatency
	ofBody
	ofHeader
	ofJSON
)

var subjects = map[string]subject{
	"status": ofStatus, "size": ofSize, "latency": ofLatency, "body": ofBody, "header": ofHeader, "json": ofJSON,
}

const checkForm = `a check is SUBJECT OP VALUE, as status == 200, latency < "500ms", body contains "ok", header("X") == "y", json("$.ok") == true; ` +
	`OP is one of == != < <= > >= contains matches exists`

// ParseCheck reads a check.
func ParseCheck(text string) (*Check, error) {
	c := &Check{Text: text}
	r := &reader{text: text}
	name := r.name()
	what, ok := subjects[name]
	if !ok {
		return nil, fmt.Errorf("%q: there is no %q: %s", text, name, checkForm)
	}
	c.what = what
	if what == ofHeader || what == ofJSON {
		if err := c.argument(r, name); err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
	}
	for _, op := range []string{"==", "!=", "<=", ">=", "<", ">", "contains", "matches", "exists"} {
		if r.skip(op) {
			c.op = op
			break
		}
	}
	if err := c.value(r); err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	if r.blank(); r.text != "" {
		return nil, fmt.Errorf("%q: %q stands behind the end: %s", text, r.text, checkForm)
	}
	return c, nil
}

func (c *Check) argument(r *reader, name string) error {
	if !r.skip("(") {
		return fmt.Errorf("want %s(...)", name)
	}
	arg, ok, err := r.quoted()
	if err != nil || !ok || !r.skip(")") {
		return fmt.Errorf("want a text in quotes in %s(...)", name)
	}
	if c.name = arg; c.what == ofJSON {
		c.path, err = ParsePath(arg)
	}
	return err
}

func (c *Check) value(r *reader) error {
	if c.op == "" {
		return fmt.Errorf("there is no operator before %q: %s", r.text, checkForm)
	}
	if c.op == "exists" {
		if c.what < ofHeader {
			return fmt.Errorf("only a header and a JSON value can exist")
		}
		return nil
	}
	text, quoted, err := r.quoted()
	if err != nil {
		return err
	}
	if !quoted {
		if text = r.number(); text == "" {
			text = r.name() // true, false, null
		}
	}
	if text == "" && !quoted {
		return fmt.Errorf("there is no value behind %s", c.op)
	}
	c.want = []byte(text)
	switch {
	case c.op == "matches":
		if c.re, err = regexp.Compile(text); err != nil {
			return err
		}
	case c.op == "contains":
	case c.what == ofLatency:
		d, err := time.ParseDuration(text)
		if err != nil {
			if c.num, err = strconv.ParseFloat(text, 64); err != nil {
				return fmt.Errorf("%q is no time", text)
			}
			d = time.Duration(c.num * float64(time.Millisecond))
		}
		c.num = d.Seconds()
	case c.what < ofBody || strings.ContainsAny(c.op, "<>"):
		if c.num, err = strconv.ParseFloat(text, 64); err != nil {
			return fmt.Errorf("%q is no number", text)
		}
	}
	return nil
}

// OfStatus reports whether the check decides about the status, instead of the
// classes http4xx and http5xx.
func (c *Check) OfStatus() bool { return c.what == ofStatus }

// NeedsBody reports whether the check reads the body.
func (c *Check) NeedsBody() bool { return c.what == ofBody || c.what == ofJSON }

// Holds judges an answer.
func (c *Check) Holds(a *Answer) bool {
	switch c.what {
	case ofStatus:
		return c.number(float64(a.Status))
	case ofSize:
		return c.number(float64(a.Size))
	case ofLatency:
		return c.number(a.Latency.Seconds())
	case ofBody:
		return c.text(a.Body)
	case ofHeader:
		v := a.Header(c.name)
		if c.op == "exists" {
			return v != ""
		}
		return c.text([]byte(v))
	}
	raw := c.path.Find(a.Body)
	if c.op == "exists" || raw == nil {
		return raw != nil
	}
	return c.text(plainValue(raw))
}

func (c *Check) number(x float64) bool {
	switch c.op {
	case "==":
		return x == c.num
	case "!=":
		return x != c.num
	case "<":
		return x < c.num
	case "<=":
		return x <= c.num
	case ">":
		return x > c.num
	case ">=":
		return x >= c.num
	}
	return c.text([]byte(strconv.FormatFloat(x, 'g', -1, 64)))
}

func (c *Check) text(v []byte) bool {
	switch c.op {
	case "==":
		return bytes.Equal(v, c.want)
	case "!=":
		return !bytes.Equal(v, c.want)
	case "contains":
		return bytes.Contains(v, c.want)
	case "matches":
		return c.re.Match(v)
	}
	x, err := strconv.ParseFloat(string(v), 64)
	return err == nil && c.number(x)
}

// Extract is a value that later steps need.
type Extract struct {
	Name   string
	Slot   int
	path   *Path
	header string
	re     *regexp.Regexp
}

// Find returns the value, nil if the answer has none. It may lie in the body.
func (e *Extract) Find(a *Answer) []byte {
	switch {
	case e.path != nil:
		return plainValue(e.path.Find(a.Body))
	case e.re != nil:
		m := e.re.FindSubmatch(a.Body)
		if m == nil {
			return nil
		}
		return m[len(m)-1]
	}
	if v := a.Header(e.header); v != "" {
		return []byte(v)
	}
	return nil
}
