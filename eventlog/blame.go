package eventlog

import (
	"errors"
	"os"
)

// blamed is an error for which a peer was counted.
type blamed struct{ error }

func (b *blamed) Unwrap() error { return b.error }

// blame counts what a peer sent and this host refused.
func (l *Log) blame(reason string, err error) error {
	l.m.peerErrors.WithLabelValues(reason).Inc()
	return &blamed{err}
}

// ended counts why a stream ended, if the peer is to blame and was not counted.
func (l *Log) ended(err error) error {
	if _, counted := errors.AsType[*blamed](err); counted {
		return err
	}
	switch {
	case errors.Is(err, ErrPeer):
		return l.blame("frame", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return l.blame("timeout", err)
	}
	return err
}
