package tor

import (
	"errors"
	"fmt"
	"strings"
)

// What callers branch on.
var (
	// ErrMissing: there is no tor program. Changes only when someone installs it.
	ErrMissing = errors.New("tor is not installed (hint: apt install tor, or set tor.program)")
	// ErrTooOld: the tor program or the tor attached to lacks what skein needs.
	ErrTooOld = fmt.Errorf("tor is older than %s (hint: install a newer tor)", oldest)
	// ErrNotConnected: no connection to tor's control port at the moment. It
	// comes back by itself.
	ErrNotConnected = errors.New("not connected to tor")
	// ErrDeadline: tor did not answer a command in time. The connection was
	// given up and whether the command took effect is unknown.
	ErrDeadline = errors.New("tor did not answer in time")
	// ErrProtocol: what came from the control port is no protocol that can be
	// followed. The connection was given up.
	ErrProtocol = errors.New("control port broke the protocol")
	// ErrNoDescriptor: tor has no descriptor of that address yet, or no
	// consensus.
	ErrNoDescriptor = errors.New("tor does not have it yet")
	// ErrUnknownRelay: an HSDir of a post is not in tor's consensus, nothing
	// was posted. Choose HSDirs from a fresh consensus.
	ErrUnknownRelay = errors.New("a chosen relay is not in tor's consensus")
	// ErrBadDescriptor: tor refused to post what it could not parse.
	ErrBadDescriptor = errors.New("tor refused the descriptor")
)

// ReplyError is tor's refusal of a command. The connection stands.
type ReplyError struct {
	Command string // its first word
	Code    int
	Text    string
}

// Error names the command, the code and tor's words.
func (e *ReplyError) Error() string {
	return fmt.Sprintf("tor refused %s: %d %s", e.Command, e.Code, e.Text)
}

// Unwrap maps the codes that mean something to callers.
func (e *ReplyError) Unwrap() error {
	switch {
	case e.Code == 551:
		return ErrNoDescriptor
	case e.Code == 552 && e.Command == "HSPOST":
		return ErrUnknownRelay
	case e.Code == 554 && e.Command == "HSPOST":
		return ErrBadDescriptor
	}
	return nil
}

// DialError is a failed connection through tor.
type DialError struct {
	Address string
	Err     error
}

// Error names the address and the reason, with tor's own codes in words.
func (e *DialError) Error() string {
	return fmt.Sprintf("dial %s over tor: %v", e.Address, e.Err)
}

// Unwrap returns the reason.
func (e *DialError) Unwrap() error { return e.Err }

// errNeedKey answers who has no key for a service under restricted discovery.
var errNeedKey = errors.New("the service wants client authorization")

// socksReason adds to an error what the code in it means: tor has codes of its own
// (proposal 304), of which the client library prints the numbers.
func socksReason(err error) error {
	if strings.HasSuffix(err.Error(), "unknown code: 244") {
		return fmt.Errorf("%w (%w)", errNeedKey, err)
	}
	for code, text := range map[string]string{
		"unknown code: 240": "no descriptor found at the HSDirs",
		"unknown code: 241": "descriptor is invalid",
		"unknown code: 242": "introduction failed: no introduction point took it",
		"unknown code: 243": "rendezvous failed",
		"unknown code: 245": "wrong client authorization",
		"unknown code: 246": "no valid onion address",
		"unknown code: 247": "introduction timed out",
	} {
		if strings.HasSuffix(err.Error(), code) {
			return fmt.Errorf("%s (%w)", text, err)
		}
	}
	return err
}
