package job

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/skein-project/skein/cluster"
)

// jobIDChars is the number of base32 characters in an ID: 130 bits.
const jobIDChars = 26

// NewID derives the id of the job that owner submits under key. Equal
// arguments give equal ids on every host, so that a retry names the same job.
func NewID(owner, key string) ID {
	h := sha256.New()
	h.Write([]byte("job1"))
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(owner)))
	h.Write(n[:])
	h.Write([]byte(owner))
	h.Write([]byte(key))
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil))
	return ID("j" + strings.ToLower(text[:jobIDChars]))
}

// ParseID checks the form of s and returns it as an ID.
func ParseID(s string) (ID, error) {
	if len(s) != 1+jobIDChars || s[0] != 'j' || strings.Trim(s[1:], "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return "", fmt.Errorf("%q is not a job id: want j and %d characters a-z, 2-7", s, jobIDChars)
	}
	return ID(s), nil
}

// Fingerprint is a digest of every field of a filled spec that the submitter
// chose: two submissions under one key are the same job only if their
// fingerprints are equal.
func (s Spec) Fingerprint() cluster.Hash {
	if s.ChunkAuto {
		s.Chunk = 0
	}
	return sha256.Sum256(append([]byte("spec1"), s.encoded()...))
}

// FixedFingerprint is the Fingerprint of the same request as hosts logged it for
// which 256 chunks were the default.
func (s Spec) FixedFingerprint() cluster.Hash {
	s.ChunkAuto, s.Chunk = false, s.evenChunk()
	return s.Fingerprint()
}

// Equal reports whether all fields are the same.
func (s Spec) Equal(o Spec) bool { return bytes.Equal(s.encoded(), o.encoded()) }

func (s Spec) encoded() []byte {
	b, err := json.Marshal(s)
	if err != nil {
		// Only a number that is not finite cannot be encoded, and no valid spec
		// has one.
		b = fmt.Appendf(nil, "%#v", s)
	}
	return b
}
