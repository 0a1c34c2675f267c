package snapshot

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// A snapshot file is Magic, the length and the CRC-32C of the text of its
// SnapshotTaken, that text, and the encoded state, which the text's size and
// SHA-256 vouch for.
const (
	// Magic starts every snapshot file.
	Magic = "skeinsn\x01"
	// Suffix ends its name.
	Suffix = ".snap"

	preamble = len(Magic) + 8
)

// FileName returns the name of a snapshot's file. Names sort as cuts grow.
func FileName(s *event.SnapshotTaken) string {
	return fmt.Sprintf("%020d-%s%s", Events(s), s.ID, Suffix)
}

// ParseFileName is the inverse of FileName; ok is false for other names.
func ParseFileName(name string) (events uint64, id cluster.Hash, ok bool) {
	base, isSnap := strings.CutSuffix(name, Suffix)
	digits, text, found := strings.Cut(base, "-")
	if !isSnap || !found || len(digits) != 20 {
		return 0, id, false
	}
	events, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0, id, false
	}
	id, err = cluster.ParseHash(text)
	return events, id, err == nil
}

// AppendMeta appends the part of a snapshot file before the state.
func AppendMeta(dst []byte, s *event.SnapshotTaken) ([]byte, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return dst, fmt.Errorf("encode snapshot: %w", err)
	}
	if len(text) > MaxMeta {
		return dst, invalid("%d bytes of text, at most %d are allowed", len(text), MaxMeta)
	}
	dst = append(dst, Magic...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(text)))
	dst = binary.BigEndian.AppendUint32(dst, crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)))
	return append(dst, text...), nil
}

// MetaLen returns the length of the part before the state from the first
// bytes of a file.
func MetaLen(b []byte) (int, error) {
	if len(b) < preamble || string(b[:len(Magic)]) != Magic {
		return 0, invalid("not a snapshot file")
	}
	n := binary.BigEndian.Uint32(b[len(Magic):])
	if n > MaxMeta {
		return 0, invalid("%d bytes of text, at most %d are allowed", n, MaxMeta)
	}
	return preamble + int(n), nil
}

// PreambleLen is how many bytes MetaLen needs.
func PreambleLen() int { return preamble }

// DecodeMeta reads what AppendMeta wrote; b is exactly that part.
func DecodeMeta(clusterID string, b []byte) (*event.SnapshotTaken, error) {
	n, err := MetaLen(b)
	if err != nil {
		return nil, err
	}
	if n != len(b) {
		return nil, invalid("%d of %d bytes", len(b), n)
	}
	text := b[preamble:]
	if crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)) != binary.BigEndian.Uint32(b[len(Magic)+4:]) {
		return nil, invalid("checksum does not match")
	}
	return Decode(clusterID, text)
}

// CheckState reports whether b is the encoded state that s names.
func CheckState(s *event.SnapshotTaken, b []byte) error {
	if int64(len(b)) != s.Size {
		return invalid("state of %d bytes, want %d", len(b), s.Size)
	}
	if sum := cluster.Hash(sha256.Sum256(b)); sum != s.Sum {
		return invalid("state has SHA-256 %s, want %s", sum, s.Sum)
	}
	return nil
}
