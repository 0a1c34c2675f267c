package discover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/skein-project/skein/discover/source"
)

const (
	// askTime bounds one question to a source, all that follows from it included.
	askTime = 2 * time.Second
	// askWidth is how many questions run at once.
	askWidth = 10
	// maxFile is how much of a file is read.
	maxFile = 64 << 10
)

// ErrNone says that there is no such name, or that it has no such records.
var ErrNone = errors.New("no records")

// Target is a host that serves a service.
type Target struct {
	Name string
	Port uint16
}

// Resolver answers questions to DNS. A name that is not there is ErrNone. ttl 0: not known.
type Resolver interface {
	Addresses(ctx context.Context, name string) (list []netip.Addr, ttl time.Duration, err error)
	Targets(ctx context.Context, service string) (list []Target, ttl time.Duration, err error)
}

// Options are what a Finder needs. Sources and Own must be set.
type Options struct {
	Sources []source.Source
	// Own reports that an endpoint is this host's.
	Own func(netip.AddrPort) bool
	// Changed is told when Found has become another one; may be nil.
	Changed  func()
	Resolver Resolver // default: that of the system
	Rand     func() float64
	Logger   zerolog.Logger
}

// Finder asks sources, no more often than they are to be asked.
type Finder struct {
	o     Options
	log   zerolog.Logger
	began time.Time

	wanted atomic.Bool
	kick   chan struct{} // capacity 1: wanted may have changed; a full one already wakes
	found  atomic.Pointer[[]netip.AddrPort]

	mu    sync.Mutex
	cache source.Cache
}

// New returns a Finder that has found nothing.
func New(o Options) *Finder {
	if o.Resolver == nil {
		o.Resolver = System{}
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	f := &Finder{o: o, log: o.Logger.With().Str("component", "discover").Logger(), began: time.Now(), kick: make(chan struct{}, 1)}
	f.found.Store(&[]netip.AddrPort{})
	return f
}

// Want says whether anybody looks for endpoints. While nobody does, nothing is asked.
func (f *Finder) Want(on bool) {
	if f.wanted.Swap(on) != on {
		select {
		case f.kick <- struct{}{}:
		default:
		}
	}
}

// Found are the endpoints that were found last.
func (f *Finder) Found() []netip.AddrPort { return *f.found.Load() }

// Run asks whenever a source is due and somebody wants to know, until ctx ends.
func (f *Finder) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.kick:
		case <-timer.C:
		}
		if !f.wanted.Load() {
			continue // the next one who wants wakes it
		}
		was := f.Found()
		now := f.Find(ctx)
		if !slices.Equal(was, now) {
			f.log.Info().Int("endpoints", len(now)).Msg("endpoints of hosts found")
			if f.o.Changed != nil {
				f.o.Changed()
			}
		}
		f.mu.Lock()
		next := f.cache.Next(f.o.Sources, f.now())
		f.mu.Unlock()
		timer.Reset(max(0, next-f.now()))
	}
}

func (f *Finder) now() time.Duration { return time.Since(f.began) }

// Find asks the sources that are due, and returns what all of them said last.
func (f *Finder) Find(ctx context.Context) []netip.AddrPort {
	var asking sync.WaitGroup
	gate := make(chan struct{}, askWidth)
	for _, s := range f.o.Sources {
		f.mu.Lock()
		due := f.cache.Due(s, f.now())
		f.mu.Unlock()
		if due {
			asking.Go(func() { f.ask(ctx, s, gate) })
		}
	}
	asking.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.cache.Endpoints(f.o.Sources)
	f.found.Store(&list)
	return list
}

func (f *Finder) ask(ctx context.Context, s source.Source, gate chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	list, ttl, err := f.look(ctx, s, gate)
	list = source.Usable(list, f.o.Own)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil && !errors.Is(err, ErrNone) {
		f.cache.Fail(s, f.now(), f.o.Rand())
		f.log.Debug().Err(err).Stringer("source", s).Msg("source of endpoints did not answer")
		return
	}
	f.cache.Put(s, list, ttl, f.now())
}

// look asks one source.
func (f *Finder) look(ctx context.Context, s source.Source, gate chan struct{}) (list []netip.AddrPort, ttl time.Duration, err error) {
	switch s.Kind {
	case source.DNS:
		list, ttl, err = f.addresses(ctx, s.Name, s.Port, gate)
	case source.Service:
		list, ttl, err = f.service(ctx, s.Name, gate)
	case source.File:
		var text string
		text, err = readFile(s.Name)
		list, ttl = source.ReadFile(text, s.Port), source.LeastTTL // it is cheap to look
	}
	return list, ttl, err
}

func (f *Finder) addresses(ctx context.Context, name string, port uint16, gate chan struct{}) (list []netip.AddrPort, ttl time.Duration, err error) {
	select {
	case gate <- struct{}{}:
		defer func() { <-gate }()
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	addrs, ttl, err := f.o.Resolver.Addresses(ctx, name)
	for _, a := range addrs {
		list = append(list, netip.AddrPortFrom(a, port))
	}
	return list, ttl, err
}

// service asks for the addresses of the targets of a service. Of targets that are not to be
// found nothing is said, unless none is.
func (f *Finder) service(ctx context.Context, name string, gate chan struct{}) (list []netip.AddrPort, ttl time.Duration, err error) {
	select {
	case gate <- struct{}{}:
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	targets, ttl, err := f.o.Resolver.Targets(ctx, name)
	<-gate
	if err != nil {
		return nil, 0, err
	}
	targets = slices.DeleteFunc(slices.Clone(targets), func(t Target) bool { return t.Port == 0 || t.Name == "" || t.Name == "." })
	targets = targets[:min(len(targets), source.MaxEndpoints)]
	found, errs := make([][]netip.AddrPort, len(targets)), make([]error, len(targets))
	var asking sync.WaitGroup
	for i, t := range targets {
		asking.Go(func() { found[i], _, errs[i] = f.addresses(ctx, t.Name, t.Port, gate) })
	}
	asking.Wait()
	for i := range targets {
		if errs[i] == nil {
			list = append(list, found[i]...)
		}
	}
	if len(list) == 0 {
		err = errors.Join(errs...)
	}
	return list, ttl, err
}

// readFile reads the beginning of a plain file.
func readFile(name string) (string, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no plain file", name)
	}
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	return string(b), err
}
