package snapshots

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/snapshot"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/eventlog/wire"
	"github.com/skein-project/skein/internal/wait"
)

const (
	// signTimeout bounds how long the holder waits for the voters' signatures.
	signTimeout = 2 * time.Minute
	// signPause lies between two questions to a voter that is still folding.
	signPause = 100 * time.Millisecond
)

// signing asks the other voters for signatures, and decides what this host
// signs.
type signing struct {
	o       *Options
	catalog *catalog
	folder  *folder
	m       *metrics

	mu    sync.Mutex
	asked *proposal // the last one that another host wants signed
}

// proposal is a snapshot that another host wants signed.
type proposal struct {
	taken *event.SnapshotTaken
	from  cluster.NodeID
	done  bool
	err   error
}

// collect asks all voters at once to sign t, and returns when enough have.
func (s *signing) collect(ctx context.Context, t *event.SnapshotTaken, q snapshot.Quorum) ([]event.Signature, error) {
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	type answer struct {
		sig event.Signature
		err error
	}
	answers := make(chan answer, len(q.Voters)) // one slot each: never full
	asked := 0
	var sigs []event.Signature
	for _, v := range q.Voters {
		if v == s.o.Self {
			if err := s.maySign(t); err != nil {
				return nil, err
			}
			sigs = snapshot.Add(sigs, snapshot.Sign(s.o.Cluster, t.ID, v, s.o.Key))
			continue
		}
		asked++
		wg.Go(func() { // ends with ctx, at the latest
			sig, err := s.askSignature(ctx, v, t)
			answers <- answer{sig, err}
		})
	}
	var errs []error
	for len(sigs) < q.Need() && asked > 0 {
		a := <-answers
		asked--
		if a.err != nil {
			errs = append(errs, a.err)
			continue
		}
		sigs = snapshot.Add(sigs, a.sig)
	}
	if len(sigs) < q.Need() {
		err := fmt.Errorf("%w: %d of %d voters signed, %d are needed", snapshot.ErrSignatures, len(sigs), len(q.Voters), q.Need())
		if len(errs) > 0 {
			err = fmt.Errorf("%w: %w", err, errors.Join(errs...))
		}
		return nil, err
	}
	return sigs, nil
}

// askSignature asks one voter until it has folded the log, and again when it
// cannot be reached, until ctx ends.
func (s *signing) askSignature(ctx context.Context, voter cluster.NodeID, t *event.SnapshotTaken) (event.Signature, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return event.Signature{}, err
	}
	for {
		sig, err := s.askSigned(ctx, voter, t.ID, wire.MsgPropose, text)
		if err == nil || errors.Is(err, ErrSnapshot) {
			return sig, err
		}
		if !s.o.MayAct(t.Term) {
			return sig, fmt.Errorf("%w in term %d", errLease, t.Term)
		}
		if wait.For(ctx, signPause) != nil {
			return sig, fmt.Errorf("ask %s to sign: %w", voter, err)
		}
	}
}

// askSigned asks a host to sign a snapshot, once. An error wraps ErrSnapshot if
// asking again is useless.
func (s *signing) askSigned(ctx context.Context, node cluster.NodeID, id cluster.Hash, kind wire.Type, question []byte) (event.Signature, error) {
	conn, err := s.o.Network.Dial(ctx, node)
	if err != nil {
		return event.Signature{}, err
	}
	defer conn.Close()
	m, err := conn.Ask(kind, question)
	if err != nil {
		return event.Signature{}, fmt.Errorf("ask %s to sign: %w", node, err)
	}
	switch m.Kind {
	case wire.MsgSigned:
		sig := event.Signature{Node: node, Sig: m.Payload}
		if !snapshot.Signed(s.o.Cluster, id, sig, s.o.Store.KeyOf(node)) {
			s.o.Network.Blame("signature")
			return sig, fmt.Errorf("%w: signature of %s is forged", ErrSnapshot, node)
		}
		return sig, nil
	case wire.MsgLater:
		return event.Signature{}, fmt.Errorf("%s is not ready to sign", node)
	case wire.MsgRefused:
		return event.Signature{}, fmt.Errorf("%w: %s does not sign: %.512q", ErrSnapshot, node, m.Payload)
	}
	return event.Signature{}, fmt.Errorf("%w: answer %d to a question for a signature", wire.ErrPeer, m.Kind)
}

// maySign says whether this host, which holds the cut of t and has found t
// right, may sign it now: it must not have promised a later term, since then
// that term's cut may lack what is in t. The promise is read after the cut was
// held, which is what makes the cut stable.
func (s *signing) maySign(t *event.SnapshotTaken) error {
	if p := s.o.Promised(); p > t.Term {
		return fmt.Errorf("%w: this host has promised term %d, the snapshot is of %d", ErrSnapshot, p, t.Term)
	}
	return nil
}

// judge folds the log up to the cut of the last proposal, to find out whether
// this host can sign it.
func (s *signing) judge(ctx context.Context) error {
	s.mu.Lock()
	p := s.asked
	s.mu.Unlock()
	if p == nil || p.done {
		return nil
	}
	err := s.check(ctx, p)
	if ctx.Err() != nil {
		return nil
	}
	s.mu.Lock()
	p.done, p.err = true, err
	s.mu.Unlock()
	return err
}

func (s *signing) check(ctx context.Context, p *proposal) error {
	t := p.taken
	if err := s.o.Network.Level(ctx, p.from); err != nil {
		return err
	}
	if base := s.catalog.newest(); base != nil && !snapshot.Covers(t, base) {
		return fmt.Errorf("%w: its cut does not contain that of %s", ErrSnapshot, base.ID)
	}
	if err := s.folder.holds(t); err != nil {
		return err
	}
	for _, f := range t.Forks {
		if known, ok := s.o.Store.Fork(f.Source); !ok || known.Seq != f.Seq {
			return fmt.Errorf("%w: fork of %s at seq %d is not proven here", store.ErrGap, f.Source, f.Seq)
		}
	}
	st, _, clock, err := s.folder.foldTo(ctx, t)
	if err != nil {
		return err
	}
	q, last, err := QuorumOf(st)
	switch {
	case err != nil:
		return err
	case last.Term != t.Term || last.Holder != p.from:
		return fmt.Errorf("%w: %s proposes in term %d, which is not its own", ErrSnapshot, p.from, t.Term)
	case clock != t.Clock:
		return fmt.Errorf("%w: clock %s, here %s", ErrSnapshot, t.Clock, clock)
	}
	if err := s.youngerBeyond(t, q); err != nil {
		return err
	}
	mine := *t
	encoded, err := s.folder.fill(&mine, st)
	if err != nil {
		return err
	}
	if mine.Sum != t.Sum || mine.State != t.State || mine.Size != t.Size {
		why := fmt.Sprintf("%s folds the same events to state %s (%d bytes), this host to %s (%d bytes)", p.from, t.State, t.Size, mine.State, mine.Size)
		s.catalog.alarm(t.ID, why)
		return fmt.Errorf("%w: %s", ErrSnapshot, why)
	}
	s.folder.ready = &folded{id: t.ID, encoded: encoded}
	return nil
}

// youngerBeyond makes sure, where others may act beside the proposer, that what
// this host wrote beyond the cut is younger than everything within: of two
// things that collide the older counts, and that must not be the one beyond.
func (s *signing) youngerBeyond(t *event.SnapshotTaken, q snapshot.Quorum) error {
	if !q.All {
		return nil
	}
	own := s.o.Store.Source()
	for e, err := range s.o.Store.Read(own, snapshot.HeadOf(t, own).Seq+1) {
		if err == nil && e.HLC <= t.Clock {
			err = fmt.Errorf("%w: event %d of %s is older than the snapshot's last and not in it", ErrSnapshot, e.Seq, own)
		}
		return err // the later ones are younger
	}
	return nil
}

// believed counts the voters, as this host believes them to be now, that have
// signed t.
func (s *signing) believed(t *event.SnapshotTaken, keyOf func(cluster.NodeID) ed25519.PublicKey) (cfg cluster.VoterConfig, signed []cluster.NodeID, err error) {
	cfg = s.o.Network.Voters()
	if cfg.IsZero() {
		return cfg, nil, fmt.Errorf("%w: the voters are not known yet", snapshot.ErrSignatures)
	}
	signed, err = snapshot.Check(s.o.Cluster, t, snapshot.Quorum{Voters: cfg.Voters}, keyOf)
	return cfg, signed, err
}

// answerPropose lets the goroutine judge the proposal, and signs when it has.
func (s *signing) answerPropose(from cluster.NodeID, b []byte) (wire.Type, []byte, error) {
	t, err := snapshot.Decode(s.o.Cluster, b)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", wire.ErrPeer, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.asked
	switch {
	case p != nil && p.taken.ID == t.ID && p.from == from && p.done:
		if p.err == nil {
			p.err = s.maySign(t)
		}
		if errors.Is(p.err, ErrSnapshot) {
			return wire.MsgRefused, []byte(clipText(p.err.Error())), nil
		}
		if p.err != nil {
			s.asked = nil // it may go better the next time
			return wire.MsgLater, nil, nil
		}
		return wire.MsgSigned, snapshot.Sign(s.o.Cluster, t.ID, s.o.Self, s.o.Key).Sig, nil
	case p != nil && !p.done:
		return wire.MsgLater, nil, nil // one at a time, this one or another
	case p != nil && p.taken.Term > t.Term:
		return wire.MsgRefused, []byte("a later term has proposed"), nil
	}
	s.asked = &proposal{taken: t, from: from}
	s.catalog.poke()
	return wire.MsgLater, nil, nil
}

func clipText(text string) string { return text[:min(len(text), wire.TextLimit)] }
