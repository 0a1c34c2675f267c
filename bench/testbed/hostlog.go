package testbed

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog"
)

// Draft is of an event that takes about 300 bytes on disk.
func Draft() []event.Draft {
	return []event.Draft{{Kind: event.KindHostStarted, Body: event.HostStarted{Version: strings.Repeat("x", 150)}}}
}

// LogOptions are those of a log that no other host shares. It may write under
// any term.
func LogOptions(dir string) (eventlog.Options, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return eventlog.Options{
		Dir: dir, Cluster: "bench", Self: "host-001", Key: key, MayAct: AnyTerm, PullEvery: -1, Logger: zerolog.Nop(),
	}, err
}

// AnyTerm lets a host write under any term.
func AnyTerm(cluster.Term) bool { return true }

// RunLog opens a log and runs it until stop is called, which returns how it
// ended.
func RunLog(o eventlog.Options) (l *eventlog.Log, stop func() error, err error) {
	if l, err = eventlog.Open(o); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	return l, func() error {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}, nil
}
