package stream

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/status/door"
)

// Why a reader was cut, the label reason.
const (
	CutSlow = "slow"
	CutStop = "stop"
)

// Options are of a Pool.
type Options struct {
	Header  func() api.Header
	Problem func(error) *api.Problem // what a reader is told of an error, a copy
	Log     zerolog.Logger
	Open    prometheus.Gauge       // readers that are there
	Cut     *prometheus.CounterVec // those that were cut, by reason
	Stall   time.Duration          // what a reader may take for a line
}

// Pool serves the answers that are streams.
type Pool struct {
	Options
	stopping chan struct{} // closed when they must end
}

// New returns a Pool.
func New(o Options) *Pool { return &Pool{Options: o, stopping: make(chan struct{})} }

// Stop ends all streams. It is called once.
func (p *Pool) Stop() { close(p.stopping) }

// Stopping is closed by Stop.
func (p *Pool) Stopping() <-chan struct{} { return p.stopping }

// Writer writes lines to one reader.
type Writer struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	path  string
	stall time.Duration // what the reader may take for a line
	begun bool          // a line was written

	SSE bool   // lines are events of text/event-stream
	ID  string // of the next of these; empty: none
	// When the last line was written, and when lines were last sent.
	Last, Flushed time.Time
}

// Serve admits a reader to one of places and runs f for it. Once the first byte is out,
// errors travel as the last line. Who does not read for a while is cut: it holds up
// nobody else, and may come back and go on where it was.
func (p *Pool) Serve(places *door.Places, w http.ResponseWriter, r *http.Request, f func(ctx context.Context, out *Writer) error) error {
	leave, prob := places.Enter(door.Of(r.Context()))
	if prob != nil {
		return prob
	}
	defer leave()
	p.Open.Inc()
	defer p.Open.Dec()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	out := &Writer{w: w, rc: http.NewResponseController(w), path: r.URL.Path, stall: p.Stall, Last: time.Now(), Flushed: time.Now()}
	w.Header().Set("Content-Type", "application/x-ndjson")
	if out.SSE = WantsSSE(r); out.SSE {
		w.Header().Set("Content-Type", SSEType)
	}
	w.Header().Set("Cache-Control", "no-store")
	err := f(ctx, out)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		p.Cut.WithLabelValues(CutSlow).Inc()
		p.Log.Info().Str("request", out.path).Str("peer", door.Of(r.Context()).Actor()).
			Float64("dur_seconds", p.Stall.Seconds()).Msg("follower cut: it did not read for too long")
		return nil
	case Ended(r.Context()) != nil:
		err = Ended(r.Context())
	case r.Context().Err() != nil:
		return nil // the reader went away
	case errors.Is(err, ErrStopping):
		p.Cut.WithLabelValues(CutStop).Inc()
	}
	if !out.begun {
		return err
	}
	told := p.Problem(err)
	told.Header = p.Header()
	_ = out.Line(api.StreamProblem{Problem: told}) // the reader may be gone
	return nil
}

// Ended is why a reader may see no more; nil: it may, or it went away.
func Ended(ctx context.Context) error {
	if p, ok := errors.AsType[*api.Problem](context.Cause(ctx)); ok {
		return p
	}
	return nil
}

// ErrStopping ends streams when the daemon stops.
var ErrStopping = api.Errorf(api.CodeNotReady, "the daemon stops")

// Line writes one line, or an empty one for nil, and flushes it.
func (f *Writer) Line(v any) error {
	if err := f.Write(v); err != nil {
		return err
	}
	return f.Flush()
}

// Write writes one line; Flush sends it.
func (f *Writer) Write(v any) error {
	var text []byte
	if v != nil {
		var err error
		if text, err = json.Marshal(v); err != nil {
			return err
		}
	}
	switch {
	case !f.SSE:
		text = append(text, '\n')
	case v == nil:
		text = []byte(SSEComment)
	default:
		text = appendSSE(nil, f.ID, sseName(v), text)
		f.ID = ""
	}
	return f.Send(text)
}

// Send writes lines, each piece of which the reader must take in time.
func (f *Writer) Send(text []byte) error {
	const piece = 128 << 10
	f.begun = true
	for len(text) > 0 {
		f.Last = time.Now()
		_ = f.rc.SetWriteDeadline(f.Last.Add(f.stall)) // not possible on a test recorder
		n := min(len(text), piece)
		if _, err := f.w.Write(text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// Flush sends what was written.
func (f *Writer) Flush() error {
	f.Flushed = time.Now()
	_ = f.rc.SetWriteDeadline(f.Flushed.Add(f.stall)) // not possible on a test recorder
	return f.rc.Flush()
}

// Wait returns after changed or also, which may be nil, is closed, but not
// before least and not after most. It reports whether something changed.
func (p *Pool) Wait(ctx context.Context, changed, also <-chan struct{}, least, most time.Duration) (bool, error) {
	began := time.Now()
	timer := time.NewTimer(most)
	defer timer.Stop()
	did := false
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-p.stopping:
			return false, ErrStopping
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
