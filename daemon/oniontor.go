package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/publisher"
	"github.com/skein-project/skein/publisher/descriptor"
	"github.com/skein-project/skein/tor"
)

// torUploader lets a publisher reach directories.
type torUploader struct{ tor *tor.Tor }

// Upload implements publisher.Uploader.
func (u torUploader) Upload(ctx context.Context, a descriptor.Address, dir descriptor.Fingerprint, text []byte) error {
	results, err := u.tor.Upload(ctx, a.String(), []string{dir.String()}, string(text))
	switch {
	case err != nil:
		return err
	case len(results) != 1:
		return fmt.Errorf("upload to %s: %d results", dir, len(results))
	case tor.Rejected(results[0].Err):
		return fmt.Errorf("upload to %s: %w", dir, publisher.ErrRejected)
	case results[0].Err != nil:
		return fmt.Errorf("upload to %s: %w", dir, results[0].Err)
	}
	return nil
}

// Fetch implements publisher.Uploader.
func (u torUploader) Fetch(ctx context.Context, a descriptor.Address, dir descriptor.Fingerprint) ([]byte, error) {
	text, err := u.tor.Fetch(ctx, a.String(), dir.String())
	return []byte(text), err
}

// Times of looking at the network.
const (
	networkRetry  = 2 * time.Second
	networkSettle = 10 * time.Second // microdescriptors come some time after their consensus
	networkAgain  = 10 * time.Minute
)

// watchNetwork tells of each consensus until ctx ends, from the caller's
// goroutine.
func watchNetwork(ctx context.Context, t *tor.Tor, log zerolog.Logger, tell func(publisher.Network)) {
	sub := t.Subscribe(64)
	defer sub.Close()
	var consensus string
	pause := time.Duration(0)
	for {
		timer := time.NewTimer(pause)
		fresh := false
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
				waiting = false
			case e := <-sub.C():
				switch e.(type) {
				case tor.NewConsensus, tor.Connected:
					waiting, fresh = false, true
				}
			}
		}
		timer.Stop()
		n, text, err := network(ctx, t)
		switch {
		case err != nil:
			pause = networkRetry
			if !errors.Is(err, tor.ErrNotConnected) && !errors.Is(err, tor.ErrNoDescriptor) && ctx.Err() == nil {
				log.Warn().Err(err).Msg("consensus not read")
			}
			continue
		case fresh || text != consensus:
			pause = networkSettle
		default:
			pause = networkAgain
		}
		consensus = text
		tell(n)
	}
}

// network asks tor for what a publisher must know.
func network(ctx context.Context, t *tor.Tor) (n publisher.Network, text string, err error) {
	if text, err = t.Consensus(ctx); err != nil {
		return n, "", err
	}
	mds, err := t.Microdescriptors(ctx)
	if err != nil {
		return n, "", err
	}
	if n.Testing, err = t.TestingNetwork(ctx); err != nil {
		return n, "", err
	}
	if n.Consensus, err = descriptor.ParseConsensus([]byte(text)); err != nil {
		return n, "", err
	}
	n.Microdescs, err = descriptor.ParseMicrodescs([]byte(mds))
	return n, text, err
}

// sight is a look at an own service, as long as the tor lives that showed it.
type sight struct {
	pid int
	tor.Snapshot
}

// watchService tells what tor says of an own service, until ctx ends.
func watchService(ctx context.Context, t *tor.Tor, address string, tell func(sight)) {
	_ = t.Watch(ctx, address, func(s tor.Snapshot) { tell(sight{t.Status().Pid, s}) }) // the address is tor's own word
}

// fresh reports whether the tor that showed it still runs.
func (s sight) fresh(st tor.Status) bool {
	return s.Descriptor != "" && s.pid == st.Pid && (st.State == tor.StateReady || st.State == tor.StateBootstrap)
}
