package status

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/rs/zerolog"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/status/door"
)

// Pace of followers.
const (
	watchMin  = 200 * time.Millisecond // between two snapshots of a job
	watchMax  = time.Second            // rate and time left change by themselves
	eventsMin = 50 * time.Millisecond  // between two looks at the log
	keepalive = 5 * time.Second        // an empty line, a third of what clients bear
)

// followers serves the answers that are streams.
type followers struct {
	header   func() api.Header
	log      zerolog.Logger
	metrics  *metrics
	places   *door.Places // of streams but watches
	watches  *door.Places
	stopping chan struct{} // closed when they must end
	stall    time.Duration // what a reader may take for a line
}

// follower writes lines to one reader.
type follower struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	path  string
	stall time.Duration // what the reader may take for a line
	sse   bool          // lines are events of text/event-stream
	id    string        // of the next of these; empty: none
	begun bool          // a line was written
	// When the last line was written, and when lines were last sent.
	last, flushed time.Time
}

// follow admits a follower and runs f for it. Once the first byte is out,
// errors travel as the last line. Who does not read for a while is cut: it
// holds up nobody else, and may come back and go on where it was.
func (fs *followers) follow(w http.ResponseWriter, r *http.Request, f func(ctx context.Context, out *follower) error) error {
	return fs.stream(fs.places, w, r, f)
}

// stream is follow for one of places.
func (fs *followers) stream(places *door.Places, w http.ResponseWriter, r *http.Request, f func(ctx context.Context, out *follower) error) error {
	leave, prob := places.Enter(door.Of(r.Context()))
	if prob != nil {
		return prob
	}
	defer leave()
	fs.metrics.followers.Inc()
	defer fs.metrics.followers.Dec()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	out := &follower{w: w, rc: http.NewResponseController(w), path: r.URL.Path, stall: fs.stall, last: time.Now(), flushed: time.Now()}
	w.Header().Set("Content-Type", "application/x-ndjson")
	if out.sse = wantsSSE(r); out.sse {
		w.Header().Set("Content-Type", sseType)
	}
	w.Header().Set("Cache-Control", "no-store")
	err := f(ctx, out)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		fs.metrics.cut.WithLabelValues(cutSlow).Inc()
		fs.log.Info().Str("request", out.path).Str("peer", door.Of(r.Context()).Actor()).
			Float64("dur_seconds", fs.stall.Seconds()).Msg("follower cut: it did not read for too long")
		return nil
	case ended(r.Context()) != nil:
		err = ended(r.Context())
	case r.Context().Err() != nil:
		return nil // the reader went away
	case errors.Is(err, errStopping):
		fs.metrics.cut.WithLabelValues(cutStop).Inc()
	}
	if !out.begun {
		return err
	}
	p := asProblem(err)
	p.Header = fs.header()
	_ = out.line(api.StreamProblem{Problem: p}) // the reader may be gone
	return nil
}

// ended is why a reader may see no more; nil: it may, or it went away.
func ended(ctx context.Context) error {
	if p, ok := errors.AsType[*api.Problem](context.Cause(ctx)); ok {
		return p
	}
	return nil
}

var errStopping = api.Errorf(api.CodeNotReady, "the daemon stops")

// line writes one line, or an empty one for nil, and flushes it.
func (f *follower) line(v any) error {
	if err := f.write(v); err != nil {
		return err
	}
	return f.flush()
}

// write writes one line.
func (f *follower) write(v any) error {
	var text []byte
	if v != nil {
		var err error
		if text, err = json.Marshal(v); err != nil {
			return err
		}
	}
	switch {
	case !f.sse:
		text = append(text, '\n')
	case v == nil:
		text = []byte(sseComment)
	default:
		text = appendSSE(nil, f.id, sseName(v), text)
		f.id = ""
	}
	return f.send(text)
}

// send writes lines, each piece of which the reader must take in time.
func (f *follower) send(text []byte) error {
	const piece = 128 << 10
	f.begun = true
	for len(text) > 0 {
		f.last = time.Now()
		_ = f.rc.SetWriteDeadline(f.last.Add(f.stall)) // not possible on a test recorder
		n := min(len(text), piece)
		if _, err := f.w.Write(text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// flush sends what was written.
func (f *follower) flush() error {
	f.flushed = time.Now()
	_ = f.rc.SetWriteDeadline(f.flushed.Add(f.stall)) // not possible on a test recorder
	return f.rc.Flush()
}

// wait returns after changed or also, which may be nil, is closed, but not
// before least and not after most. It reports whether something changed.
func (fs *followers) wait(ctx context.Context, changed, also <-chan struct{}, least, most time.Duration) (bool, error) {
	began := time.Now()
	timer := time.NewTimer(most)
	defer timer.Stop()
	did := false
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-fs.stopping:
			return false, errStopping
		case <-timer.C:
			return did, nil
		case <-changed:
		case <-also:
		}
		rest := least - time.Since(began)
		if rest <= 0 {
			return true, nil
		}
		did, changed, also = true, nil, nil
		timer.Reset(rest)
	}
}

// watchJob sends snapshots of a job until it is final.
func (hs *handlers) watchJob(w http.ResponseWriter, r *http.Request) error {
	id, err := hs.jobID(r)
	if err != nil {
		return err
	}
	if _, err := hs.backend.Job(r.Context(), id); err != nil {
		return err
	}
	return hs.followers.follow(w, r, func(ctx context.Context, out *follower) error {
		watch := hs.backend.WatchJob(id)
		defer watch.Close()
		for {
			changed, also := hs.backend.Changed(), watch.Changed() // before the look, so that nothing is missed
			job, err := watch.Job(ctx)
			if err != nil {
				return err
			}
			if err := out.line(api.Complete(job, hs.backend.Header())); err != nil || job.State.Final() {
				return err
			}
			if _, err := hs.followers.wait(ctx, changed, also, watchMin, watchMax); err != nil {
				return err
			}
		}
	})
}
