package relay

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/gateway/channel"
	"github.com/skein-project/skein/internal/loglimit"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/realtime"
)

// Pace of what is told.
const (
	tellEvery = 250 * time.Millisecond // a channel is told at most so often
	lookEvery = 2                      // as many of them between two looks at who listens
	// freshAfter is how many of them after somebody asked that one surely listens, and is told
	// all.
	freshAfter = 2
	again      = time.Second // after the stream has failed
	logEvery   = 30 * time.Second
)

// Watch is a stream of changes, as realtime.Watch.
type Watch interface {
	Next(ctx context.Context) ([]realtime.Message, error)
	Close()
}

// Options configures a Relay. All must be set.
type Options struct {
	// Watch begins a stream of changes.
	Watch func(realtime.Request) Watch
	// Heard are the channels to which somebody listens and of which this gateway is to tell.
	Heard func() ([]channel.Ear, error)
	// Publish tells all who listen to a channel something.
	Publish func(name string, data []byte)
	Now     func() time.Duration // never goes back
	Wall    func() time.Time
	Logger  zerolog.Logger
}

// Relay tells those who listen.
type Relay struct {
	o    Options
	log  zerolog.Logger
	gate *loglimit.Gate

	ears map[string]*ear
	in   chan realtime.Message // of the stream that runs; nil: none does
	stop func()                // ends it
	on   *board
	own  sync.WaitGroup
}

// ear is a channel to which somebody listens.
type ear struct {
	asked uint64
	all   bool // somebody is to be told how things are,
	wait  int  // after so many tellings
}

// New returns a Relay.
func New(o Options) *Relay {
	return &Relay{o: o, log: o.Logger.With().Str("component", "relay").Logger(), gate: loglimit.New(o.Now, logEvery), ears: map[string]*ear{}, stop: func() {}}
}

// Run tells those who listen, until ctx ends.
func (r *Relay) Run(ctx context.Context) {
	defer r.own.Wait()
	defer func() { r.stop() }()
	tick := wait.NewTicker(tellEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		if n%lookEvery == 0 {
			r.look(ctx)
		}
		r.drain(ctx, tick)
		if ctx.Err() != nil {
			return
		}
		r.tell()
	}
}

// drain takes in what comes until the next tick.
func (r *Relay) drain(ctx context.Context, tick *wait.Ticker) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			tick.Next()
			return
		case m := <-r.in:
			anew, err := r.on.take(m)
			if err != nil {
				r.log.Error().Err(err).Msg("the stream of changes cannot be read")
			}
			if anew {
				for _, e := range r.ears {
					e.all = true
				}
			}
		}
	}
}

// look finds out who listens, and reads the stream while somebody does.
func (r *Relay) look(ctx context.Context) {
	heard, err := r.o.Heard()
	if err != nil {
		if r.gate.Pass("heard") {
			r.log.Warn().Err(err).Msg("who listens cannot be found out: nobody is told how jobs go")
		}
		return
	}
	ears := make(map[string]*ear, len(heard))
	for _, h := range heard {
		e := r.ears[h.Name]
		if e == nil {
			e = &ear{asked: h.Asked, all: true, wait: freshAfter}
		} else if e.asked != h.Asked {
			e.asked, e.all, e.wait = h.Asked, true, freshAfter
		}
		ears[h.Name] = e
	}
	r.ears = ears
	switch {
	case len(ears) == 0 && r.in != nil:
		r.stop()
		r.in, r.stop = nil, func() {}
	case len(ears) > 0 && r.in == nil:
		r.on = newBoard()
		in := make(chan realtime.Message)
		reading, stop := context.WithCancel(ctx)
		r.in, r.stop = in, stop
		r.own.Go(func() { r.read(reading, in) })
	}
}

// read reads the stream, again and again, until ctx ends.
func (r *Relay) read(ctx context.Context, to chan<- realtime.Message) {
	for ctx.Err() == nil {
		err := r.follow(ctx, to)
		if ctx.Err() != nil {
			return
		}
		if r.gate.Pass("stream") {
			r.log.Info().Err(err).Msg("the stream of changes has ended, and begins anew")
		}
		if wait.For(ctx, again) != nil {
			return
		}
	}
}

// follow reads one stream to its end.
func (r *Relay) follow(ctx context.Context, to chan<- realtime.Message) error {
	w := r.o.Watch(realtime.Request{Topics: []string{realtime.TopicJobs, realtime.TopicLease}})
	defer w.Close()
	for {
		list, err := w.Next(ctx)
		if err != nil {
			return err
		}
		for _, m := range list {
			select {
			case to <- m:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// tell tells those who listen what they have not heard.
func (r *Relay) tell() {
	if r.in == nil || !r.on.synced {
		return
	}
	at := r.o.Wall()
	for name, e := range r.ears {
		all := e.all && e.wait == 0
		e.wait = max(0, e.wait-1)
		text, err := r.on.say(name, all, at)
		switch {
		case err != nil:
			r.log.Error().Err(err).Msg("what a channel is told cannot be written")
		case text != nil: // else what it is about is not known yet
			r.o.Publish(name, text)
			e.all = e.all && !all
		}
	}
	r.on.told()
}
