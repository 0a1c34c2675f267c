package snapshot

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// Limits.
const (
	// MaxSources is the most chains that a cut names.
	MaxSources = 4096
	// MaxSize is the longest encoded state, in bytes.
	MaxSize = 1 << 30
	// MaxMeta is the longest text of a SnapshotTaken, in bytes.
	MaxMeta = 4 << 20
	// maxCluster is the longest cluster id, in bytes.
	maxCluster = 128
)

var (
	// ErrInvalid is wrapped by every refusal of what cannot be a snapshot.
	ErrInvalid = errors.New("invalid snapshot")
	// ErrSignatures says that too few voters have signed.
	ErrSignatures = errors.New("snapshot not signed by enough voters")
	// ErrForged says that a signature under a voter's name is not the voter's.
	ErrForged = fmt.Errorf("%w: forged signature", ErrSignatures)
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// ID returns the id of s in a cluster, whatever s.ID says.
func ID(clusterID string, s *event.SnapshotTaken) cluster.Hash {
	b := append([]byte("snap1"), byte(len(clusterID)))
	b = append(b, clusterID...)
	b = binary.BigEndian.AppendUint64(b, uint64(s.Term))
	b = binary.BigEndian.AppendUint64(b, uint64(s.Clock))
	b = append(b, s.Previous[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(s.Size))
	b = append(b, s.Sum[:]...)
	b = append(b, s.State[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(s.Heads)))
	for _, h := range s.Heads {
		b = append(append(b, byte(len(h.Source.Node))), h.Source.Node...)
		b = binary.BigEndian.AppendUint64(b, h.Source.Inc)
		b = binary.BigEndian.AppendUint64(b, h.Seq)
		b = append(b, h.Hash[:]...)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(s.Forks)))
	for _, f := range s.Forks {
		b = append(append(b, byte(len(f.Source.Node))), f.Source.Node...)
		b = binary.BigEndian.AppendUint64(b, f.Source.Inc)
		b = binary.BigEndian.AppendUint64(b, f.Seq)
	}
	return sha256.Sum256(b)
}

// Validate reports the first reason why s cannot be a snapshot of the cluster.
// It looks at no signature.
func Validate(clusterID string, s *event.SnapshotTaken) error {
	switch {
	case clusterID == "" || len(clusterID) > maxCluster:
		return invalid("cluster id of %d bytes", len(clusterID))
	case s.Term == 0:
		return invalid("term 0")
	case s.Size <= 0 || s.Size > MaxSize:
		return invalid("state of %d bytes, at most %d are allowed", s.Size, MaxSize)
	case len(s.Heads) == 0 || len(s.Heads) > MaxSources:
		return invalid("cut of %d sources", len(s.Heads))
	case len(s.Forks) > MaxSources:
		return invalid("%d forks", len(s.Forks))
	case len(s.Signatures) > cluster.MaxVoters:
		return invalid("%d signatures, at most %d are allowed", len(s.Signatures), cluster.MaxVoters)
	}
	forked, err := forkedIn(s)
	if err != nil {
		return err
	}
	for i, h := range s.Heads {
		if err := checkHead(h, forked[h.Source]); err != nil {
			return err
		}
		if i > 0 && s.Heads[i-1].Source.Compare(h.Source) >= 0 {
			return invalid("cut not sorted at %s", h.Source)
		}
	}
	if len(s.Actor) > cluster.MaxReason {
		return invalid("actor of %d bytes", len(s.Actor))
	}
	for i, sig := range s.Signatures {
		if _, err := cluster.ParseNodeID(string(sig.Node)); err != nil || len(sig.Sig) != ed25519.SignatureSize {
			return invalid("signature of %.40q", sig.Node)
		}
		if i > 0 && s.Signatures[i-1].Node >= sig.Node {
			return invalid("signatures not sorted at %s", sig.Node)
		}
	}
	// Last, since it hashes: other clusters' snapshots end here.
	if id := ID(clusterID, s); id != s.ID {
		return invalid("id is %s, its contents give %s in this cluster", s.ID, id)
	}
	return nil
}

func forkedIn(s *event.SnapshotTaken) (map[event.SourceID]bool, error) {
	forked := make(map[event.SourceID]bool, len(s.Forks))
	for i, f := range s.Forks {
		if _, err := cluster.ParseNodeID(string(f.Source.Node)); err != nil || f.Source.Inc == 0 || f.Seq == 0 {
			return nil, invalid("fork of %s at seq %d", f.Source, f.Seq)
		}
		if i > 0 && s.Forks[i-1].Source.Compare(f.Source) >= 0 {
			return nil, invalid("forks not sorted at %s", f.Source)
		}
		forked[f.Source] = true
	}
	return forked, nil
}

func checkHead(h event.Head, forked bool) error {
	if _, err := cluster.ParseNodeID(string(h.Source.Node)); err != nil {
		return invalid("cut: %v", err)
	}
	sig := ed25519.SignatureSize
	if forked {
		sig = 0
	}
	if h.Source.Inc == 0 || h.Seq == 0 || len(h.Sig) != sig {
		return invalid("cut: head of %s at seq %d with a signature of %d bytes", h.Source, h.Seq, len(h.Sig))
	}
	return nil
}

// Decode reads the text form of a SnapshotTaken, as events and messages carry
// it, and validates it.
func Decode(clusterID string, b []byte) (*event.SnapshotTaken, error) {
	if len(b) > MaxMeta {
		return nil, invalid("%d bytes, at most %d are allowed", len(b), MaxMeta)
	}
	s := &event.SnapshotTaken{}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, invalid("%v", err)
	}
	if err := Validate(clusterID, s); err != nil {
		return nil, err
	}
	return s, nil
}

// message is what a voter signs.
func message(clusterID string, id cluster.Hash) []byte {
	b := append([]byte("skein/snapshot/1\n"), byte(len(clusterID)))
	b = append(b, clusterID...)
	return append(b, id[:]...)
}

// Sign returns the signature of a voter under a snapshot.
func Sign(clusterID string, id cluster.Hash, node cluster.NodeID, key ed25519.PrivateKey) event.Signature {
	return event.Signature{Node: node, Sig: ed25519.Sign(key, message(clusterID, id))}
}

// Signed reports whether key made sig under the snapshot id.
func Signed(clusterID string, id cluster.Hash, sig event.Signature, key ed25519.PublicKey) bool {
	return len(key) == ed25519.PublicKeySize && len(sig.Sig) == ed25519.SignatureSize &&
		ed25519.Verify(key, message(clusterID, id), sig.Sig)
}

// Add puts sig among the signatures, which stay sorted; one of the same voter
// is replaced.
func Add(sigs []event.Signature, sig event.Signature) []event.Signature {
	i, found := slices.BinarySearchFunc(sigs, sig.Node, func(s event.Signature, n cluster.NodeID) int {
		switch {
		case s.Node < n:
			return -1
		case s.Node > n:
			return 1
		}
		return 0
	})
	if found {
		out := slices.Clone(sigs)
		out[i] = sig
		return out
	}
	return slices.Insert(slices.Clone(sigs), i, sig)
}

// Quorum says whose signatures make a snapshot good.
type Quorum struct {
	Voters []cluster.NodeID
	// All: every voter must sign, since each may act without the others.
	All bool
}

// Need returns how many of the voters must sign.
func (q Quorum) Need() int {
	if q.All {
		return len(q.Voters)
	}
	return len(q.Voters)/2 + 1
}

// Check returns the voters whose signatures under s verify, and an error
// wrapping ErrSignatures if they are too few. Signatures of others count
// nothing. One under the name of a voter that does not verify is an error of
// its own: nobody honest sends it.
func Check(clusterID string, s *event.SnapshotTaken, q Quorum, keyOf func(cluster.NodeID) ed25519.PublicKey) ([]cluster.NodeID, error) {
	var good []cluster.NodeID
	for _, sig := range s.Signatures {
		if !slices.Contains(q.Voters, sig.Node) {
			continue
		}
		key := keyOf(sig.Node)
		if key == nil {
			continue
		}
		if !Signed(clusterID, s.ID, sig, key) {
			return good, fmt.Errorf("%w of %s", ErrForged, sig.Node)
		}
		good = append(good, sig.Node)
	}
	if len(q.Voters) == 0 || len(good) < q.Need() {
		return good, fmt.Errorf("%w: %d of %d voters, %d are needed", ErrSignatures, len(good), len(q.Voters), q.Need())
	}
	return good, nil
}

// Cut returns the positions of a snapshot.
func Cut(s *event.SnapshotTaken) event.Cut {
	cut := make(event.Cut, len(s.Heads))
	for i, h := range s.Heads {
		cut[i] = event.SourceMark{Source: h.Source, Mark: event.Mark{Seq: h.Seq, Hash: h.Hash}}
	}
	return cut
}

// HeadOf returns the position of one chain, Seq 0 if the cut has none.
func HeadOf(s *event.SnapshotTaken, src event.SourceID) event.Head {
	i, ok := slices.BinarySearchFunc(s.Heads, src, func(h event.Head, src event.SourceID) int { return h.Source.Compare(src) })
	if !ok {
		return event.Head{Source: src}
	}
	return s.Heads[i]
}

// Covers reports whether every position of b lies within a.
func Covers(a, b *event.SnapshotTaken) bool {
	i := 0
	for _, h := range b.Heads {
		for i < len(a.Heads) && a.Heads[i].Source.Compare(h.Source) < 0 {
			i++
		}
		if i == len(a.Heads) || a.Heads[i].Source != h.Source || a.Heads[i].Seq < h.Seq ||
			a.Heads[i].Seq == h.Seq && a.Heads[i].Hash != h.Hash {
			return false
		}
	}
	return true
}

// Events returns how many events a snapshot stands for.
func Events(s *event.SnapshotTaken) (n uint64) {
	for _, h := range s.Heads {
		n += h.Seq
	}
	return n
}
