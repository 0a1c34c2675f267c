package tor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Times between two looks at the own descriptor: usually, and for a while after
// tor said that it made a new one.
const (
	lookTime    = 5 * time.Second
	closeLook   = time.Second
	closePeriod = 10 * time.Second
)

// Snapshot is what a publisher needs of one host's service.
type Snapshot struct {
	Address    string
	Descriptor string   // as tor signed it
	Relays     []string // introduction points with an established circuit, sorted, each once
}

func (s Snapshot) equal(o Snapshot) bool {
	return s.Descriptor == o.Descriptor && slices.Equal(s.Relays, o.Relays)
}

// Watch looks at an own service until the context ends and tells each change
// of its descriptor or of its circuits, from the caller's goroutine. While tor
// is down nothing is told: see Status. A descriptor of the first seconds,
// without revision or points, is passed over.
func (t *Tor) Watch(ctx context.Context, address string, tell func(Snapshot)) error {
	if _, err := shortAddress(address); err != nil {
		return fmt.Errorf("watch onion service: %w", err)
	}
	sub := t.Subscribe(eventQueue)
	defer sub.Close()
	var last Snapshot
	var closer time.Time // looks come closer until then
	turns := rotation{tor: t}
	for {
		now, err := t.look(ctx, address)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrNotConnected) || errors.Is(err, ErrNoDescriptor):
		case err != nil:
			t.log.Debug().Err(err).Msg("own descriptor not read")
		case last.Descriptor == "" && len(now.Relays) == 0:
		case strings.Contains(now.Descriptor, "\nrevision-counter 0\n"):
		case !now.equal(last):
			last = now
			tell(now)
		}
		pause := lookTime
		if time.Now().Before(closer) {
			pause = closeLook
		}
		news, consensus := awaitNews(ctx, sub, address, pause)
		if news {
			closer = time.Now().Add(closePeriod)
		}
		if consensus || turns.values == 0 {
			if err := turns.consensus(ctx, last); err != nil && ctx.Err() == nil {
				t.log.Debug().Err(err).Msg("introduction points not told of a new consensus")
			}
		}
	}
}

// look reads descriptor and circuits.
func (t *Tor) look(ctx context.Context, address string) (Snapshot, error) {
	text, err := t.Descriptor(ctx, address)
	if err != nil {
		return Snapshot{}, err
	}
	circuits, err := t.IntroCircuits(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	s := Snapshot{Address: address, Descriptor: text}
	for _, c := range circuits {
		if c.Address == address {
			s.Relays = append(s.Relays, c.Relay)
		}
	}
	slices.Sort(s.Relays)
	s.Relays = slices.Compact(s.Relays)
	return s, nil
}

// awaitNews waits for a time, or until an event says that the service has a new
// descriptor or that tor is back, or has a new consensus.
func awaitNews(ctx context.Context, sub *Subscription, address string, pause time.Duration) (news, consensus bool) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, false
		case <-timer.C:
			return false, false
		case e := <-sub.C():
			switch e := e.(type) {
			case Connected:
				return true, false
			case NewConsensus:
				return false, true
			case HSDesc:
				if e.Address == address && e.Action == ActionCreated {
					return true, false
				}
			}
		}
	}
}
