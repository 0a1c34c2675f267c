package wire

import (
	"crypto/ed25519"
	"encoding/binary"
	"fmt"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/record"
)

const (
	// MaxForks is how many forked sources a log knows of.
	MaxForks = 64
	// MaxProof bounds the encoding of a proof: two runs.
	MaxProof = 2*maxMessage + 16

	proofVersion = 1
)

// Fork names a source that signed two histories, and where they part. No event
// of it from Seq on counts anywhere.
type Fork struct {
	Source event.SourceID `json:"source"`
	Seq    uint64         `json:"seq"`  // of the first event in which they differ
	Prev   cluster.Hash   `json:"prev"` // of the last event that they share
}

// Proof shows to anyone who knows a source's key that it signed two different
// histories. A and B are runs: events, and a head after the last one that the
// source signed. Both begin with the same sequence number behind the same
// event, and their first events differ.
type Proof struct {
	A, B []byte
}

// Runs decodes both histories.
func (p Proof) Runs() (a, b *Run, err error) {
	if a, err = DecodeRun(p.A); err != nil {
		return nil, nil, fmt.Errorf("proof: %w", err)
	}
	if b, err = DecodeRun(p.B); err != nil {
		return nil, nil, fmt.Errorf("proof: %w", err)
	}
	return a, b, nil
}

// Verify returns the fork that p proves to whoever trusts that key is of its
// source. Its errors wrap ErrPeer.
func (p Proof) Verify(clusterID string, key ed25519.PublicKey) (Fork, error) {
	a, b, err := p.Runs()
	if err != nil {
		return Fork{}, err
	}
	for _, ru := range []*Run{a, b} {
		if err := record.VerifyHead(clusterID, ru.Head, key); err != nil {
			return Fork{}, fmt.Errorf("%w: proof: %w", ErrPeer, err)
		}
	}
	x, y := a.Events[0], b.Events[0]
	if x.Source != y.Source || x.Seq != y.Seq || x.Prev != y.Prev || x.Hash == y.Hash {
		return Fork{}, fmt.Errorf("%w: proof: the histories do not part at their first events", ErrPeer)
	}
	return Fork{Source: x.Source, Seq: x.Seq, Prev: x.Prev}, nil
}

// AppendBinary appends the encoding of p, in which it is kept and travels:
// version u8, then each history behind its length u32, big-endian.
func (p Proof) AppendBinary(dst []byte) ([]byte, error) {
	dst = append(dst, proofVersion)
	for _, ru := range [][]byte{p.A, p.B} {
		if len(ru) > maxMessage {
			return dst, fmt.Errorf("proof: a history of %d bytes, at most %d are allowed", len(ru), maxMessage)
		}
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(ru)))
		dst = append(dst, ru...)
	}
	return dst, nil
}

// DecodeProof is the inverse of AppendBinary. It verifies nothing.
func DecodeProof(b []byte) (Proof, error) {
	var p Proof
	if len(b) == 0 || b[0] != proofVersion {
		return p, fmt.Errorf("%w: proof of an unknown version", ErrPeer)
	}
	b = b[1:]
	for _, ru := range []*[]byte{&p.A, &p.B} {
		if len(b) < 4 {
			return Proof{}, fmt.Errorf("%w: proof cut short", ErrPeer)
		}
		n := binary.BigEndian.Uint32(b)
		if b = b[4:]; n > maxMessage || uint64(n) > uint64(len(b)) {
			return Proof{}, fmt.Errorf("%w: proof with a history of %d bytes", ErrPeer, n)
		}
		*ru, b = b[:n:n], b[n:]
	}
	if len(b) > 0 {
		return Proof{}, fmt.Errorf("%w: proof with %d bytes too many", ErrPeer, len(b))
	}
	return p, nil
}

// AppendForks encodes forks for another host: a count u32, then source, seq
// and previous hash of each.
func AppendForks(dst []byte, forks []Fork) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(forks)))
	for _, f := range forks {
		dst = binary.BigEndian.AppendUint64(AppendSource(dst, f.Source), f.Seq)
		dst = append(dst, f.Prev[:]...)
	}
	return dst
}

// DecodeForks is the inverse of AppendForks; each source comes once, in order.
func DecodeForks(b []byte) ([]Fork, error) {
	if len(b) < 4 || binary.BigEndian.Uint32(b) > MaxForks {
		return nil, fmt.Errorf("%w: list of forks", ErrPeer)
	}
	n := int(binary.BigEndian.Uint32(b))
	b = b[4:]
	forks := make([]Fork, 0, n)
	for range n {
		src, rest, err := CutSource(b)
		if err != nil {
			return nil, err
		}
		if len(rest) < 40 {
			return nil, fmt.Errorf("%w: list of forks cut short", ErrPeer)
		}
		f := Fork{Source: src, Seq: binary.BigEndian.Uint64(rest), Prev: cluster.Hash(rest[8:40])}
		if f.Seq == 0 || len(forks) > 0 && forks[len(forks)-1].Source.Compare(src) >= 0 {
			return nil, fmt.Errorf("%w: list of forks out of order at %s", ErrPeer, src)
		}
		forks, b = append(forks, f), rest[40:]
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%w: list of forks with %d bytes too many", ErrPeer, len(b))
	}
	return forks, nil
}
