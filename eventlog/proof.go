package eventlog

import (
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/internal/durable"
)

const (
	// MaxForks is how many forked sources a log knows of.
	MaxForks = 64
	// maxProof bounds the encoding of a proof: two runs.
	maxProof = 2*maxMessage + 16

	proofVersion = 1
	proofSuffix  = ".proof"
)

// Fork names a source that signed two histories, and where they part. No event
// of it from Seq on counts anywhere.
type Fork struct {
	Source cluster.SourceID `json:"source"`
	Seq    uint64           `json:"seq"`  // of the first event in which they differ
	Prev   cluster.Hash     `json:"prev"` // of the last event that they share
}

// Proof shows to anyone who knows a source's key that it signed two different
// histories. A and B are runs: events, and a head after the last one that the
// source signed. Both begin with the same sequence number behind the same
// event, and their first events differ.
type Proof struct {
	A, B []byte
}

// runs decodes both histories.
func (p Proof) runs() (a, b *run, err error) {
	if a, err = decodeRun(p.A); err != nil {
		return nil, nil, fmt.Errorf("proof: %w", err)
	}
	if b, err = decodeRun(p.B); err != nil {
		return nil, nil, fmt.Errorf("proof: %w", err)
	}
	return a, b, nil
}

// Verify returns the fork that p proves to whoever trusts that key is of its
// source. Its errors wrap ErrPeer.
func (p Proof) Verify(clusterID string, key ed25519.PublicKey) (Fork, error) {
	a, b, err := p.runs()
	if err != nil {
		return Fork{}, err
	}
	for _, ru := range []*run{a, b} {
		if err := record.VerifyHead(clusterID, ru.head, key); err != nil {
			return Fork{}, fmt.Errorf("%w: proof: %w", ErrPeer, err)
		}
	}
	x, y := a.events[0], b.events[0]
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

// appendForks encodes forks for another host: a count u32, then source, seq
// and previous hash of each.
func appendForks(dst []byte, forks []Fork) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(forks)))
	for _, f := range forks {
		dst = binary.BigEndian.AppendUint64(appendSource(dst, f.Source), f.Seq)
		dst = append(dst, f.Prev[:]...)
	}
	return dst
}

// decodeForks is the inverse of appendForks; each source comes once, in order.
func decodeForks(b []byte) ([]Fork, error) {
	if len(b) < 4 || binary.BigEndian.Uint32(b) > MaxForks {
		return nil, fmt.Errorf("%w: list of forks", ErrPeer)
	}
	n := int(binary.BigEndian.Uint32(b))
	b = b[4:]
	forks := make([]Fork, 0, n)
	for range n {
		src, rest, err := cutSource(b)
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

func proofFile(dir string, src cluster.SourceID) string {
	return filepath.Join(dir, proofDir, sourceDir(src)+proofSuffix)
}

func saveProof(dir string, src cluster.SourceID, p Proof) error {
	b, err := p.AppendBinary(nil)
	if err != nil {
		return err
	}
	name := proofFile(dir, src)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return fmt.Errorf("keep proof: %w", err)
	}
	return durable.WriteFile(name, b, 0o600)
}

func loadProof(dir string, src cluster.SourceID) (Proof, error) {
	f, err := os.Open(proofFile(dir, src))
	if err != nil {
		return Proof{}, fmt.Errorf("open proof: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxProof+1))
	if err == nil && len(b) > maxProof {
		err = fmt.Errorf("more than %d bytes", maxProof)
	}
	if err != nil {
		return Proof{}, fmt.Errorf("read proof of %s: %w", src, err)
	}
	return DecodeProof(b)
}

// LoadForks returns the forks whose proofs lie in the log in dir, by source.
// Who folds its events must tell the fold of them. Proofs that do not verify
// are left out and named by the error, which is no reason not to go on: the
// other hosts have them too. Where keyOf knows no key the proof is believed,
// as it was verified before it was kept.
func LoadForks(dir, clusterID string, keyOf func(cluster.NodeID) ed25519.PublicKey) ([]Fork, error) {
	entries, err := os.ReadDir(filepath.Join(dir, proofDir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list proofs: %w", err)
	}
	var forks []Fork
	var bad []error
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), proofSuffix)
		src, known := parseSourceDir(name)
		if !ok || !known || len(forks) == MaxForks {
			continue
		}
		f, err := loadFork(dir, clusterID, src, keyOf(src.Node))
		if err != nil {
			bad = append(bad, fmt.Errorf("proof against %s: %w", src, err))
			continue
		}
		forks = append(forks, f)
	}
	slices.SortFunc(forks, func(a, b Fork) int { return a.Source.Compare(b.Source) })
	return forks, errors.Join(bad...)
}

func loadFork(dir, clusterID string, src cluster.SourceID, key ed25519.PublicKey) (Fork, error) {
	p, err := loadProof(dir, src)
	if err != nil {
		return Fork{}, err
	}
	var f Fork
	if key != nil {
		f, err = p.Verify(clusterID, key)
	} else {
		var a *run
		if a, _, err = p.runs(); err == nil {
			f = Fork{Source: a.events[0].Source, Seq: a.events[0].Seq, Prev: a.events[0].Prev}
		}
	}
	if err == nil && f.Source != src {
		err = fmt.Errorf("it is about %s", f.Source)
	}
	return f, err
}
