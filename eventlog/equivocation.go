package eventlog

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/record"
)

// provenFork is a fork with what proves it.
type provenFork struct {
	Fork
	proof Proof
}

// Forks returns the sources that are proven to have signed two histories, by
// source.
func (l *Log) Forks() []Fork {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.forksLocked()
}

func (l *Log) forksLocked() []Fork {
	forks := make([]Fork, 0, len(l.forks))
	for _, f := range l.forks {
		forks = append(forks, f)
	}
	slices.SortFunc(forks, func(a, b Fork) int { return a.Source.Compare(b.Source) })
	return forks
}

func (l *Log) fork(src cluster.SourceID) (Fork, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	f, ok := l.forks[src]
	return f, ok
}

// marksLocked returns how far every chain counts: up to its durable end, or to
// where its fork begins.
func (l *Log) marksLocked() cluster.Cut {
	marks := make(cluster.Cut, 0, len(l.chains)+len(l.forks))
	for src, c := range l.chains {
		m := cluster.Mark{Seq: c.head.Seq, Hash: c.head.Hash}
		if f, ok := l.forks[src]; ok && m.Seq >= f.Seq {
			m = cluster.Mark{Seq: f.Seq - 1, Hash: f.Prev}
			if h := l.snap.head(src); h.Seq >= f.Seq { // a snapshot stands
				m = cluster.Mark{Seq: h.Seq, Hash: h.Hash}
			}
		}
		marks = append(marks, cluster.SourceMark{Source: src, Mark: m})
	}
	for src := range l.forks {
		if l.chains[src] == nil {
			marks = append(marks, cluster.SourceMark{Source: src})
		}
	}
	slices.SortFunc(marks, func(a, b cluster.SourceMark) int { return a.Source.Compare(b.Source) })
	return marks
}

// loadForks takes in the proofs that are kept, before anything is folded.
func (l *Log) loadForks() {
	forks, err := LoadForks(l.o.Dir, l.o.Cluster, l.o.keyOf)
	if err != nil {
		l.log.Error().Err(err).Msg("proof of equivocation unreadable; the other hosts have it")
	}
	for _, f := range forks {
		l.forks[f.Source] = f
		l.fold.st.Fork(f.Source, f.Seq)
	}
}

// addProof verifies p, keeps it and ends what its source has to say; what is
// known already is ignored. It needs Run to run. Found tells Options.OnEquivocation
// that this host has found the fork itself.
func (l *Log) addProof(ctx context.Context, p Proof, found bool) error {
	a, _, err := p.runs()
	if err != nil {
		return l.blame("proof", err)
	}
	src := a.head.Source
	key := l.o.keyOf(src.Node)
	if key == nil {
		return fmt.Errorf("%w: %w %s", ErrPeer, errUnknownSource, src.Node)
	}
	f, err := p.Verify(l.o.Cluster, key)
	if err != nil {
		return l.blame("proof", err)
	}
	old, ok := l.fork(src)
	switch {
	case ok && old.Seq <= f.Seq:
		return nil
	case !ok && len(l.Forks()) >= MaxForks:
		return fmt.Errorf("%w: more than %d forked sources", ErrPeer, MaxForks)
	}
	r := &request{fork: &provenFork{Fork: f, proof: p}, class: urgent, done: make(chan struct{}, 1)}
	if err := l.submit(ctx, r); err != nil {
		return fmt.Errorf("keep proof against %s: %w", src, err)
	}
	if src == l.Source() {
		// Nothing that this host adds to its own chain counts any more.
		if err := l.renew(ctx, src.Inc+1, src.String()+" has two histories"); err != nil && l.Source() == src {
			return fmt.Errorf("leave forked chain %s: %w", src, err)
		}
	}
	l.o.OnEquivocation(f, found)
	return nil
}

// applyFork is the writer's part of addProof. An error says that the disk could
// not be read.
func (l *Log) applyFork(f *provenFork) error {
	if old, ok := l.forks[f.Source]; ok && old.Seq <= f.Seq {
		return nil
	}
	if err := saveProof(l.o.Dir, f.Source, f.proof); err != nil {
		l.log.Error().Err(err).Msg("proof of equivocation not kept")
	}
	l.lockFold()
	l.mu.Lock()
	l.forks[f.Source] = f.Fork
	l.digest = nil
	l.mu.Unlock()
	l.fold.stale = l.fold.st.Fork(f.Source, f.Seq) || l.fold.stale
	err := l.refoldLocked()
	l.fold.mu.Unlock()
	l.m.forks.Inc()
	l.log.Error().Str("node", string(f.Source.Node)).Uint64("incarnation", f.Source.Inc).Uint64("seq", f.Seq).
		Str("proof", proofFile(l.o.Dir, f.Source)).Msg("source signed two histories; nothing of it from there on counts")
	l.notify()
	return err
}

// unproven reports whether a contradiction in the chain of src, somewhere up to
// seq here and there, may lie before the fork that is known.
func (l *Log) unproven(src cluster.SourceID, seq uint64) bool {
	f, known := l.fork(src)
	return !known || min(seq, l.Head(src).Seq) < f.Seq
}

// contradiction says that a run cannot follow what is here of its chain.
func contradiction(src cluster.SourceID, seq uint64) error {
	return fmt.Errorf("%w: %s at seq %d", ErrEquivocation, src, seq)
}

// prove looks for the first event in which ru differs from what is here. It
// finds none if they differ before ru begins.
func (l *Log) prove(ctx context.Context, ru *run) error {
	first := ru.events[0]
	if hash, ok := l.hashAt(first.Source, first.Seq-1); first.Seq > 1 && (!ok || hash != first.Prev) {
		return nil
	}
	r := l.reader(first.Source, first.Seq)
	defer r.close()
	for i := range ru.events {
		e, err := r.event()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if e.Hash != ru.events[i].Hash {
			theirs, err := ru.encode(i)
			if err != nil {
				return err
			}
			return l.proveAt(ctx, e.Source, e.Seq, theirs)
		}
	}
	return nil
}

// proveAt makes the proof out of the own events from seq on and theirs.
func (l *Log) proveAt(ctx context.Context, src cluster.SourceID, seq uint64, theirs []byte) error {
	r := l.reader(src, seq)
	defer r.close()
	ours, _, err := r.run(1)
	if err != nil {
		return fmt.Errorf("prove equivocation of %s: %w", src, err)
	}
	return l.addProof(ctx, Proof{A: ours, B: theirs}, true)
}

// encode returns the frames of the events from the i-th on, and the head.
func (ru *run) encode(i int) ([]byte, error) {
	var b []byte
	for _, e := range ru.events[i:] {
		p, err := record.AppendEvent(nil, e)
		if err == nil {
			b, err = record.AppendFrame(b, record.Frame{Type: record.TypeEvent, Base: 1, Payload: p})
		}
		if err != nil {
			return nil, err
		}
	}
	p, err := record.AppendHead(nil, ru.head)
	if err != nil {
		return nil, err
	}
	return record.AppendFrame(b, record.Frame{Type: record.TypeHead, Base: 1, Payload: p})
}

// investigate asks the peer where its chain of src parts from the one here,
// which both hold at least up to upto, and proves it. It returns nil if they
// are the same there.
func (l *Log) investigate(ctx context.Context, conn net.Conn, br *bufio.Reader, src cluster.SourceID, upto uint64) error {
	if upto == 0 {
		return nil
	}
	same, seq := uint64(0), upto+1 // equal up to same, not so at seq
	for probe := upto; same+1 < seq; probe = same + (seq-same)/2 {
		theirs, err := l.askMark(conn, br, src, probe)
		if err != nil {
			return err
		}
		ours, ok, err := l.readHash(src, probe)
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
	m, err := l.ask(conn, br, msgWant, binary.BigEndian.AppendUint64(appendSource(nil, src), seq))
	if err != nil {
		return fmt.Errorf("%w: %w", errStream, err)
	}
	if m.kind != msgRun {
		return fmt.Errorf("%w: answer %d to a range question below its own head", ErrPeer, m.kind)
	}
	if err := l.proveAt(ctx, src, seq, m.payload); err != nil {
		return err
	}
	return contradiction(src, seq)
}

// askMark asks for the hash of one event. Nobody signed the answer.
func (l *Log) askMark(conn net.Conn, br *bufio.Reader, src cluster.SourceID, seq uint64) (cluster.Hash, error) {
	m, err := l.ask(conn, br, msgMark, binary.BigEndian.AppendUint64(appendSource(nil, src), seq))
	if err != nil {
		return cluster.Hash{}, fmt.Errorf("%w: %w", errStream, err)
	}
	if m.kind != msgAck {
		return cluster.Hash{}, fmt.Errorf("%w: answer %d to a mark question", ErrPeer, m.kind)
	}
	a, err := decodeAck(m.payload)
	if err == nil && a.mark.Seq != seq {
		err = fmt.Errorf("%w: no event %d of %s below its own head", ErrPeer, seq, src)
	}
	return a.mark.Hash, err
}

// pullForks learns of the forks that the peer knows.
func (l *Log) pullForks(ctx context.Context, conn net.Conn, br *bufio.Reader) error {
	m, err := l.ask(conn, br, msgForks, nil)
	if err != nil {
		return err
	}
	if m.kind != msgForksAre {
		return fmt.Errorf("%w: answer %d to a forks question", ErrPeer, m.kind)
	}
	forks, err := decodeForks(m.payload)
	if err != nil {
		return err
	}
	for _, f := range forks {
		old, known := l.fork(f.Source)
		switch {
		case l.o.keyOf(f.Source.Node) == nil:
			continue // nobody here can judge it
		case known && old.Seq == f.Seq && old.Prev != f.Prev:
			// They part earlier than either proof says.
			if err := l.investigate(ctx, conn, br, f.Source, f.Seq-1); err != nil && !errors.Is(err, ErrEquivocation) {
				return err
			}
			continue
		case known && old.Seq <= f.Seq:
			continue
		}
		if err := l.pullProof(ctx, conn, br, f); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) pullProof(ctx context.Context, conn net.Conn, br *bufio.Reader, f Fork) error {
	m, err := l.ask(conn, br, msgProof, appendSource(nil, f.Source))
	if err != nil {
		return err
	}
	if m.kind == msgNothing {
		return nil // it was not kept there
	}
	if m.kind != msgProofIs {
		return fmt.Errorf("%w: answer %d to a proof question", ErrPeer, m.kind)
	}
	p, err := DecodeProof(m.payload)
	if err != nil {
		return l.blame("proof", err)
	}
	if err := l.addProof(ctx, p, false); err != nil {
		return err
	}
	if got, ok := l.fork(f.Source); !ok || got.Seq > f.Seq {
		return l.blame("proof", fmt.Errorf("%w: proof is not of the fork of %s at seq %d", ErrPeer, f.Source, f.Seq))
	}
	return nil
}

// answerMark says which hash an event has here.
func (l *Log) answerMark(b []byte) (messageType, []byte, error) {
	src, rest, err := cutSource(b)
	if err != nil {
		return 0, nil, err
	}
	if len(rest) != 8 {
		return 0, nil, fmt.Errorf("%w: mark question", ErrPeer)
	}
	a := ack{promised: l.o.Promised()}
	seq := binary.BigEndian.Uint64(rest)
	if hash, ok := l.hashAt(src, seq); ok && seq > 0 {
		a.mark = cluster.Mark{Seq: seq, Hash: hash}
	}
	return msgAck, a.encode(), nil
}

// answerProof sends a proof that is kept here.
func (l *Log) answerProof(b []byte) (messageType, []byte, error) {
	src, rest, err := cutSource(b)
	if err != nil || len(rest) > 0 {
		return 0, nil, fmt.Errorf("%w: proof question", ErrPeer)
	}
	if _, ok := l.fork(src); !ok {
		return msgNothing, nil, nil
	}
	p, err := loadProof(l.o.Dir, src)
	if err != nil {
		l.log.Error().Err(err).Msg("proof of equivocation unreadable")
		return msgNothing, nil, nil
	}
	enc, err := p.AppendBinary(nil)
	return msgProofIs, enc, err
}
