package cluster

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
)

// The form of the ids of outside workers, which no host may have.
const (
	outsidePrefix = "w-"
	outsideChars  = 26 // of base32, 130 bits
	// OutsideOthers stands for outside workers that are not named one by one.
	OutsideOthers NodeID = outsidePrefix + "others"
)

// OutsideZone is where outside workers are of which nobody says more.
const OutsideZone = "outside"

// Bounds of the registry of outside workers, those that are revoked included.
const (
	MaxOutsideWorkers = 100_000
	MaxAccessTokens   = 10_000
)

// ErrHostName reports a name that is kept for outside workers.
var ErrHostName = errors.New("is kept for outside workers, no host may have it")

// OutsideID is the id of the outside worker, which no host runs, that has this
// public key.
func OutsideID(key []byte) NodeID {
	h := sha256.New()
	h.Write([]byte("skein-worker/1"))
	h.Write(key)
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil))
	return NodeID(outsidePrefix + strings.ToLower(text[:outsideChars]))
}

// IsOutside reports whether n has the form of an outside worker's id. It says
// nothing of whether there is such a worker.
func IsOutside(n NodeID) bool {
	text, ok := strings.CutPrefix(string(n), outsidePrefix)
	return ok && len(text) == outsideChars && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// ParseHostPattern is ParseHostName, or a beginning of a name and "*", like "spot-*": each
// host that joins by it has a name of its own.
func ParseHostPattern(s string) (NodeID, error) {
	prefix, ok := strings.CutSuffix(s, "*")
	if !ok {
		return ParseHostName(s)
	}
	if _, err := ParseHostName(prefix + "aaaaaaaa"); err != nil {
		return "", err
	}
	return NodeID(s), nil
}

// MatchHostName reports whether a host of a name, or of a pattern of names, may be called so.
func MatchHostName(pattern, name NodeID) bool {
	prefix, ok := strings.CutSuffix(string(pattern), "*")
	return pattern == name || ok && len(name) > len(prefix) && strings.HasPrefix(string(name), prefix)
}

// ParseHostName checks s and returns it as the NodeID of a host.
func ParseHostName(s string) (NodeID, error) {
	n, err := ParseNodeID(s)
	if err != nil {
		return "", err
	}
	if n == OutsideOthers || IsOutside(n) {
		return "", fmt.Errorf("%q %w", s, ErrHostName)
	}
	return n, nil
}
