package worker

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/stream"
)

// Deadlines of a holder's stream.
const (
	helloTimeout = 10 * time.Second
	writeTimeout = 10 * time.Second
	// idleTimeout ends a stream on which the holder said nothing. It learns by
	// the end of the stream and opens another.
	idleTimeout = 5 * time.Minute
)

// Serve speaks with the holder from over conn until the stream ends, then
// closes conn. It is the handler of protocol stream.Proto; from has been
// authenticated.
func (w *Worker) Serve(ctx context.Context, from cluster.NodeID, conn net.Conn) {
	defer conn.Close()
	if !w.enter(from) {
		w.m.refused.WithLabelValues("connections").Inc()
		return
	}
	defer w.leave(from)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.Close() })()

	_ = conn.SetDeadline(time.Now().Add(helloTimeout)) // a conn without deadlines still has ctx
	in := stream.NewDecoder(conn)
	f, err := in.Read()
	if err != nil || f.Hello == nil {
		w.m.frameErrors.Inc()
		w.log.Debug().Err(err).Str("peer", string(from)).Msg("stream without hello")
		return
	}
	s := &session{from: from, term: f.Hello.Term, out: make(chan stream.Frame, 16), end: cancel}
	if refused := w.open(ctx, s, f.Hello.Holder); refused != nil {
		w.log.Debug().Str("peer", string(from)).Uint64("term", uint64(s.term)).Str("reason", refused.Reason).Msg("holder refused")
		_ = stream.Write(conn, stream.Frame{Refused: refused}) // it may have gone
		return
	}
	_ = conn.SetDeadline(time.Time{})

	wrote := make(chan struct{}) // closed when the writer ended
	go func() {
		defer close(wrote)
		defer cancel()
		w.write(ctx, s, conn)
	}()
	w.read(ctx, s, conn, in)
	cancel()
	<-wrote
	select {
	case w.detach <- s:
	case <-w.done:
	}
}

// maxConnections is how many streams one host may have at a time: one that is
// served, and those that replace it.
const maxConnections = 4

func (w *Worker) enter(from cluster.NodeID) bool {
	w.serving.mu.Lock()
	defer w.serving.mu.Unlock()
	if w.serving.open[from] >= maxConnections {
		return false
	}
	w.serving.open[from]++
	return true
}

func (w *Worker) leave(from cluster.NodeID) {
	w.serving.mu.Lock()
	defer w.serving.mu.Unlock()
	if w.serving.open[from]--; w.serving.open[from] == 0 {
		delete(w.serving.open, from)
	}
}

// open asks the loop for the stream; nil: accepted.
func (w *Worker) open(ctx context.Context, s *session, holder cluster.NodeID) *stream.Refused {
	if holder != s.from {
		w.m.refused.WithLabelValues("other_holder").Inc()
		return &stream.Refused{Reason: "hello names another host than the one that speaks"}
	}
	if err := w.opts.CheckHolder(s.from, s.term); err != nil {
		w.m.refused.WithLabelValues("not_holder").Inc()
		return &stream.Refused{MaxTerm: w.opts.MinTerm(), Reason: job.ReasonOf(err)}
	}
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	a := attachment{sess: s, answer: make(chan *stream.Refused, 1)}
	select {
	case w.attach <- a:
		return <-a.answer
	case <-w.done:
		return &stream.Refused{Reason: "worker stops"}
	case <-ctx.Done():
		return &stream.Refused{Reason: "worker is not running"}
	}
}

func (w *Worker) read(ctx context.Context, s *session, conn net.Conn, in *stream.Decoder) {
	for {
		_ = conn.SetReadDeadline(time.Now().Add(idleTimeout)) // ctx closes it at the latest
		f, err := in.Read()
		if err != nil {
			if errors.Is(err, stream.ErrFrame) {
				w.m.frameErrors.Inc()
				w.log.Warn().Err(err).Str("peer", string(s.from)).Msg("invalid frame, stream ended")
			} else if !errors.Is(err, io.EOF) && ctx.Err() == nil {
				w.log.Debug().Err(err).Str("peer", string(s.from)).Msg("stream lost")
			}
			return
		}
		select {
		case w.inbox <- inbound{sess: s, frame: f}:
		case <-ctx.Done():
			return
		case <-w.done:
			return
		}
	}
}

// write sends what the loop hands over; a Refused is the last frame.
func (w *Worker) write(ctx context.Context, s *session, conn net.Conn) {
	var enc stream.Encoder
	var buf []byte
	for {
		select {
		case f := <-s.out:
			var err error
			if buf, err = enc.Append(buf[:0], f); err != nil {
				return
			}
			_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout)) // ctx closes it at the latest
			if _, err := conn.Write(buf); err != nil || f.Refused != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// needs lists what jobs may ask for here, see job.Spec.Needs.
func (w *Worker) needs() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(w.opts.Executors)) {
		if several, ok := w.opts.Executors[name].(interface{ Needs() []string }); ok {
			out = append(out, several.Needs()...)
			continue
		}
		out = append(out, name)
	}
	return out
}

// serving counts the open connections of holders.
type serving struct {
	mu   sync.Mutex
	open map[cluster.NodeID]int
}
