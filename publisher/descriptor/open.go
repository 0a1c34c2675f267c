package descriptor

import (
	"bytes"
	"crypto/ecdh"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Descriptor is the content of a descriptor, as a client sees it.
type Descriptor struct {
	Revision uint64
	// Header holds the lines before the first point, with their objects, but
	// for create2-formats.
	Header []string
	Points []Point
	// Dropped says what was wrong with points that are not in Points.
	Dropped []error
}

// Open decrypts both layers as somebody who knows the address, and reads the
// points. Where discovery is restricted it needs the key of a client.
func (s *Sealed) Open(a Address, p Period, client *ecdh.PrivateKey, now time.Time) (*Descriptor, error) {
	if a.Blind(p) != s.Blinded {
		return nil, fmt.Errorf("%w: not of %s in %s", ErrForeign, a, p)
	}
	subcred := a.Subcredential(p)
	text, err := s.layer(layerMiddle, subcred, nil).open(s.body)
	if err != nil {
		return nil, fmt.Errorf("descriptor of %s: %w", a, err)
	}
	m, err := parseMiddle(unpad(text))
	if err != nil {
		return nil, fmt.Errorf("descriptor of %s: middle layer: %w", a, err)
	}
	var cookie []byte
	if client != nil {
		if cookie, err = m.cookie(subcred, client); err != nil {
			return nil, fmt.Errorf("descriptor of %s: %w", a, err)
		}
	}
	text, err = s.layer(layerInner, subcred, cookie).open(m.body)
	if err != nil && client == nil {
		err = fmt.Errorf("%w: %w", ErrClientAuth, err)
	}
	if err != nil {
		return nil, fmt.Errorf("descriptor of %s: %w", a, err)
	}
	d, err := parseInner(unpad(text), s.Key, now)
	if err != nil {
		return nil, fmt.Errorf("descriptor of %s: inner layer: %w", a, err)
	}
	d.Revision = s.Revision
	return d, nil
}

// unpad drops the padding of a layer, and ends its last line: tor does not in
// the middle layer, stem (onionbalance) not in the inner one.
func unpad(text []byte) []byte {
	text = bytes.TrimRight(text, "\x00")
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	return text
}

func parseInner(text []byte, signer [32]byte, now time.Time) (*Descriptor, error) {
	text, err := normalize(text)
	if err != nil {
		return nil, err
	}
	all, err := items(text, maxItems)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 || all[0].keyword != "create2-formats" {
		return nil, fmt.Errorf("%w: does not begin with create2-formats", ErrSyntax)
	}
	if !slices.Contains(all[0].args, "2") {
		return nil, fmt.Errorf("%w: %w of create2-formats, need 2", ErrSyntax, errUnsupported)
	}
	d := &Descriptor{}
	rest := all[1:]
	for len(rest) > 0 && rest[0].keyword != "introduction-point" {
		if rest[0].keyword == "create2-formats" {
			return nil, fmt.Errorf("%w: create2-formats twice", ErrSyntax)
		}
		d.Header = append(d.Header, rest[0].text)
		rest = rest[1:]
	}
	for len(rest) > 0 {
		n := 1
		for n < len(rest) && rest[n].keyword != "introduction-point" {
			n++
		}
		if len(d.Points)+len(d.Dropped) > MaxPoints {
			return nil, ErrTooMany
		}
		if p, err := parsePoint(rest[:n], signer, now); err != nil {
			d.Dropped = append(d.Dropped, err)
		} else {
			d.Points = append(d.Points, p)
		}
		rest = rest[n:]
	}
	if len(d.Points)+len(d.Dropped) > MaxPoints {
		return nil, ErrTooMany
	}
	return d, nil
}

// CommonHeader returns the lines that a descriptor around all of these may
// carry: those that all have, word for word. The proof of work is never among
// them, since a solution counts at one host only.
func CommonHeader(all []*Descriptor) []string {
	var common []string
	if len(all) == 0 {
		return common
	}
	for _, line := range all[0].Header {
		if strings.Fields(line)[0] == "pow-params" || slices.Contains(common, line) {
			continue
		}
		if !slices.ContainsFunc(all, func(d *Descriptor) bool { return !slices.Contains(d.Header, line) }) {
			common = append(common, line)
		}
	}
	return common
}
