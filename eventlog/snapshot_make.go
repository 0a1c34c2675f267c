package eventlog

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/snapshot"
	"github.com/skein-project/skein/eventlog/state"
)

const (
	// signTimeout bounds how long the holder waits for the voters' signatures.
	signTimeout = 2 * time.Minute
	// failedPause is how long nothing is tried after a snapshot failed.
	failedPause = time.Minute
	// signPause lies between two questions to a voter that is still folding.
	signPause = 100 * time.Millisecond
)

// TakeSnapshot takes a snapshot now and returns it when this log goes on from
// it. Only the holder can, see ErrNotHolder. The event says that actor asked.
// Without ctx's end it may take as long as the voters need to fold the log.
func (l *Log) TakeSnapshot(ctx context.Context, actor string) (SnapshotInfo, error) {
	s := l.snap
	if _, err := s.holding(); err != nil {
		return SnapshotInfo{}, err
	}
	w := &snapshotWish{actor: actor, done: make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, w)
	s.mu.Unlock()
	s.poke()
	select {
	case <-w.done:
		if w.err != nil {
			return SnapshotInfo{}, w.err
		}
		return infoOf(w.taken), nil
	case <-ctx.Done():
		s.mu.Lock()
		s.waiting = slices.DeleteFunc(s.waiting, func(o *snapshotWish) bool { return o == w })
		s.mu.Unlock()
		return SnapshotInfo{}, fmt.Errorf("take a snapshot: %w", context.Cause(ctx))
	}
}

// wishes takes over who waits for a snapshot.
func (s *snapshots) wishes() []*snapshotWish {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.waiting
	s.waiting = nil
	return w
}

func (s *snapshots) refuseWishes(err error) { grant(s.wishes(), nil, err) }

func grant(wishes []*snapshotWish, t *cluster.SnapshotTaken, err error) {
	for _, w := range wishes {
		w.taken, w.err = t, err
		close(w.done)
	}
}

// holding returns the term that this host holds, by the log and by the lease.
func (s *snapshots) holding() (term cluster.Term, err error) {
	var last state.Term
	var ok bool
	s.l.View(func(st *state.State) { last, ok = st.LastTerm() })
	if !ok || last.Holder != s.l.o.Self || !s.l.o.MayAct(last.Term) {
		return 0, fmt.Errorf("%w: term %d is %s's", ErrNotHolder, last.Term, last.Holder)
	}
	return last.Term, nil
}

// due reports whether the log has grown enough for a snapshot.
func (s *snapshots) due() bool {
	o := s.l.o
	if o.SnapshotEvents < 0 {
		return false
	}
	since := s.l.Snapshots().Since
	s.mu.Lock()
	defer s.mu.Unlock()
	return since >= uint64(o.SnapshotEvents) || since > 0 && o.SnapshotBytes > 0 && s.grown >= o.SnapshotBytes
}

// take takes a snapshot if this host is the holder and one is due or wished
// for.
func (s *snapshots) take(ctx context.Context) error {
	wishes := s.wishes()
	if len(wishes) == 0 && (!s.due() || time.Now().Before(s.notBefore)) {
		return nil
	}
	term, err := s.holding()
	if err != nil {
		grant(wishes, nil, err)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, signTimeout+s.l.o.IOTimeout)
	defer cancel()
	actor := ""
	if len(wishes) > 0 {
		actor = wishes[0].actor
	}
	t, err := s.takeIn(ctx, term, actor)
	if err != nil {
		s.notBefore = time.Now().Add(failedPause)
	}
	grant(wishes, t, err)
	return err
}

// takeIn takes a snapshot of everything that is durable here, for actor if not
// of its own.
func (s *snapshots) takeIn(ctx context.Context, term cluster.Term, actor string) (*cluster.SnapshotTaken, error) {
	started := time.Now()
	t := &cluster.SnapshotTaken{Term: term, Actor: actor}
	t.Heads, t.Forks = s.l.signedCut()
	st, base, clock, err := s.foldTo(ctx, t)
	if err != nil {
		return nil, err
	}
	if base != nil {
		t.Previous = base.ID
	}
	t.Clock = clock
	encoded, err := s.fill(t, st)
	if err != nil {
		return nil, err
	}
	q, last, err := quorumOf(st)
	if err != nil {
		return nil, err
	}
	if last.Term != term || last.Holder != s.l.o.Self {
		return nil, fmt.Errorf("%w: the cut ends in term %d of %s, this host holds %d", ErrSnapshot, last.Term, last.Holder, term)
	}
	t.ID = snapshot.ID(s.l.o.Cluster, t)
	s.ready = &folded{id: t.ID, encoded: encoded, st: nil}
	if t.Signatures, err = s.collect(ctx, t, q); err != nil {
		return nil, err
	}
	if err := snapshot.Validate(s.l.o.Cluster, t); err != nil {
		return nil, err
	}
	if _, err := s.l.Append(ctx, []cluster.Draft{{Term: term, Kind: cluster.KindSnapshot, Body: t}}); err != nil {
		return nil, fmt.Errorf("log a snapshot: %w", err)
	}
	s.m.seconds.Observe(time.Since(started).Seconds())
	s.m.done.WithLabelValues("take", "ok").Inc()
	// The writer has noted it by now.
	return t, s.adopt(ctx)
}

// signedCut returns how far every chain counts, and the forks.
func (l *Log) signedCut() (heads []cluster.Head, forks []cluster.SourceFork) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, m := range l.marksLocked() {
		h := cluster.Head{Source: m.Source, Seq: m.Seq, Hash: m.Hash}
		if f, ok := l.forks[m.Source]; ok {
			forks = append(forks, cluster.SourceFork{Source: f.Source, Seq: f.Seq})
		} else {
			h.Sig = l.chains[m.Source].head.Sig
		}
		if h.Seq > 0 {
			heads = append(heads, h)
		}
	}
	return heads, forks
}

// fill encodes st and puts what follows from that into t.
func (s *snapshots) fill(t *cluster.SnapshotTaken, st *state.State) ([]byte, error) {
	encoded, err := st.AppendBinary(nil)
	if err != nil {
		return nil, fmt.Errorf("encode state: %w", err)
	}
	if len(encoded) > snapshot.MaxSize {
		return nil, fmt.Errorf("%w: state of %d bytes, at most %d are allowed", ErrSnapshot, len(encoded), snapshot.MaxSize)
	}
	t.Size, t.Sum, t.State = int64(len(encoded)), sha256.Sum256(encoded), st.Hash()
	return encoded, nil
}

// collect asks all voters at once to sign t, and returns when enough have.
func (s *snapshots) collect(ctx context.Context, t *cluster.SnapshotTaken, q snapshot.Quorum) ([]cluster.Signature, error) {
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	type answer struct {
		sig cluster.Signature
		err error
	}
	answers := make(chan answer, len(q.Voters)) // one slot each: never full
	asked := 0
	var sigs []cluster.Signature
	for _, v := range q.Voters {
		if v == s.l.o.Self {
			if err := s.maySign(t); err != nil {
				return nil, err
			}
			sigs = snapshot.Add(sigs, snapshot.Sign(s.l.o.Cluster, t.ID, v, s.l.o.Key))
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
		return nil, fmt.Errorf("%w: %d of %d voters signed, %d are needed: %w",
			snapshot.ErrSignatures, len(sigs), len(q.Voters), q.Need(), errors.Join(errs...))
	}
	return sigs, nil
}

// askSignature asks one voter until it has folded the log, and again when it
// cannot be reached, until ctx ends.
func (s *snapshots) askSignature(ctx context.Context, voter cluster.NodeID, t *cluster.SnapshotTaken) (cluster.Signature, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return cluster.Signature{}, err
	}
	for {
		sig, err := s.askSigned(ctx, voter, t.ID, msgPropose, text)
		if err == nil || errors.Is(err, ErrSnapshot) {
			return sig, err
		}
		if !s.l.o.MayAct(t.Term) {
			return sig, fmt.Errorf("%w: lease of term %d lost", ErrFenced, t.Term)
		}
		if !after(ctx, signPause) {
			return sig, fmt.Errorf("ask %s to sign: %w", voter, err)
		}
	}
}

// askSigned asks a host to sign a snapshot, once. An error wraps ErrSnapshot if
// asking again is useless.
func (s *snapshots) askSigned(ctx context.Context, node cluster.NodeID, id cluster.Hash, kind messageType, question []byte) (cluster.Signature, error) {
	conn, done, err := s.l.dial(ctx, node)
	if err != nil {
		return cluster.Signature{}, err
	}
	defer done()
	m, err := s.l.ask(conn, bufio.NewReader(conn), kind, question)
	if err != nil {
		return cluster.Signature{}, fmt.Errorf("ask %s to sign: %w", node, err)
	}
	switch m.kind {
	case msgSigned:
		sig := cluster.Signature{Node: node, Sig: m.payload}
		if !snapshot.Signed(s.l.o.Cluster, id, sig, s.l.o.keyOf(node)) {
			s.l.m.peerErrors.WithLabelValues("signature").Inc()
			return sig, fmt.Errorf("%w: signature of %s is forged", ErrSnapshot, node)
		}
		return sig, nil
	case msgLater:
		return cluster.Signature{}, fmt.Errorf("%s is not ready to sign", node)
	case msgRefused:
		return cluster.Signature{}, fmt.Errorf("%w: %s does not sign: %.512q", ErrSnapshot, node, m.payload)
	}
	return cluster.Signature{}, fmt.Errorf("%w: answer %d to a question for a signature", ErrPeer, m.kind)
}

// maySign says whether this host, which holds the cut of t and has found t
// right, may sign it now: it must not have promised a later term, since then
// that term's cut may lack what is in t. The promise is read after the cut was
// held, which is what makes the cut stable.
func (s *snapshots) maySign(t *cluster.SnapshotTaken) error {
	if p := s.l.o.Promised(); p > t.Term {
		return fmt.Errorf("%w: this host has promised term %d, the snapshot is of %d", ErrSnapshot, p, t.Term)
	}
	return nil
}

// judge folds the log up to the cut of the last proposal, to find out whether
// this host can sign it.
func (s *snapshots) judge(ctx context.Context) error {
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

func (s *snapshots) check(ctx context.Context, p *proposal) error {
	t := p.taken
	if err := s.l.level(ctx, p.from); err != nil {
		return err
	}
	if base := s.newest(); base != nil && !snapshot.Covers(t, base) {
		return fmt.Errorf("%w: its cut does not contain that of %s", ErrSnapshot, base.ID)
	}
	if err := s.holds(t); err != nil {
		return err
	}
	for _, f := range t.Forks {
		if known, ok := s.l.fork(f.Source); !ok || known.Seq != f.Seq {
			return fmt.Errorf("%w: fork of %s at seq %d is not proven here", errGap, f.Source, f.Seq)
		}
	}
	st, _, clock, err := s.foldTo(ctx, t)
	if err != nil {
		return err
	}
	q, last, err := quorumOf(st)
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
	encoded, err := s.fill(&mine, st)
	if err != nil {
		return err
	}
	if mine.Sum != t.Sum || mine.State != t.State || mine.Size != t.Size {
		why := fmt.Sprintf("%s folds the same events to state %s (%d bytes), this host to %s (%d bytes)", p.from, t.State, t.Size, mine.State, mine.Size)
		s.alarm(t.ID, why)
		return fmt.Errorf("%w: %s", ErrSnapshot, why)
	}
	s.ready = &folded{id: t.ID, encoded: encoded}
	return nil
}

// youngerBeyond makes sure, where others may act beside the proposer, that what
// this host wrote beyond the cut is younger than everything within: of two
// things that collide the older counts, and that must not be the one beyond.
func (s *snapshots) youngerBeyond(t *cluster.SnapshotTaken, q snapshot.Quorum) error {
	if !q.All {
		return nil
	}
	own := s.l.Source()
	for e, err := range s.l.Read(own, snapshot.HeadOf(t, own).Seq+1) {
		if err == nil && e.HLC <= t.Clock {
			err = fmt.Errorf("%w: event %d of %s is older than the snapshot's last and not in it", ErrSnapshot, e.Seq, own)
		}
		return err // the later ones are younger
	}
	return nil
}

// adopt makes the snapshots of the log whose events are all here, and goes on
// from them.
func (s *snapshots) adopt(ctx context.Context) error {
	s.mu.Lock()
	noted := slices.Clone(s.noted)
	s.mu.Unlock()
	var errs []error
	for _, t := range slices.Backward(noted) { // the later holds all of the earlier
		s.mu.Lock()
		outdated := s.outdatedLocked(t)
		if outdated {
			s.noted = slices.DeleteFunc(s.noted, func(o *cluster.SnapshotTaken) bool { return o == t })
		}
		s.mu.Unlock()
		if outdated {
			continue
		}
		err := s.holds(t)
		if errors.Is(err, errGap) {
			s.lacking(t) // not yet
			continue
		}
		if err != nil {
			s.refuse(t.ID, err.Error())
			continue
		}
		if err := s.adoptOne(ctx, t); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// gapPatience is how often events of a snapshot may be missing before they are
// looked for in the snapshot itself.
const gapPatience = 10

// lacking is for the case that nobody sends the events of a snapshot any more:
// where all that is left of a forked chain is in snapshots, heads do not tell
// of it.
func (s *snapshots) lacking(t *cluster.SnapshotTaken) {
	if len(t.Forks) == 0 || len(t.Signatures) == 0 {
		return
	}
	if s.gaps++; s.gaps < gapPatience {
		return
	}
	s.gaps = 0
	i := int(s.l.o.Float()*float64(len(t.Signatures))) % len(t.Signatures)
	if signer := t.Signatures[i].Node; signer != s.l.o.Self {
		s.want(signer)
	}
}

func (s *snapshots) adoptOne(ctx context.Context, t *cluster.SnapshotTaken) error {
	var encoded []byte
	if r := s.ready; r != nil && r.id == t.ID {
		encoded = r.encoded
	} else {
		st, _, _, err := s.foldTo(ctx, t)
		if err != nil {
			return err
		}
		mine := *t
		if encoded, err = s.fill(&mine, st); err != nil {
			return err
		}
		if mine.Sum != t.Sum || mine.State != t.State {
			s.alarm(t.ID, fmt.Sprintf("snapshot %s of term %d has state %s, this host folds the same events to %s", t.ID, t.Term, t.State, mine.State))
			return nil
		}
	}
	s.ready, s.gaps = nil, 0
	st, err := decodeState(t, encoded)
	if err != nil {
		s.alarm(t.ID, "own encoding of the state does not decode: "+err.Error())
		return nil
	}
	q, _, err := quorumOf(st)
	if err == nil {
		_, err = snapshot.Check(s.l.o.Cluster, t, q, s.l.o.keyOf)
	}
	if err == nil {
		err = s.checkHeads(t)
	}
	if err != nil {
		s.refuse(t.ID, err.Error())
		return nil
	}
	if err := s.store.save(t, encoded); err != nil {
		return err
	}
	if err := s.install(ctx, &swap{taken: t, st: st}); err != nil {
		return err
	}
	s.m.done.WithLabelValues("make", "ok").Inc()
	s.l.log.Info().Str("snapshot", t.ID.String()).Uint64("events", snapshot.Events(t)).Int64("bytes", t.Size).
		Uint64("term", uint64(t.Term)).Int("signers", len(t.Signatures)).Msg("snapshot")
	return s.prune()
}

// prune removes the files of snapshots that are too old to be of use.
func (s *snapshots) prune() error {
	names, _, err := s.store.names()
	if err != nil {
		return err
	}
	s.mu.Lock()
	names = slices.DeleteFunc(names, func(n string) bool {
		return slices.ContainsFunc(s.kept, func(t *cluster.SnapshotTaken) bool { return snapshot.FileName(t) == n })
	})
	s.mu.Unlock()
	return s.store.remove(names...)
}

// believed counts the voters, as this host believes them to be now, that have
// signed t.
func (s *snapshots) believed(t *cluster.SnapshotTaken, keyOf func(cluster.NodeID) ed25519.PublicKey) (cfg cluster.VoterConfig, signed []cluster.NodeID, err error) {
	stab := &s.l.rep.stab
	stab.mu.Lock()
	cfg = stab.cfg
	stab.mu.Unlock()
	if cfg.IsZero() {
		return cfg, nil, fmt.Errorf("%w: the voters are not known yet", snapshot.ErrSignatures)
	}
	signed, err = snapshot.Check(s.l.o.Cluster, t, snapshot.Quorum{Voters: cfg.Voters}, keyOf)
	return cfg, signed, err
}
