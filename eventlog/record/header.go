package record

import (
	"encoding/binary"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// Magic starts every segment file.
const Magic = "skeinlg\x01"

// Header is the first frame of a segment. It ties the file to its cluster and
// chain, so that a file moved to a wrong place is noticed.
type Header struct {
	Cluster string
	Source  event.SourceID
	First   uint64       // seq of the segment's first event
	Prev    cluster.Hash // hash of event First-1, zero at First 1
}

// AppendHeader appends the encoding of h to dst.
func AppendHeader(dst []byte, h Header) ([]byte, error) {
	if err := checkHeader(h); err != nil {
		return dst, err
	}
	dst = append(dst, version, byte(len(h.Cluster)))
	dst = append(dst, h.Cluster...)
	dst = appendSource(dst, h.Source)
	dst = binary.BigEndian.AppendUint64(dst, h.First)
	return append(dst, h.Prev[:]...), nil
}

// DecodeHeader reads the payload of a header frame.
func DecodeHeader(b []byte) (Header, error) {
	r := reader{b: b}
	var h Header
	if v := r.u8(); v != version && !r.short {
		return h, invalid("segment version %d", v)
	}
	h.Cluster = string(r.bytes(int(r.u8())))
	h.Source = r.source()
	h.First = r.u64()
	copy(h.Prev[:], r.bytes(len(h.Prev)))
	if err := r.done("segment header"); err != nil {
		return Header{}, err
	}
	if err := checkHeader(h); err != nil {
		return Header{}, err
	}
	return h, nil
}

func checkHeader(h Header) error {
	if _, err := cluster.ParseNodeID(string(h.Source.Node)); err != nil {
		return invalid("segment header: %v", err)
	}
	switch {
	case h.Cluster == "" || len(h.Cluster) > MaxCluster:
		return invalid("segment header: cluster id of %d bytes", len(h.Cluster))
	case h.Source.Inc == 0:
		return invalid("segment header: incarnation 0")
	case h.First == 0:
		return invalid("segment header: first seq 0")
	case (h.First == 1) != h.Prev.IsZero():
		return invalid("segment header: first seq %d with previous hash %s", h.First, h.Prev)
	}
	return nil
}

// Seal is the last frame of a full segment: where its chain stands.
type Seal struct {
	Last uint64 // seq of the segment's last event
	Hash cluster.Hash
}

// AppendSeal appends the encoding of s to dst.
func AppendSeal(dst []byte, s Seal) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, version), s.Last)
	return append(dst, s.Hash[:]...)
}

// DecodeSeal reads the payload of a seal frame.
func DecodeSeal(b []byte) (Seal, error) {
	r := reader{b: b}
	var s Seal
	if v := r.u8(); v != version && !r.short {
		return s, invalid("seal version %d", v)
	}
	s.Last = r.u64()
	copy(s.Hash[:], r.bytes(len(s.Hash)))
	if err := r.done("seal"); err != nil {
		return Seal{}, err
	}
	if s.Last == 0 {
		return Seal{}, invalid("seal at seq 0")
	}
	return s, nil
}
