package record

import (
	"crypto/ed25519"
	"encoding/binary"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// MaxCluster is the longest cluster id, in bytes.
const MaxCluster = 128

// HeadMessage returns the bytes that a source signs to vouch for its chain up
// to h: "skein/head/1\n", the cluster id, source, seq and hash.
func HeadMessage(clusterID string, h event.Head) []byte {
	b := append([]byte("skein/head/1\n"), byte(len(clusterID)))
	b = append(b, clusterID...)
	b = appendSource(b, h.Source)
	b = binary.BigEndian.AppendUint64(b, h.Seq)
	return append(b, h.Hash[:]...)
}

// SignHead returns h with its signature under key.
func SignHead(clusterID string, h event.Head, key ed25519.PrivateKey) event.Head {
	h.Sig = ed25519.Sign(key, HeadMessage(clusterID, h))
	return h
}

// VerifyHead checks h's signature. It returns ErrSignature if key did not
// make it.
func VerifyHead(clusterID string, h event.Head, key ed25519.PublicKey) error {
	if len(key) != ed25519.PublicKeySize || len(h.Sig) != ed25519.SignatureSize ||
		!ed25519.Verify(key, HeadMessage(clusterID, h), h.Sig) {
		return ErrSignature
	}
	return nil
}

// AppendHead appends the encoding of h to dst.
func AppendHead(dst []byte, h event.Head) ([]byte, error) {
	if err := checkHead(h); err != nil {
		return dst, err
	}
	dst = appendSource(append(dst, version), h.Source)
	dst = binary.BigEndian.AppendUint64(dst, h.Seq)
	dst = append(dst, h.Hash[:]...)
	return append(dst, h.Sig...), nil
}

// HeadFrameLen returns the length of a whole frame with a head of src.
func HeadFrameLen(src event.SourceID) int {
	return FrameHeaderLen + 1 + 1 + len(src.Node) + 8 + 8 + len(cluster.Hash{}) + ed25519.SignatureSize
}

// DecodeHead reads the payload of a head frame. It does not verify the
// signature.
func DecodeHead(b []byte) (event.Head, error) {
	r := reader{b: b}
	h := r.head()
	if err := r.done("head"); err != nil {
		return event.Head{}, err
	}
	if err := checkHead(h); err != nil {
		return event.Head{}, err
	}
	return h, nil
}

func (r *reader) head() event.Head {
	var h event.Head
	if r.u8() != version {
		r.short = true
	}
	h.Source = r.source()
	h.Seq = r.u64()
	copy(h.Hash[:], r.bytes(len(h.Hash)))
	h.Sig = append([]byte(nil), r.bytes(ed25519.SignatureSize)...)
	return h
}

func checkHead(h event.Head) error {
	if _, err := cluster.ParseNodeID(string(h.Source.Node)); err != nil {
		return invalid("head: %v", err)
	}
	switch {
	case h.Source.Inc == 0:
		return invalid("head: incarnation 0")
	case h.Seq == 0:
		return invalid("head: seq 0")
	case len(h.Sig) != ed25519.SignatureSize:
		return invalid("head: signature of %d bytes", len(h.Sig))
	}
	return nil
}

// AppendHeads appends a count and the encodings of heads, the form in which
// hosts exchange them.
func AppendHeads(dst []byte, heads []event.Head) ([]byte, error) {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(heads)))
	for _, h := range heads {
		var err error
		if dst, err = AppendHead(dst, h); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// DecodeHeads reads what AppendHeads wrote, at most limit heads, each source
// once and in order.
func DecodeHeads(b []byte, limit int) ([]event.Head, error) {
	r := reader{b: b}
	n := r.u32()
	if n > uint32(limit) {
		return nil, invalid("%d heads, at most %d are allowed", n, limit)
	}
	var heads []event.Head
	for i := range int(n) {
		h := r.head()
		if r.short {
			break
		}
		if err := checkHead(h); err != nil {
			return nil, err
		}
		if i > 0 && heads[i-1].Source.Compare(h.Source) >= 0 {
			return nil, invalid("heads not sorted at %s", h.Source)
		}
		heads = append(heads, h)
	}
	if err := r.done("heads"); err != nil {
		return nil, err
	}
	return heads, nil
}
