package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// Limits of a message.
const (
	// MaxDatagram is the longest message, in bytes.
	MaxDatagram = 1200
	// MaxProbe is the longest datagram: a heartbeat with spaces behind it,
	// which finds out what the path carries.
	MaxProbe = 9000
	// MaxDepth is the deepest nesting of objects and arrays in a message.
	MaxDepth = 8
	// MaxNumber bounds the magnitude of every number: exact in a float64.
	MaxNumber = 1<<53 - 1
	// maxNameLen is the longest name of a field.
	maxNameLen = 64
)

// CheckJSON reports why data is not one strict JSON object: valid UTF-8 and
// syntax, nothing after it, nesting within depth, field names of [a-z0-9_]
// without repetition, numbers within MaxNumber.
func CheckJSON(data []byte, depth int) error {
	return fields(data, depth, func([]byte, json.RawMessage) error { return nil })
}

// fields checks data like CheckJSON and calls f for each field of the object,
// in order. The arguments of f alias data.
func fields(data []byte, depth int, f func(name []byte, value json.RawMessage) error) error {
	if !utf8.Valid(data) {
		return errors.New("not UTF-8")
	}
	if !json.Valid(data) {
		return errors.New("not JSON")
	}
	s := strict{data: data}
	s.space()
	if s.peek() != '{' {
		return errors.New("not an object")
	}
	return s.object(depth, f)
}

// strict walks JSON of valid syntax.
type strict struct {
	data []byte
	at   int
}

func (s *strict) peek() byte {
	if s.at < len(s.data) {
		return s.data[s.at]
	}
	return 0
}

func (s *strict) space() {
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// value walks one value; depth is what is left of the nesting.
func (s *strict) value(depth int) error {
	s.space()
	switch c := s.peek(); {
	case c == '{':
		return s.object(depth, nil)
	case c == '[':
		return s.array(depth)
	case c == '"':
		s.text()
		return nil
	case c == '-' || (c >= '0' && c <= '9'):
		return s.number()
	default: // true, false, null
		for s.at < len(s.data) && s.data[s.at] >= 'a' && s.data[s.at] <= 'z' {
			s.at++
		}
		return nil
	}
}

func (s *strict) object(depth int, f func([]byte, json.RawMessage) error) error {
	if depth <= 0 {
		return errors.New("nested too deep")
	}
	var few [24][]byte // the names of most objects, without an allocation
	seen := few[:0]
	s.at++ // '{'
	for {
		s.space()
		if s.peek() == '}' {
			s.at++
			return nil
		}
		name := s.text()
		if err := checkName(name); err != nil {
			return err
		}
		for _, n := range seen {
			if bytes.Equal(n, name) {
				return fmt.Errorf("field %q repeated", name)
			}
		}
		seen = append(seen, name)
		s.space()
		s.at++ // ':'
		s.space()
		start := s.at
		if err := s.value(depth - 1); err != nil {
			return err
		}
		if f != nil {
			if err := f(name, json.RawMessage(s.data[start:s.at:s.at])); err != nil {
				return err
			}
		}
		s.space()
		if s.peek() == ',' {
			s.at++
		}
	}
}

func (s *strict) array(depth int) error {
	if depth <= 0 {
		return errors.New("nested too deep")
	}
	s.at++ // '['
	for {
		s.space()
		if s.peek() == ']' {
			s.at++
			return nil
		}
		if err := s.value(depth - 1); err != nil {
			return err
		}
		s.space()
		if s.peek() == ',' {
			s.at++
		}
	}
}

// text walks a string and returns what stands between its quotes.
func (s *strict) text() []byte {
	s.at++ // '"'
	start := s.at
	for s.at < len(s.data) && s.data[s.at] != '"' {
		if s.data[s.at] == '\\' {
			s.at++
		}
		s.at++
	}
	end := min(s.at, len(s.data))
	s.at++ // '"'
	return s.data[start:end]
}

func (s *strict) number() error {
	start := s.at
	for s.at < len(s.data) {
		c := s.data[s.at]
		if (c < '0' || c > '9') && c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' {
			break
		}
		s.at++
	}
	if s.at-start <= 15 && !bytes.ContainsAny(s.data[start:s.at], ".eE") {
		return nil // fewer digits than MaxNumber has
	}
	v, err := strconv.ParseFloat(string(s.data[start:s.at]), 64)
	if err != nil || math.Abs(v) > MaxNumber {
		return fmt.Errorf("number %.32s out of range", s.data[start:s.at])
	}
	return nil
}

func checkName(name []byte) error {
	if len(name) == 0 || len(name) > maxNameLen {
		return fmt.Errorf("field name of %d bytes", len(name))
	}
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return fmt.Errorf("field name %q", name)
		}
	}
	return nil
}
