package descriptor

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Revision counters. Directories refuse a descriptor that is not above the one
// they have, and clients keep the higher one, for each blinded key on its own.
// So the counter fences: a later term is above whatever an earlier one posted,
// and within a term time goes on. The base hides both from who cannot sign.
const (
	revisionTermShift = 40
	revisionTimeShift = 8
	// MaxRevisionTerm is the last term that the counter has room for.
	MaxRevisionTerm cluster.Term = 1<<23 - 1
)

// NextRevision returns the counter of the next descriptor for the period:
// above what was posted or seen before under the same blinded key, and as high
// as the term and the clock say. floor is the highest one known, 0 if none.
func (k SecretKey) NextRevision(p Period, term cluster.Term, now time.Time, floor uint64) (uint64, error) {
	unix := now.Unix()
	if term > MaxRevisionTerm || unix < 0 || unix >= 1<<(revisionTermShift-revisionTimeShift) {
		return 0, fmt.Errorf("%w: term %d at %d is out of range", ErrRevision, term, unix)
	}
	next := k.revisionBase(p) + uint64(term)<<revisionTermShift + uint64(unix)<<revisionTimeShift
	if next > floor {
		return next, nil
	}
	if floor == math.MaxUint64 {
		return 0, fmt.Errorf("%w: %d", ErrRevision, floor)
	}
	return floor + 1, nil
}

// revisionBase is 61 bits that only the key's owners can compute.
func (k SecretKey) revisionBase(p Period) uint64 {
	b := k.Address().Blind(p)
	h := hmac.New(sha256.New, k.prefix())
	h.Write(b[:])
	return binary.BigEndian.Uint64(h.Sum(nil)) >> 3
}

// RevisionTerm returns the term under which a revision of the period was made,
// and whether it can have been made by NextRevision at all.
func (k SecretKey) RevisionTerm(p Period, revision uint64) (cluster.Term, bool) {
	base := k.revisionBase(p)
	if revision < base {
		return 0, false
	}
	term := cluster.Term((revision - base) >> revisionTermShift)
	return term, term <= MaxRevisionTerm
}
