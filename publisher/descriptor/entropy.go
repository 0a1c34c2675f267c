package descriptor

import (
	"crypto/sha3"
	"encoding/binary"
	"math/bits"
)

// stream draws as many bytes as needed from a seed. Each purpose has a label
// and thus a stream of its own.
type stream struct{ h *sha3.SHAKE }

func newStream(seed [32]byte, label string) stream {
	h := sha3.NewSHAKE256()
	_, _ = h.Write([]byte("skein descriptor entropy\x00"))
	_, _ = h.Write(seed[:])
	_, _ = h.Write([]byte(label))
	return stream{h}
}

func (s stream) fill(out []byte) { _, _ = s.h.Read(out) }

func (s stream) bytes32() (out [32]byte) {
	s.fill(out[:])
	return out
}

// below returns a number in [0, n), each as likely as the others.
func (s stream) below(n int) int {
	limit := uint64(n)
	for {
		var b [8]byte
		s.fill(b[:])
		hi, lo := bits.Mul64(binary.BigEndian.Uint64(b[:]), limit)
		if lo >= -limit%limit {
			return int(hi)
		}
	}
}

// shuffled returns the values in random order. Its argument is left alone.
func shuffled[T any](s stream, values []T) []T {
	out := append([]T(nil), values...)
	for i := len(out) - 1; i > 0; i-- {
		j := s.below(i + 1)
		out[i], out[j] = out[j], out[i]
	}
	return out
}
