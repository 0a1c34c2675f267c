package cluster

import (
	"crypto/sha256"
	"hash"
	"io"
)

// Digest is a reader that has the digest of what was read.
type Digest struct {
	r io.Reader
	h hash.Hash
}

// NewDigest returns the Digest of what r yields.
func NewDigest(r io.Reader) *Digest { return &Digest{r: r, h: sha256.New()} }

// Read implements io.Reader.
func (d *Digest) Read(b []byte) (int, error) {
	n, err := d.r.Read(b)
	d.h.Write(b[:n]) // never fails
	return n, err
}

// Sum is the digest of what was read so far.
func (d *Digest) Sum() (h Hash) {
	d.h.Sum(h[:0])
	return h
}
