package replicate

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/eventlog/wire"
)

// evidence makes, checks and keeps proofs of equivocation.
type evidence struct{ r *Replicator }

// addProof verifies p and keeps it: from the fork on nothing of the source counts.
// What is known already is ignored. The log must be running. found, which is for
// Options.OnEquivocation, says that this host detected the fork itself.
func (v evidence) addProof(ctx context.Context, p wire.Proof, found bool) error {
	a, _, err := p.Runs()
	if err != nil {
		return v.r.m.blame("proof", err)
	}
	src := a.Head.Source
	key := v.r.st.KeyOf(src.Node)
	if key == nil {
		return fmt.Errorf("%w: %w %s", wire.ErrPeer, errUnknownSource, src.Node)
	}
	f, err := p.Verify(v.r.o.Cluster, key)
	if err != nil {
		return v.r.m.blame("proof", err)
	}
	old, ok := v.r.st.Fork(src)
	switch {
	case ok && old.Seq <= f.Seq:
		return nil
	case !ok && len(v.r.st.Forks()) >= wire.MaxForks:
		return fmt.Errorf("%w: more than %d forked sources", wire.ErrPeer, wire.MaxForks)
	}
	if err := v.r.o.Writer.AddFork(ctx, f, p); err != nil {
		return fmt.Errorf("keep proof against %s: %w", src, err)
	}
	if src == v.r.st.Source() {
		// What this host adds to its own chain no longer counts.
		if err := v.r.o.Writer.Renew(ctx, src.Inc+1, src.String()+" has two histories"); err != nil && v.r.st.Source() == src {
			return fmt.Errorf("leave forked chain %s: %w", src, err)
		}
	}
	v.r.o.OnEquivocation(f, found)
	return nil
}

// unproven reports whether a contradiction in the chain of src, somewhere up to
// seq here and there, may lie before the fork that is known.
func (v evidence) unproven(src event.SourceID, seq uint64) bool {
	f, known := v.r.st.Fork(src)
	return !known || min(seq, v.r.st.Head(src).Seq) < f.Seq
}

// prove looks for the first event in which ru differs from what is here. It
// finds none if they differ before ru begins.
func (v evidence) prove(ctx context.Context, ru *wire.Run) error {
	first := ru.Events[0]
	if hash, ok, err := v.r.st.HashAt(first.Source, first.Seq-1); first.Seq > 1 && (err != nil || !ok || hash != first.Prev) {
		return nil
	}
	rd := v.r.st.Reader(first.Source, first.Seq)
	defer rd.Close()
	for i := range ru.Events {
		e, err := rd.Event()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if e.Hash != ru.Events[i].Hash {
			theirs, err := ru.Encode(i)
			if err != nil {
				return err
			}
			return v.proveAt(ctx, e.Source, e.Seq, theirs)
		}
	}
	return nil
}

// proveAt makes the proof out of the own events from seq on and theirs.
func (v evidence) proveAt(ctx context.Context, src event.SourceID, seq uint64, theirs []byte) error {
	rd := v.r.st.Reader(src, seq)
	defer rd.Close()
	ours, _, err := rd.Run(1)
	if err != nil {
		return fmt.Errorf("prove equivocation of %s: %w", src, err)
	}
	return v.addProof(ctx, wire.Proof{A: ours, B: theirs}, true)
}

// investigate asks the peer where its chain of src parts from the one here,
// which both hold at least up to upto, and proves it. It returns nil if they
// are the same there.
func (p *puller) investigate(ctx context.Context, src event.SourceID, upto uint64) error {
	if upto == 0 {
		return nil
	}
	same, seq := uint64(0), upto+1 // equal up to same, not so at seq
	for probe := upto; same+1 < seq; probe = same + (seq-same)/2 {
		theirs, err := p.conn.askMark(src, probe)
		if err != nil {
			return err
		}
		ours, ok, err := p.r.st.HashAt(src, probe)
		if err != nil {
			return err
		}
		if ok && ours == theirs {
			same = probe
		} else {
			seq = probe
		}
	}
	if same == upto {
		return nil
	}
	m, err := p.conn.Ask(wire.MsgWant, binary.BigEndian.AppendUint64(wire.AppendSource(nil, src), seq))
	if err != nil {
		return fmt.Errorf("%w: %w", errStream, err)
	}
	if m.Kind != wire.MsgRun {
		return fmt.Errorf("%w: answer %d to a range question below its own head", wire.ErrPeer, m.Kind)
	}
	if err := (evidence{p.r}).proveAt(ctx, src, seq, m.Payload); err != nil {
		return err
	}
	return store.Contradiction(src, seq)
}

// pullForks learns of the forks that the peer knows.
func (p *puller) pullForks(ctx context.Context) error {
	m, err := p.conn.Ask(wire.MsgForks, nil)
	if err != nil {
		return err
	}
	if m.Kind != wire.MsgForksAre {
		return fmt.Errorf("%w: answer %d to a forks question", wire.ErrPeer, m.Kind)
	}
	forks, err := wire.DecodeForks(m.Payload)
	if err != nil {
		return err
	}
	for _, f := range forks {
		old, known := p.r.st.Fork(f.Source)
		switch {
		case p.r.st.KeyOf(f.Source.Node) == nil:
			continue // nobody here can judge it
		case known && old.Seq == f.Seq && old.Prev != f.Prev:
			// They part earlier than either proof says.
			if err := p.investigate(ctx, f.Source, f.Seq-1); err != nil && !errors.Is(err, store.ErrEquivocation) {
				return err
			}
			continue
		case known && old.Seq <= f.Seq:
			continue
		}
		if err := p.pullProof(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

func (p *puller) pullProof(ctx context.Context, f wire.Fork) error {
	m, err := p.conn.Ask(wire.MsgProof, wire.AppendSource(nil, f.Source))
	if err != nil {
		return err
	}
	if m.Kind == wire.MsgNothing {
		return nil // it was not kept there
	}
	if m.Kind != wire.MsgProofIs {
		return fmt.Errorf("%w: answer %d to a proof question", wire.ErrPeer, m.Kind)
	}
	proof, err := wire.DecodeProof(m.Payload)
	if err != nil {
		return p.r.m.blame("proof", err)
	}
	if err := (evidence{p.r}).addProof(ctx, proof, false); err != nil {
		return err
	}
	if got, ok := p.r.st.Fork(f.Source); !ok || got.Seq > f.Seq {
		return p.r.m.blame("proof", fmt.Errorf("%w: proof is not of the fork of %s at seq %d", wire.ErrPeer, f.Source, f.Seq))
	}
	return nil
}
