package eventlog

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/snapshot"
)

// statePart is the most bytes of a state in one message.
const statePart = 1 << 20

// answer answers a question about snapshots.
func (s *snapshots) answer(from cluster.NodeID, m message) (messageType, []byte, error) {
	switch m.kind {
	case msgPropose:
		return s.answerPropose(from, m.payload)
	case msgSnapshot:
		t := s.newest()
		if t == nil {
			return msgNothing, nil, nil
		}
		text, err := json.Marshal(t)
		return msgSnapshotIs, text, err
	case msgState:
		return s.answerState(m.payload)
	case msgAttest:
		if len(m.payload) != 32 {
			return 0, nil, fmt.Errorf("%w: attest question of %d bytes", ErrPeer, len(m.payload))
		}
		t := s.find(cluster.Hash(m.payload))
		if t == nil {
			return msgRefused, []byte("not kept here"), nil
		}
		return msgSigned, snapshot.Sign(s.l.o.Cluster, t.ID, s.l.o.Self, s.l.o.Key).Sig, nil
	}
	return 0, nil, fmt.Errorf("%w: message type %d", ErrPeer, m.kind)
}

// answerPropose lets the goroutine judge the proposal, and signs when it has.
func (s *snapshots) answerPropose(from cluster.NodeID, b []byte) (messageType, []byte, error) {
	t, err := snapshot.Decode(s.l.o.Cluster, b)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrPeer, err)
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
			return msgRefused, []byte(clipText(p.err.Error())), nil
		}
		if p.err != nil {
			s.asked = nil // it may go better the next time
			return msgLater, nil, nil
		}
		return msgSigned, snapshot.Sign(s.l.o.Cluster, t.ID, s.l.o.Self, s.l.o.Key).Sig, nil
	case p != nil && !p.done:
		return msgLater, nil, nil // one at a time, this one or another
	case p != nil && p.taken.Term > t.Term:
		return msgRefused, []byte("a later term has proposed"), nil
	}
	s.asked = &proposal{taken: t, from: from}
	s.poke()
	return msgLater, nil, nil
}

func clipText(text string) string { return text[:min(len(text), msgTextLimit)] }

func (s *snapshots) answerState(b []byte) (messageType, []byte, error) {
	if len(b) != 40 {
		return 0, nil, fmt.Errorf("%w: state question of %d bytes", ErrPeer, len(b))
	}
	t := s.find(cluster.Hash(b[:32]))
	off := binary.BigEndian.Uint64(b[32:])
	if t == nil || off >= uint64(t.Size) {
		return msgNothing, nil, nil
	}
	part, err := s.store.part(t, int64(off), statePart)
	if err != nil {
		return 0, nil, err
	}
	return msgStateIs, part, nil
}

// missed looks at why a fetch from peer ended early.
func (s *snapshots) missed(peer cluster.NodeID, err error) {
	if errors.Is(err, errDropped) {
		s.want(peer)
	}
}

// want notes that peer has dropped what this log lacks: the goroutine fetches
// its snapshot.
func (s *snapshots) want(peer cluster.NodeID) {
	s.mu.Lock()
	s.wanted = peer
	s.mu.Unlock()
	s.poke()
}

// fetch goes on from the snapshot of a peer, if one has dropped events that
// this log lacks.
func (s *snapshots) fetch(ctx context.Context) error {
	s.mu.Lock()
	peer := s.wanted
	s.wanted = ""
	s.mu.Unlock()
	if peer == "" {
		return nil
	}
	conn, done, err := s.l.dial(ctx, peer)
	if err != nil {
		return err
	}
	defer done()
	br := bufio.NewReaderSize(conn, 64<<10)
	t, err := s.askNewest(ctx, conn, br, peer)
	if err != nil || t == nil {
		return err
	}
	if _, err := s.l.ownElsewhere(ctx, t.Heads); err != nil {
		return err
	}
	encoded, err := s.download(conn, br, peer, t)
	if err != nil {
		return err
	}
	return s.settleOn(ctx, peer, t, encoded)
}

// settleOn goes on from a fetched snapshot.
func (s *snapshots) settleOn(ctx context.Context, peer cluster.NodeID, t *cluster.SnapshotTaken, encoded []byte) error {
	st, err := decodeState(t, encoded)
	if err != nil {
		// What the voters signed does not fit what the peer sent.
		_ = s.store.remove(partName(t)) // it would be wrong again
		return fmt.Errorf("%w: snapshot %s from %s: %w", ErrPeer, t.ID, peer, err)
	}
	if err := s.store.save(t, encoded); err != nil {
		return err
	}
	if err := s.store.remove(partName(t)); err != nil {
		return err
	}
	sw := &swap{taken: t, st: st, chains: true, sums: map[string]cluster.Hash{}}
	if !s.files.TryLock() {
		s.want(peer)
		return errBusy
	}
	defer s.files.Unlock()
	if err := s.sumShort(sw); err != nil {
		return err
	}
	if err := s.install(ctx, sw); err != nil {
		return err
	}
	s.m.done.WithLabelValues("fetch", "ok").Inc()
	s.l.log.Info().Str("peer", string(peer)).Str("snapshot", t.ID.String()).Uint64("events", snapshot.Events(t)).
		Int64("bytes", t.Size).Msg("log goes on from a fetched snapshot")
	return s.prune()
}

// sumShort hashes, before the writer is bothered, the full segments that would
// be dropped for sw.
func (s *snapshots) sumShort(sw *swap) error {
	type job struct {
		path string
		size int64
	}
	var jobs []job
	s.l.mu.RLock()
	for _, h := range sw.taken.Heads {
		if c := s.l.chains[h.Source]; c != nil && c.head.Seq < h.Seq {
			for _, seg := range c.segs {
				if seg.sealed {
					jobs = append(jobs, job{seg.path, seg.size})
				}
			}
		}
	}
	s.l.mu.RUnlock()
	for _, j := range jobs {
		sum, err := sumFile(s.l.fs, j.path, j.size, nil)
		if err != nil {
			return err
		}
		sw.sums[j.path] = sum
	}
	return nil
}

// askNewest asks peer for its newest snapshot and decides whether to believe
// it: a majority of the voters, as this host knows them, must have signed. nil
// without an error: it is of no use here.
func (s *snapshots) askNewest(ctx context.Context, conn net.Conn, br *bufio.Reader, peer cluster.NodeID) (*cluster.SnapshotTaken, error) {
	m, err := s.l.ask(conn, br, msgSnapshot, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s for its snapshot: %w", peer, err)
	}
	if m.kind == msgNothing {
		return nil, nil
	}
	if m.kind != msgSnapshotIs {
		return nil, fmt.Errorf("%w: answer %d to a question for a snapshot", ErrPeer, m.kind)
	}
	t, err := snapshot.Decode(s.l.o.Cluster, m.payload)
	if err == nil {
		err = s.checkHeads(t)
	}
	if err != nil {
		s.l.m.peerErrors.WithLabelValues("snapshot").Inc()
		return nil, fmt.Errorf("%w: snapshot of %s: %w", ErrPeer, peer, err)
	}
	if base := s.newest(); base != nil && !snapshot.Covers(t, base) {
		return nil, nil
	}
	if err := s.believe(ctx, t); err != nil {
		s.l.m.peerErrors.WithLabelValues("snapshot").Inc()
		return nil, fmt.Errorf("snapshot of %s: %w", peer, err)
	}
	if err := s.holds(t); err == nil {
		return nil, nil // the events came by another way
	} else if !errors.Is(err, errGap) {
		return nil, err
	}
	return t, nil
}

// believe makes sure that a majority of the present voters vouches for t.
// Those that voted when it was taken have signed it; of the others, those that
// go on from it sign when they are asked.
func (s *snapshots) believe(ctx context.Context, t *cluster.SnapshotTaken) error {
	cfg, signed, err := s.believed(t, s.l.o.keyOf)
	if err == nil || !errors.Is(err, snapshot.ErrSignatures) || cfg.IsZero() {
		return err
	}
	for _, v := range cfg.Voters {
		if v == s.l.o.Self || slices.Contains(signed, v) {
			continue
		}
		sig, askErr := s.askSigned(ctx, v, t.ID, msgAttest, t.ID[:])
		if askErr != nil {
			continue
		}
		t.Signatures = snapshot.Add(t.Signatures, sig)
		if len(t.Signatures) > cluster.MaxVoters {
			t.Signatures = onlyOf(t.Signatures, cfg.Voters)
		}
		if _, signed, err = s.believed(t, s.l.o.keyOf); err == nil {
			return nil
		}
	}
	return err
}

func onlyOf(sigs []cluster.Signature, voters []cluster.NodeID) []cluster.Signature {
	return slices.DeleteFunc(slices.Clone(sigs), func(s cluster.Signature) bool { return !slices.Contains(voters, s.Node) })
}

func partName(t *cluster.SnapshotTaken) string { return t.ID.String() + partSuffix }

// download fetches the encoded state of t, on from where an earlier attempt
// ended. Every part must come within the I/O timeout.
func (s *snapshots) download(conn net.Conn, br *bufio.Reader, peer cluster.NodeID, t *cluster.SnapshotTaken) (encoded []byte, err error) {
	if err := s.l.fs.MkdirAll(s.store.path(""), 0o700); err != nil {
		return nil, fmt.Errorf("create snapshot directory: %w", err)
	}
	if err := s.dropParts(t); err != nil {
		return nil, err
	}
	path := s.store.path(partName(t))
	f, err := s.l.fs.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("fetch snapshot: %w", err)
	}
	defer f.Close()
	off, err := f.Size()
	if err != nil {
		return nil, err
	}
	for off < t.Size {
		m, err := s.l.ask(conn, br, msgState, binary.BigEndian.AppendUint64(append([]byte(nil), t.ID[:]...), uint64(off)))
		if err != nil {
			return nil, fmt.Errorf("fetch snapshot from %s at byte %d: %w", peer, off, err)
		}
		if m.kind != msgStateIs || len(m.payload) == 0 || int64(len(m.payload)) > min(statePart, t.Size-off) {
			return nil, fmt.Errorf("%w: answer %d of %d bytes to a question for a state", ErrPeer, m.kind, len(m.payload))
		}
		if err := writeAt(f, m.payload, off, path); err != nil {
			return nil, err
		}
		off += int64(len(m.payload))
		s.m.fetched.Add(float64(len(m.payload)))
	}
	return readAll(f, 0, t.Size)
}

// dropParts removes what was begun of other snapshots.
func (s *snapshots) dropParts(t *cluster.SnapshotTaken) error {
	entries, err := s.l.fs.ReadDir(s.store.path(""))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	var names []string
	for _, e := range entries {
		if n := e.Name(); len(n) > len(partSuffix) && n[len(n)-len(partSuffix):] == partSuffix && n != partName(t) {
			names = append(names, n)
		}
	}
	return s.store.remove(names...)
}
