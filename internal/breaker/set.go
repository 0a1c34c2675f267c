package breaker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Times of streams.
const (
	// patience is how long a host may say nothing before that is a failure, and minDial how
	// long a caller must have been ready to wait for a stream: what gives up earlier says
	// nothing of the host.
	patience = 10 * time.Second
	// logPatience is the same for a log, of which each answer comes in less, or the reader
	// goes on to somebody else.
	logPatience = 5 * time.Second
	minDial     = time.Second
	// most bounds the breakers; those that are closed and were not used for long go first.
	most = 4096
	rest = 10 * time.Minute
)

// Kinds of streams: operations that other hosts carry out, files, what is followed, and
// what is read of others' logs.
const (
	Forward = "forward"
	Blob    = "blob"
	Watch   = "watch"
	Log     = "log"
)

// Kinds are all of them.
func Kinds() []string { return []string{Forward, Blob, Watch, Log} }

// Key names a breaker: a host, and the kind of stream.
type Key struct{ Peer, Kind string }

// Options of a Set. All are needed.
type Options struct {
	Now func() time.Duration // never goes back
	// Life tells of a host whatever ends a pause when it changes.
	Life   func(peer string) uint64
	Jitter func() float64 // from 0 to 1
	// Local reports that an error of a dial is none of the other host's.
	Local func(error) bool
	// Changed hears of each change; it must not block.
	Changed func(Key, State)
}

// Set is the breakers of one host. NewSet makes it.
type Set struct {
	o Options

	mu  sync.Mutex
	all map[Key]*breaker
}

// NewSet returns a Set in which all breakers are closed.
func NewSet(o Options) *Set { return &Set{o: o, all: make(map[Key]*breaker)} }

// OpenError says that a host is not asked at the moment. No state changed; retryable after
// Wait.
type OpenError struct {
	Key
	Wait time.Duration
}

// Error implements error.
func (e *OpenError) Error() string {
	return fmt.Sprintf("%s did not answer lately and is tried again in %s", e.Peer, max(e.Wait.Round(time.Second), time.Second))
}

// call is what a caller says of a stream.
type call struct {
	kind   string
	always bool
}

type callKey struct{}

// Asking returns a context for a dial that says what it is for: a kind of its own, if that
// is not empty, and whether it is always tried.
func Asking(ctx context.Context, kind string, always bool) context.Context {
	return context.WithValue(ctx, callKey{}, call{kind: kind, always: always})
}

// Dial opens a stream by dial, if the breaker of the host and kind lets it.
func (s *Set) Dial(ctx context.Context, peer, kind string, dial func() (net.Conn, error)) (net.Conn, error) {
	c, _ := ctx.Value(callKey{}).(call)
	if c.kind != "" {
		kind = c.kind
	}
	key := Key{peer, kind}
	if wait, ok := s.begin(key, c.always); !ok {
		return nil, &OpenError{Key: key, Wait: wait}
	}
	began := s.o.Now()
	conn, err := dial()
	if err != nil {
		s.end(key, s.judge(ctx, err, s.o.Now()-began))
		return nil, err
	}
	return &guarded{Conn: conn, set: s, key: key, began: began}, nil
}

// verdict is what a stream says of the host.
type verdict uint8

const (
	nothing verdict = iota
	good
	bad
)

// judge says what the error of a dial says of the host.
func (s *Set) judge(ctx context.Context, err error, took time.Duration) verdict {
	late := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(ctx.Err(), context.Canceled), s.o.Local(err), late && took < minDial, refusal(err):
		return nothing
	}
	return bad
}

// refusal reports that the other host closed a stream, as one does that has too many.
func refusal(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func (s *Set) begin(key Key, always bool) (wait time.Duration, ok bool) {
	now, life := s.o.Now(), s.o.Life(key.Peer)
	s.mu.Lock()
	b := s.all[key]
	if b == nil {
		s.prune(now)
		b = &breaker{used: now}
		s.all[key] = b
	}
	before := b.state
	ok, wait = b.allow(life, now)
	if !ok && always {
		b.begin()
		ok = true
	}
	after := b.state
	s.mu.Unlock()
	s.tell(key, before, after)
	return wait, ok
}

func (s *Set) end(key Key, v verdict) {
	now, life := s.o.Now(), s.o.Life(key.Peer)
	s.mu.Lock()
	b := s.all[key]
	if b == nil { // forgotten meanwhile
		s.mu.Unlock()
		return
	}
	before := b.state
	if v == nothing {
		b.pass()
	} else {
		b.record(v == bad, life, s.o.Jitter(), now)
	}
	after := b.state
	s.mu.Unlock()
	s.tell(key, before, after)
}

func (s *Set) tell(key Key, before, after State) {
	if before != after {
		s.o.Changed(key, after)
	}
}

// prune forgets breakers when there are too many. The caller holds mu.
func (s *Set) prune(now time.Duration) {
	if len(s.all) < most {
		return
	}
	for k, b := range s.all {
		if b.state == Closed && now-b.used > rest || len(s.all) >= 2*most {
			delete(s.all, k)
		}
	}
}

// Count is how many breakers of each kind are not closed.
func (s *Set) Count() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]int)
	for k, b := range s.all {
		if b.state != Closed {
			out[k.Kind]++
		}
	}
	return out
}

// Paused is a host that is not asked for a kind of stream until Wait is over, or tried.
type Paused struct {
	Key
	Wait   time.Duration
	Trying bool
}

// List are the breakers that are not closed, by host and kind.
func (s *Set) List() (out []Paused) {
	now := s.o.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, b := range s.all {
		if b.state != Closed {
			out = append(out, Paused{Key: k, Wait: max(0, b.until-now), Trying: b.state == HalfOpen || now >= b.until})
		}
	}
	slices.SortFunc(out, func(a, b Paused) int { return cmp.Or(cmp.Compare(a.Peer, b.Peer), cmp.Compare(a.Kind, b.Kind)) })
	return out
}

// guarded is a stream whose outcome is told once.
type guarded struct {
	net.Conn
	set   *Set
	key   Key
	began time.Duration
	told  atomic.Bool
}

func patient(kind string) time.Duration {
	if kind == Log {
		return logPatience
	}
	return patience
}

func (g *guarded) tell(v verdict) {
	if !g.told.Swap(true) {
		g.set.end(g.key, v)
	}
}

// Read implements net.Conn.
func (g *guarded) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	switch {
	case g.told.Load():
	case n > 0:
		g.tell(good)
	case errors.Is(err, os.ErrDeadlineExceeded) && g.set.o.Now()-g.began >= patient(g.key.Kind):
		g.tell(bad)
	}
	return n, err
}

// Close implements net.Conn.
func (g *guarded) Close() error {
	g.tell(nothing)
	return g.Conn.Close()
}
