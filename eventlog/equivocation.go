package eventlog

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/internal/durable"
)

// Proof shows to anyone who knows a source's key that it signed two different
// histories: A and B are both signed, and Frames, the events up to B, give
// the event A.Seq another hash than A does. Without Frames, A and B have the
// same Seq.
type Proof struct {
	A      cluster.Head `json:"a"`
	B      cluster.Head `json:"b"`
	Frames []byte       `json:"frames,omitempty"`
}

// Source returns the chain that the proof is about.
func (p Proof) Source() cluster.SourceID { return p.A.Source }

// Verify returns nil if p proves that the owner of key equivocated.
func (p Proof) Verify(clusterID string, key ed25519.PublicKey) error {
	if p.A.Source != p.B.Source {
		return fmt.Errorf("proof: heads of %s and %s", p.A.Source, p.B.Source)
	}
	for _, h := range []cluster.Head{p.A, p.B} {
		if err := record.VerifyHead(clusterID, h, key); err != nil {
			return fmt.Errorf("proof: %w", err)
		}
	}
	if len(p.Frames) == 0 {
		if p.A.Seq != p.B.Seq || p.A.Hash == p.B.Hash {
			return fmt.Errorf("proof: the heads do not contradict each other")
		}
		return nil
	}
	ru, err := decodeRun(p.Frames)
	if err != nil {
		return fmt.Errorf("proof: %w", err)
	}
	if ru.head.Source != p.B.Source || ru.head.Seq != p.B.Seq || ru.head.Hash != p.B.Hash {
		return fmt.Errorf("proof: the events do not lead to the second head")
	}
	if hash, ok := ru.hashAt(p.A.Seq); !ok || hash == p.A.Hash {
		return fmt.Errorf("proof: the events do not contradict the first head")
	}
	return nil
}

// hashAt returns the hash that the run gives the event seq.
func (ru *run) hashAt(seq uint64) (cluster.Hash, bool) {
	first := ru.events[0]
	switch {
	case seq+1 == first.Seq:
		return first.Prev, true
	case seq < first.Seq || seq > ru.head.Seq:
		return cluster.Hash{}, false
	}
	return ru.events[seq-first.Seq].Hash, true
}

// forkError says that a run contradicts a signed head that this host holds.
type forkError struct {
	ours cluster.Head
	run  *run
}

func (e *forkError) Error() string {
	return fmt.Sprintf("%v: %s at seq %d", ErrEquivocation, e.ours.Source, e.ours.Seq)
}

func (e *forkError) Unwrap() error { return ErrEquivocation }

func (e *forkError) proof() (Proof, error) {
	var b []byte
	for _, ev := range e.run.events {
		p, err := record.AppendEvent(nil, ev)
		if err != nil {
			return Proof{}, err
		}
		if b, err = record.AppendFrame(b, record.Frame{Type: record.TypeEvent, Base: 1, Payload: p}); err != nil {
			return Proof{}, err
		}
	}
	p, err := record.AppendHead(nil, e.run.head)
	if err != nil {
		return Proof{}, err
	}
	b, err = record.AppendFrame(b, record.Frame{Type: record.TypeHead, Base: 1, Payload: p})
	return Proof{A: e.ours, B: e.run.head, Frames: b}, err
}

// noteFork keeps the proof of an equivocation, once per source.
func (l *Log) noteFork(p Proof) {
	src := p.Source()
	key := l.o.keyOf(src.Node)
	if key == nil || p.Verify(l.o.Cluster, key) != nil {
		return // a contradiction that cannot be shown to others
	}
	l.mu.Lock()
	known := l.forked[src]
	l.forked[src] = true
	l.mu.Unlock()
	if known {
		return
	}
	l.m.forks.Inc()
	name := filepath.Join(l.o.Dir, proofDir, sourceDir(src)+".json")
	l.log.Error().Str("node", string(src.Node)).Uint64("incarnation", src.Inc).Uint64("seq", p.A.Seq).
		Str("proof", name).Msg("source signed two histories")
	if err := saveProof(name, p); err != nil {
		l.log.Error().Err(err).Msg("proof of equivocation not kept")
	}
	l.o.OnEquivocation(p)
}

func saveProof(name string, p Proof) error {
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("encode proof: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return fmt.Errorf("keep proof: %w", err)
	}
	return durable.WriteFile(name, b, 0o600)
}
