package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
)

// EndedError is of a host whose daemon ended for good, and does not start any more.
// It wraps join.ErrLeft or join.ErrRemoved.
type EndedError struct{ error }

// Unwrap returns why.
func (e *EndedError) Unwrap() error { return e.error }

// Hint says what is left to do on that host.
func (*EndedError) Hint() string {
	return "its daemon does not start any more; to join again, empty state_dir, get a new token, and join under another name (--name, node.name)"
}

// Ended is an *EndedError if the host of a state directory was removed from its
// cluster or left it, which nothing on its socket says. It is nil as well where the
// directory cannot be read or is no member's.
func Ended(stateDir string) error {
	_, err := past(stateDir)
	if ended, ok := errors.AsType[*EndedError](err); ok {
		return ended
	}
	return nil
}

// checkMembership says whether the host of a state directory may still run.
func checkMembership(_ context.Context, h Host) verdict {
	id, err := past(h.Config.StateDir)
	ended, ok := errors.AsType[*EndedError](err)
	switch {
	case ok:
		return failure("%v", ended).advise("%s", ended.Hint())
	case err != nil:
		return skipped("no member's state directory that can be read")
	}
	return good("%s is a member, as far as its records here go", id.Node)
}

// past reads whose a state directory is, and fails with an *EndedError if that is over.
func past(stateDir string) (*join.Identity, error) {
	id, records, err := join.LoadPast(stateDir)
	if err != nil {
		return nil, err
	}
	if _, _, err := join.Load(stateDir); errors.Is(err, join.ErrLeft) {
		return nil, &EndedError{join.ErrLeft}
	}
	if err := endOf(id, id.Roster(records).Retired); err != nil {
		return nil, &EndedError{err}
	}
	return id, nil
}

// endOf is how the membership of id ended, nil if it did not.
func endOf(id *join.Identity, retired []member.Retired) error {
	for _, r := range retired {
		switch {
		case r.Node != id.Node || !bytes.Equal(r.Cert.IDPub, id.IDPub):
		case r.Left:
			return join.ErrLeft
		case r.Reason != "":
			return fmt.Errorf("%w: %s", join.ErrRemoved, r.Reason)
		default:
			return join.ErrRemoved
		}
	}
	return nil
}
