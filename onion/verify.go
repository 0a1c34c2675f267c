package onion

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/skein-project/skein/publisher/descriptor"
)

// ErrNoConsensus reports that tor does not know the network yet.
var ErrNoConsensus = errors.New("tor has no consensus yet")

// verifyTime bounds the question to one directory.
const verifyTime = 15 * time.Second

// DirectoryView is what one directory has of an address's descriptor.
type DirectoryView struct {
	Dir      descriptor.Fingerprint
	Read     bool // a descriptor was found, of Revision
	Revision uint64
	Points   int   // -1: not readable without a client's key
	Err      error // why nothing was found, or not read to the end
}

// Verify asks every directory that clients ask for an address.
func (h *Host) Verify(ctx context.Context, a descriptor.Address) ([]DirectoryView, error) {
	network, _ := h.inbox.network()
	if network == nil {
		return nil, ErrNoConsensus
	}
	sched, err := network.Consensus.Schedule(network.Testing)
	if err != nil {
		return nil, err
	}
	slot := sched.Fetched()
	ring, err := network.Consensus.Ring(network.Microdescs, slot)
	if err != nil {
		return nil, err
	}
	dirs := ring.Fetch(a.Blind(slot.Period))
	views := make([]DirectoryView, len(dirs))
	var wg sync.WaitGroup
	for i, dir := range dirs {
		wg.Go(func() { views[i] = h.verifyAt(ctx, a, slot.Period, dir) })
	}
	wg.Wait()
	return views, nil
}

func (h *Host) verifyAt(ctx context.Context, a descriptor.Address, p descriptor.Period, dir descriptor.Fingerprint) DirectoryView {
	ctx, cancel := context.WithTimeout(ctx, verifyTime)
	defer cancel()
	v := DirectoryView{Dir: dir}
	var text []byte
	if text, v.Err = (uploader{h.o.Tor}).Fetch(ctx, a, dir); v.Err != nil {
		return v
	}
	now := time.Now()
	s, err := descriptor.Parse(text, now)
	if err == nil && s.Blinded != a.Blind(p) {
		err = descriptor.ErrForeign
	}
	if err != nil {
		v.Err = err
		return v
	}
	v.Read, v.Revision = true, s.Revision
	d, err := s.Open(a, p, nil, now)
	switch {
	case errors.Is(err, descriptor.ErrClientAuth) || errors.Is(err, descriptor.ErrDecrypt):
		v.Points = -1
	case err != nil:
		v.Err = err
	default:
		v.Points = len(d.Points)
	}
	return v
}
