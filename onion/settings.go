package onion

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/publisher/descriptor"
)

var (
	// ErrNoInstance reports a host that has no onion key of its own yet.
	ErrNoInstance = errors.New("this host has no onion key of its own yet")
	// ErrNotServed reports an address that the cluster does not serve, as far as
	// this host knows.
	ErrNotServed = errors.New("the cluster does not serve this address")
)

// InvalidError reports what a caller asked for and cannot be.
type InvalidError struct{ Err error }

func (e *InvalidError) Error() string { return e.Err.Error() }

// Unwrap returns the error itself.
func (e *InvalidError) Unwrap() error { return e.Err }

// Settings are the addresses that the cluster serves.
func (h *Host) Settings() []state.Onion {
	list := h.o.Log.Onions()
	return list[:min(len(list), event.MaxOnions)]
}

// Serves reports whether the cluster serves an address.
func (h *Host) Serves(a descriptor.Address) bool {
	return slices.ContainsFunc(h.Settings(), func(s state.Onion) bool { return s.Key == a })
}

// Set writes new settings of an address, made from those that hold, and returns
// their version. The error is an InvalidError if they cannot be.
func (h *Host) Set(ctx context.Context, key descriptor.SecretKey, actor string, change func(*event.OnionSet)) (uint64, error) {
	a := key.Address()
	// One that was removed and comes back is found by whom it was before.
	last := h.o.Log.Onion(a)
	body := event.OnionSet{Key: a[:], Actor: actor, Version: last.Version + 1, Clients: slices.Clone(last.Clients)}
	change(&body)
	if err := body.CheckForm(); err != nil {
		return 0, &InvalidError{err}
	}
	body.Sig = key.Sign(body.SignedBytes())
	if err := h.o.Log.Append(ctx, event.KindOnionSet, body); err != nil {
		return 0, err
	}
	h.look()
	return body.Version, nil
}

// Key returns the key of an address; false if this host does not have it.
func (h *Host) Key(a descriptor.Address) (descriptor.SecretKey, bool) { return h.keys.get(a) }

// AddKey keeps a key; it is on the disk when this returns. imported says that
// others may have published its address before.
func (h *Host) AddKey(k descriptor.SecretKey, imported bool) error {
	if err := h.keys.add(k); err != nil {
		return err
	}
	if imported {
		h.imports.add(k.Address())
	}
	h.look()
	return nil
}

// AcceptKey keeps a key that a member sealed to this host, once the cluster
// serves its address: that may have been set a moment ago, on another host. The
// error is ErrNotServed if ctx ends before, or an InvalidError.
func (h *Host) AcceptKey(ctx context.Context, a descriptor.Address, sealed []byte) error {
	for !h.Serves(a) {
		changed := h.o.Log.Changed()
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", ErrNotServed, a)
		case <-changed:
		case <-time.After(time.Second):
		}
	}
	key, err := openKey(a, sealed, h.o.Key)
	if err != nil {
		return &InvalidError{err}
	}
	return h.AddKey(key, false)
}

// Rotate gives this host another onion key of its own, and returns the address
// of the one before. The wish is on the disk when it returns.
func (h *Host) Rotate() (from string, err error) {
	own := h.services.addresses()
	if len(own) == 0 {
		return "", ErrNoInstance
	}
	return own[0], h.services.rotate()
}
