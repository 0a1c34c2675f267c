package onion

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

// directoryTor reaches the directories of descriptors.
type directoryTor interface {
	Upload(ctx context.Context, address string, hsdirs []string, descriptor string) ([]tor.Result, error)
	Fetch(ctx context.Context, address, hsdir string) (string, error)
}

// networkTor says what tor knows of the network.
type networkTor interface {
	Subscribe(size int) *tor.Subscription
	Consensus(context.Context) (string, error)
	Microdescriptors(context.Context) (string, error)
	TestingNetwork(context.Context) (bool, error)
}

// uploader lets a publisher reach directories.
type uploader struct{ tor directoryTor }

// Upload implements publisher.Uploader.
func (u uploader) Upload(ctx context.Context, a descriptor.Address, dir descriptor.Fingerprint, text []byte) error {
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
func (u uploader) Fetch(ctx context.Context, a descriptor.Address, dir descriptor.Fingerprint) ([]byte, error) {
	text, err := u.tor.Fetch(ctx, a.String(), dir.String())
	return []byte(text), err
}

// Times of looking at the network.
const (
	networkRetry  = 2 * time.Second
	networkSettle = 10 * time.Second // microdescriptors come some time after their consensus
	networkAgain  = 10 * time.Minute
)

// watchNetwork passes each consensus to next until ctx ends, from the caller's
// goroutine.
func watchNetwork(ctx context.Context, t networkTor, log zerolog.Logger, next func(publisher.Network)) {
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
		next(n)
	}
}

// network asks tor for what a publisher must know.
func network(ctx context.Context, t networkTor) (n publisher.Network, text string, err error) {
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
