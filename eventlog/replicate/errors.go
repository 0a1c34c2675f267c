package replicate

import "errors"

var (
	// ErrUnknown is wrapped when the fate of an append, or the stability of
	// an event, cannot be determined.
	ErrUnknown = errors.New("outcome unknown")
	// ErrRefused says that a voter has promised a higher term, or not yet
	// the term asked about.
	ErrRefused = errors.New("refused by voter")

	errUnknownSource = errors.New("no member")
)
