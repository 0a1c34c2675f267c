package join

import (
	"errors"
	"fmt"
	"strings"

	"github.com/skein-project/skein/coord/join/door"
)

// Sentinels of this package. None of them changed state.
var (
	// ErrInitialised reports a state directory that belongs to a cluster.
	ErrInitialised = errors.New("state directory belongs to a cluster already")
	// ErrNotInitialised reports a state directory without an identity.
	ErrNotInitialised = errors.New("state directory belongs to no cluster yet")
	// ErrOtherCluster reports a token of another cluster than the directory's.
	ErrOtherCluster = errors.New("state directory belongs to another cluster")
	// ErrRefused reports a sponsor that answered 404: the invite is unknown,
	// expired, used up or revoked, the node id is another host's or that of one
	// that left or was removed not long ago, or the clocks differ by minutes. Only the sponsor's log says which. Not retryable as it is.
	ErrRefused = errors.New("the sponsor refused to admit this host")
	// ErrAnswer reports an answer that does not verify. Not retryable.
	ErrAnswer = errors.New("the sponsor's answer does not verify")
	// ErrPin reports a server that does not hold the sponsor's key.
	ErrPin = door.ErrPin
	// ErrNeedTor reports a token that only names onion addresses, where there is
	// no tor.
	ErrNeedTor = errors.New("the token names onion addresses only, and tor is off")
	// ErrNotSponsor reports a host that cannot certify others.
	ErrNotSponsor = errors.New("this host is no sponsor")
	// ErrLeft reports a state directory whose host has left its cluster. Another
	// state directory, and another node id, are needed to join again.
	ErrLeft = errors.New("this host has left the cluster")
	// ErrRemoved reports a host whose key was revoked by a sponsor.
	ErrRemoved = errors.New("this host was removed from the cluster")
	// ErrNeedRoot reports what only the root key can do, where it is not kept.
	ErrNeedRoot = errors.New("only the root key can do that, and it is not on this host")
	// ErrNoSlice reports that other sponsors own all addresses of the cluster.
	ErrNoSlice = errors.New("all parts of the cluster's network belong to sponsors: remove one that is gone first")
	// ErrNoRoot reports a state directory without root key.
	ErrNoRoot = errors.New("the root key is not on this host")
	// ErrNoMember reports a node id that no member has.
	ErrNoMember = errors.New("no such member")
	// ErrNoStagedKey reports that no next WireGuard key was staged.
	ErrNoStagedKey = errors.New("no wireguard key is staged")
)

// UnansweredError reports that no address of a token led to the sponsor. Retryable;
// no state changed that a next try does not use.
type UnansweredError struct {
	Addrs []string // that were tried
	Tries int      // of all of them
	Err   error    // of the last one
}

// Error implements error.
func (e *UnansweredError) Error() string {
	times := "once"
	if e.Tries > 1 {
		times = fmt.Sprintf("%d times", e.Tries)
	}
	return fmt.Sprintf("no answer of the sponsor at %s, asked %s: %v", strings.Join(e.Addrs, ", "), times, e.Err)
}

// Cut reports whether a connection was closed before there was an answer.
func (e *UnansweredError) Cut() bool { return cut(e.Err) }

// Unwrap returns the cause.
func (e *UnansweredError) Unwrap() error { return e.Err }
