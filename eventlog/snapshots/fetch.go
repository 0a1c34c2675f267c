package snapshots

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/snapshot"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/eventlog/wire"
)

// fetcher gets the snapshots of other hosts.
type fetcher struct {
	o *Options
	k *Keeper

	mu     sync.Mutex
	wanted []cluster.NodeID // peers whose snapshots are of use here
}

// want notes that peer has dropped what this log lacks, or that this log lacks a
// snapshot: the goroutine fetches the peer's.
func (f *fetcher) want(peer cluster.NodeID) {
	f.mu.Lock()
	if !slices.Contains(f.wanted, peer) {
		f.wanted = append(f.wanted, peer)
	}
	f.mu.Unlock()
	f.k.catalog.poke()
}

// next returns a wanted peer, and wakes the goroutine if there are more.
func (f *fetcher) next() (peer cluster.NodeID, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.wanted) == 0 {
		return "", false
	}
	peer, f.wanted = f.wanted[0], f.wanted[1:]
	if len(f.wanted) > 0 {
		f.k.catalog.poke()
	}
	return peer, true
}

// fetch goes on from the snapshot of a peer, if one has dropped events that
// this log lacks, or this log lacks a snapshot.
func (f *fetcher) fetch(ctx context.Context) error {
	peer, ok := f.next()
	if !ok {
		return nil
	}
	conn, err := f.o.Network.Dial(ctx, peer)
	if err != nil {
		return err
	}
	defer conn.Close()
	t, err := f.askNewest(ctx, conn, peer)
	if err != nil || t == nil {
		return err
	}
	if _, err := f.o.Network.OwnElsewhere(ctx, t.Heads); err != nil {
		return err
	}
	encoded, err := f.download(conn, peer, t)
	if err != nil {
		return err
	}
	return f.settleOn(ctx, conn, peer, t, encoded)
}

// settleOn goes on from a fetched snapshot.
func (f *fetcher) settleOn(ctx context.Context, conn Conn, peer cluster.NodeID, t *event.SnapshotTaken, encoded []byte) error {
	st, err := decodeState(t, encoded)
	if err != nil {
		// What the voters signed does not fit what the peer sent.
		_ = f.k.files.remove(partName(t)) // it would be wrong again
		return fmt.Errorf("%w: snapshot %s from %s: %w", wire.ErrPeer, t.ID, peer, err)
	}
	if err := f.k.files.save(t, encoded); err != nil {
		return err
	}
	if err := f.k.files.remove(partName(t)); err != nil {
		return err
	}
	sw := &swap{taken: t, st: st, short: dropShort, sums: map[string]cluster.Hash{}}
	switch {
	case f.k.Lacks():
		sw.short = keepShort
	case f.o.Repairing():
		if sw.begins, err = f.begins(conn, t); err != nil {
			return err
		}
	}
	if !f.k.compact.files.TryLock() {
		f.want(peer)
		return errBusy
	}
	defer f.k.compact.files.Unlock()
	if err := f.sumShort(sw); err != nil {
		return err
	}
	if err := f.k.install(ctx, sw); err != nil {
		return err
	}
	f.k.m.done.WithLabelValues("fetch", "ok").Inc()
	f.k.log.Info().Str("peer", string(peer)).Str("snapshot", t.ID.String()).Uint64("events", snapshot.Events(t)).
		Int64("bytes", t.Size).Msg("log goes on from a fetched snapshot")
	return f.k.prune()
}

// begins asks a host, for chains that end below the cut of t, from where on it
// still has their events. The next event's source vouches for that place.
func (f *fetcher) begins(conn Conn, t *event.SnapshotTaken) (map[event.SourceID]event.Mark, error) {
	out := map[event.SourceID]event.Mark{}
	for _, h := range t.Heads {
		have := f.o.Store.Head(h.Source).Seq
		key := f.o.Store.KeyOf(h.Source.Node)
		if have >= h.Seq || key == nil {
			continue
		}
		m, err := askEvents(conn, h.Source, have+1)
		if err == nil && m.Kind == wire.MsgCompacted && len(m.Payload) == 8 {
			m, err = askEvents(conn, h.Source, binary.BigEndian.Uint64(m.Payload))
		}
		if err != nil {
			return nil, err
		}
		if m.Kind != wire.MsgRun {
			continue // it has none
		}
		ru, err := wire.DecodeRun(m.Payload)
		if err == nil && ru.Head.Source != h.Source {
			err = fmt.Errorf("%w: events of %s instead of %s", wire.ErrPeer, ru.Head.Source, h.Source)
		}
		if err == nil {
			err = record.VerifyHead(f.o.Cluster, ru.Head, key)
		}
		if err != nil {
			f.o.Network.Blame("chain")
			return nil, fmt.Errorf("oldest events of %s: %w", h.Source, err)
		}
		out[h.Source] = event.Mark{Seq: ru.Events[0].Seq - 1, Hash: ru.Events[0].Prev}
	}
	return out, nil
}

func askEvents(conn Conn, src event.SourceID, from uint64) (wire.Message, error) {
	return conn.Ask(wire.MsgWant, binary.BigEndian.AppendUint64(wire.AppendSource(nil, src), from))
}

// sumShort hashes, before the writer is bothered, the full segments that would
// be dropped for sw.
func (f *fetcher) sumShort(sw *swap) error {
	for _, h := range sw.taken.Heads {
		if f.o.Store.Head(h.Source).Seq >= h.Seq {
			continue
		}
		for _, seg := range f.o.Store.Segments(h.Source) {
			if !seg.Sealed {
				continue
			}
			sum, err := disk.Sum(context.Background(), f.o.FS, seg.Path, seg.Size, nil)
			if err != nil {
				return err
			}
			sw.sums[seg.Path] = sum
		}
	}
	return nil
}

// askNewest asks peer for its newest snapshot and decides whether to believe
// it: a majority of the voters, as this host knows them, must have signed. nil
// without an error: it is of no use here.
func (f *fetcher) askNewest(ctx context.Context, conn Conn, peer cluster.NodeID) (*event.SnapshotTaken, error) {
	m, err := conn.Ask(wire.MsgSnapshot, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s for its snapshot: %w", peer, err)
	}
	if m.Kind == wire.MsgNothing {
		return nil, nil
	}
	if m.Kind != wire.MsgSnapshotIs {
		return nil, fmt.Errorf("%w: answer %d to a question for a snapshot", wire.ErrPeer, m.Kind)
	}
	t, err := snapshot.Decode(f.o.Cluster, m.Payload)
	if err == nil {
		err = f.k.folder.checkHeads(t)
	}
	if err != nil {
		f.o.Network.Blame("snapshot")
		return nil, fmt.Errorf("%w: snapshot of %s: %w", wire.ErrPeer, peer, err)
	}
	if base := f.k.catalog.newest(); base != nil && !snapshot.Covers(t, base) {
		return nil, nil
	}
	if err := f.believe(ctx, t); err != nil {
		f.o.Network.Blame("snapshot")
		return nil, fmt.Errorf("snapshot of %s: %w", peer, err)
	}
	if f.k.Lacks() {
		if !f.k.ledger.within(t) {
			return nil, fmt.Errorf("%w: %s has snapshot %s, which does not hold all that was dropped here", ErrSnapshot, peer, t.ID)
		}
		return t, nil
	}
	if err := f.k.folder.holds(t); err == nil {
		return nil, nil // the events came by another way
	} else if !errors.Is(err, store.ErrGap) {
		return nil, err
	}
	return t, nil
}

// believe makes sure that a majority of the present voters vouches for t.
// Those that voted when it was taken have signed it; of the others, those that
// go on from it sign when they are asked.
func (f *fetcher) believe(ctx context.Context, t *event.SnapshotTaken) error {
	cfg, signed, err := f.k.signing.believed(t, f.o.Store.KeyOf)
	if err == nil || !errors.Is(err, snapshot.ErrSignatures) || cfg.IsZero() {
		return err
	}
	for _, v := range cfg.Voters {
		if v == f.o.Self || slices.Contains(signed, v) {
			continue
		}
		sig, askErr := f.k.signing.askSigned(ctx, v, t.ID, wire.MsgAttest, t.ID[:])
		if askErr != nil {
			continue
		}
		t.Signatures = snapshot.Add(t.Signatures, sig)
		if len(t.Signatures) > cluster.MaxVoters {
			t.Signatures = onlyOf(t.Signatures, cfg.Voters)
		}
		if _, signed, err = f.k.signing.believed(t, f.o.Store.KeyOf); err == nil {
			return nil
		}
	}
	return err
}

func onlyOf(sigs []event.Signature, voters []cluster.NodeID) []event.Signature {
	return slices.DeleteFunc(slices.Clone(sigs), func(s event.Signature) bool { return !slices.Contains(voters, s.Node) })
}

func partName(t *event.SnapshotTaken) string { return t.ID.String() + partSuffix }

// download fetches the encoded state of t, on from where an earlier attempt
// ended. Every part must come within the I/O timeout.
func (f *fetcher) download(conn Conn, peer cluster.NodeID, t *event.SnapshotTaken) (encoded []byte, err error) {
	if err := f.o.FS.MkdirAll(f.k.files.Path(""), 0o700); err != nil {
		return nil, fmt.Errorf("create snapshot directory: %w", err)
	}
	if err := f.dropParts(t); err != nil {
		return nil, err
	}
	path := f.k.files.Path(partName(t))
	part, err := f.o.FS.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("fetch snapshot: %w", err)
	}
	defer part.Close()
	off, err := part.Size()
	if err != nil {
		return nil, err
	}
	for off < t.Size {
		m, err := conn.Ask(wire.MsgState, binary.BigEndian.AppendUint64(append([]byte(nil), t.ID[:]...), uint64(off)))
		if err != nil {
			return nil, fmt.Errorf("fetch snapshot from %s at byte %d: %w", peer, off, err)
		}
		if m.Kind != wire.MsgStateIs || len(m.Payload) == 0 || int64(len(m.Payload)) > min(statePart, t.Size-off) {
			return nil, fmt.Errorf("%w: answer %d of %d bytes to a question for a state", wire.ErrPeer, m.Kind, len(m.Payload))
		}
		if err := disk.WriteAt(part, m.Payload, off, path); err != nil {
			return nil, err
		}
		off += int64(len(m.Payload))
		f.k.m.fetched.Add(float64(len(m.Payload)))
	}
	return disk.ReadRange(part, 0, t.Size)
}

// dropParts removes what was begun of other snapshots.
func (f *fetcher) dropParts(t *event.SnapshotTaken) error {
	entries, err := f.o.FS.ReadDir(f.k.files.Path(""))
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
	return f.k.files.remove(names...)
}
