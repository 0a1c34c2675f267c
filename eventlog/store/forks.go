package store

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/wire"
	"github.com/skein-project/skein/internal/durable"
)

const proofSuffix = ".proof"

// ProofError says that the proof in a file is not one.
type ProofError struct {
	error
	Path string
}

// Unwrap returns what is wrong.
func (e *ProofError) Unwrap() error { return e.error }

func proofFile(dir string, src event.SourceID) string {
	return filepath.Join(dir, segment.ProofDir, segment.SourceDir(src)+proofSuffix)
}

func saveProof(dir string, src event.SourceID, p wire.Proof) error {
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

// Proof reads the proof of a fork of src.
func (s *Store) Proof(src event.SourceID) (wire.Proof, error) { return loadProof(s.o.Dir, src) }

func loadProof(dir string, src event.SourceID) (wire.Proof, error) {
	f, err := os.Open(proofFile(dir, src))
	if err != nil {
		return wire.Proof{}, fmt.Errorf("open proof: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, wire.MaxProof+1))
	if err == nil && len(b) > wire.MaxProof {
		err = fmt.Errorf("more than %d bytes", wire.MaxProof)
	}
	if err != nil {
		return wire.Proof{}, fmt.Errorf("read proof of %s: %w", src, err)
	}
	return wire.DecodeProof(b)
}

// LoadForks returns the forks whose proofs lie in the log in dir, by source.
// Who folds its events must tell the fold of them. Proofs that do not verify
// are left out and named by the error, which is no reason not to go on: the
// other hosts have them too. Where keyOf knows no key the proof is believed,
// as it was verified before it was kept.
func LoadForks(dir, clusterID string, keyOf func(cluster.NodeID) ed25519.PublicKey) ([]wire.Fork, error) {
	entries, err := os.ReadDir(filepath.Join(dir, segment.ProofDir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list proofs: %w", err)
	}
	var forks []wire.Fork
	var bad []error
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), proofSuffix)
		src, known := segment.ParseSourceDir(name)
		if !ok || !known || len(forks) == wire.MaxForks {
			continue
		}
		f, err := loadFork(dir, clusterID, src, keyOf(src.Node))
		if err != nil {
			bad = append(bad, &ProofError{Path: proofFile(dir, src), error: fmt.Errorf("proof against %s: %w", src, err)})
			continue
		}
		forks = append(forks, f)
	}
	slices.SortFunc(forks, func(a, b wire.Fork) int { return a.Source.Compare(b.Source) })
	return forks, errors.Join(bad...)
}

func loadFork(dir, clusterID string, src event.SourceID, key ed25519.PublicKey) (wire.Fork, error) {
	p, err := loadProof(dir, src)
	if err != nil {
		return wire.Fork{}, err
	}
	var f wire.Fork
	if key != nil {
		f, err = p.Verify(clusterID, key)
	} else {
		var a *wire.Run
		if a, _, err = p.Runs(); err == nil {
			f = wire.Fork{Source: a.Events[0].Source, Seq: a.Events[0].Seq, Prev: a.Events[0].Prev}
		}
	}
	if err == nil && f.Source != src {
		err = fmt.Errorf("it is about %s", f.Source)
	}
	return f, err
}
