package forward

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// Bounds of the streams that this host sends.
const (
	maxStreams     = 256 // of all members
	maxPeerStreams = 16  // of one member
	// maxAlive is how many empty lines an asker may send at once, beside one per
	// second.
	maxAlive = 16
)

// openStreams counts the streams that are sent. The zero value is ready.
type openStreams struct {
	mu    sync.Mutex
	count map[cluster.NodeID]int
	total int
}

// enter counts one more stream to a member, unless there are too many.
func (o *openStreams) enter(to cluster.NodeID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.total >= maxStreams || o.count[to] >= maxPeerStreams {
		return false
	}
	if o.count == nil {
		o.count = map[cluster.NodeID]int{}
	}
	o.count[to]++
	o.total++
	return true
}

func (o *openStreams) leave(to cluster.NodeID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.total--
	if o.count[to]--; o.count[to] == 0 {
		delete(o.count, to)
	}
}

// serveStream sends frames to a member until the operation ends or the member
// closes the stream.
func (r *Router) serveStream(ctx context.Context, e *entry, a Asker, body json.RawMessage, conn net.Conn) {
	w := newLineWriter(conn)
	if !r.open.enter(a.From) {
		r.m.refused.Inc()
		r.end(w, a, e.info, api.Errorf(api.CodeOverloaded, "too many streams are open on %s: at most %d to one member, %d in all", r.o.Self, maxPeerStreams, maxStreams))
		return
	}
	defer r.open.leave(a.From)
	r.m.streams.Inc()
	defer r.m.streams.Dec()
	parent := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	var helpers sync.WaitGroup
	helpers.Go(func() { cancel(hear(ctx, conn)) })
	helpers.Go(func() { cancel(r.pulse(ctx, e.info, w)) })
	err := e.stream(ctx, a, body, w.frame)
	switch {
	case parent.Err() != nil:
		err = api.Errorf(api.CodeNotReady, "%s stops", r.o.Self)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	r.end(w, a, e.info, err)
	cancel(nil)
	_ = conn.SetReadDeadline(time.Unix(1, 0)) // ends hear
	helpers.Wait()
}

// end writes the last line of a stream that ended with err.
func (r *Router) end(w *lineWriter, a Asker, op Info, err error) {
	reason := ""
	switch {
	case err == nil:
		_ = w.line([]byte(`{"end":true}`)) // the asker may be gone
		return
	case errors.Is(err, errGone):
		return
	case errors.Is(err, errSlow):
		reason = cutSlow
	case errors.Is(err, errSilent):
		reason = cutSilent
	case errors.Is(err, errProtocol):
		reason = cutProtocol
	}
	if reason != "" {
		r.m.cut.WithLabelValues(reason).Inc()
		r.o.Logger.Info().Err(err).Str("peer", string(a.From)).Str("operation", op.Name).Msg("stream to another host cut")
		err = api.Errorf(api.CodeTimeout, "%s was cut: %v", a.From, err)
	}
	text, err := json.Marshal(line{failure: failureOf(err, r.o.Problem)})
	if err != nil {
		panic("forward: encode problem: " + err.Error()) // strings and numbers always encode
	}
	_ = w.line(text) // as above
}

// hear reads the empty lines of the asker and returns why the stream must end:
// errGone when ctx ended or the asker closed it.
func hear(ctx context.Context, conn net.Conn) error {
	var buf [64]byte
	began, heard := time.Now(), 0
	for {
		_ = conn.SetReadDeadline(time.Now().Add(silence)) // a stream always has deadlines
		if ctx.Err() != nil {
			return errGone // checked last: whoever ends ctx then sets a deadline in the past
		}
		n, err := conn.Read(buf[:])
		for _, c := range buf[:n] {
			if c != '\n' {
				return errProtocol
			}
		}
		if heard += n; heard > maxAlive+int(time.Since(began)/time.Second) {
			return errProtocol
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil:
			return errSilent
		case err != nil:
			return errGone
		}
	}
}

// pulse sends empty lines and returns why the stream must end: the asker does
// not read, or this host no longer holds the lease.
func (r *Router) pulse(ctx context.Context, op Info, w *lineWriter) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if op.At == Holder && !r.o.Lease().Holding {
			return api.Errorf(api.CodeNoHolder, "%s no longer holds the lease", r.o.Self)
		}
		if err := w.alive(); err != nil {
			return err
		}
	}
}

// FollowHolder asks the current holder for a stream and passes each frame to f,
// until the stream ends, f returns an error, or ctx ends. When the lease moves it
// returns, and the caller may ask again. The error is that of f or a
// *api.Problem.
func FollowHolder[Req, Frame any](
	ctx context.Context, r *Router, s *Stream[Req, Frame], actor string, req Req, f func(Frame) error,
) error {
	holder := r.o.Lease().Holder
	if holder == "" {
		return noHolder()
	}
	return FollowHost(ctx, r, s, holder, actor, req, f)
}

// FollowHost does the same with one member, which may be this host.
func FollowHost[Req, Frame any](
	ctx context.Context, r *Router, s *Stream[Req, Frame], to cluster.NodeID, actor string, req Req, f func(Frame) error,
) error {
	info := s.info()
	if to == r.o.Self {
		do, a, err := local[func(context.Context, Asker, Req, func(Frame) error) error](r, info.Name, actor)
		if err != nil {
			return r.problem(err)
		}
		return followHere(ctx, r, func(send func(Frame) error) error { return do(ctx, a, req, send) }, f)
	}
	c, err := r.send(ctx, info, to, actor, req)
	if err != nil {
		return unreached(to, err)
	}
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer c.release()
	ended := make(chan struct{})
	defer close(ended)
	helpers.Go(func() { sayAlive(c.conn, ended) })
	lines := newLineReader(c.conn)
	first := true
	for {
		x, err := lines.next(c.wait)
		switch {
		case err != nil:
			return unreached(to, c.why(err))
		case x.Problem != nil:
			if first {
				return r.knownTo(to, info, x.failure).Problem
			}
			return x.Problem
		case x.End:
			return nil
		case x.Frame == nil:
			continue // something newer
		}
		first = false
		frame, err := unmarshal[Frame](x.Frame)
		if err != nil {
			return unreached(to, err)
		}
		if err := f(frame); err != nil {
			return err
		}
		if err := c.wait(); err != nil {
			return unreached(to, c.why(err))
		}
	}
}

// followHere runs a handler of this host. Errors of f are returned as they are.
func followHere[Frame any](ctx context.Context, r *Router, do func(func(Frame) error) error, f func(Frame) error) error {
	var stopped error
	err := do(func(x Frame) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		stopped = f(x)
		return stopped
	})
	switch {
	case stopped != nil:
		return stopped
	case err != nil:
		return r.problem(err)
	}
	return nil
}

// sayAlive shows the sending host that somebody still reads, until ended is
// closed.
func sayAlive(conn net.Conn, ended <-chan struct{}) {
	tick := time.NewTicker(keepalive)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		_ = conn.SetWriteDeadline(time.Now().Add(stall)) // a stream always has deadlines
		if _, err := conn.Write([]byte{'\n'}); err != nil {
			return // the reader sees it too
		}
	}
}

// unreached is the problem of a host that did not answer completely.
func unreached(to cluster.NodeID, err error) *api.Problem {
	if errors.Is(err, io.EOF) {
		err = errors.New("it ended in the middle of the answer")
	}
	return api.Errorf(api.CodeNotReady, "%s not reached: %v", to, err).WithHint("see `skein mesh`")
}
