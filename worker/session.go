package worker

import (
	"context"
	"fmt"
	"reflect"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/stream"
	"github.com/skein-project/skein/worker/outbox"
)

// maxReplies bounds the answers that wait for a holder which does not read.
const maxReplies = 1024

// idleStatus is how many periods of Status pass between those that say once more
// that there is nothing to do.
const idleStatus = 3

// session is one holder's stream. Except for out and end it belongs to the
// worker's loop. A nil session has nothing to send.
type session struct {
	from cluster.NodeID
	term cluster.Term
	out  chan stream.Frame  // capacity 16; when full the loop keeps the frames back; never closed
	end  context.CancelFunc // ends Serve, which closes the connection

	replies []stream.Frame // Welcome, Pong, Assigned, Stopped: in order, before results
	latest  *stream.Status // not yet sent
	told    *stream.Status // the last, sent or not
	alike   int            // how many were like told and not sent
	unsent  []job.Attempt  // results in the outbox, in order
	offered int            // where the frame that next returned came from
}

// Values of session.offered.
const (
	fromReplies = iota
	fromStatus
	fromUnsent
)

type attachment struct {
	sess   *session
	answer chan *stream.Refused // capacity 1; nil: accepted
}

type inbound struct {
	sess  *session
	frame stream.Frame
}

func (s *session) reply(f stream.Frame) bool {
	if len(s.replies) >= maxReplies {
		return false
	}
	s.replies = append(s.replies, f)
	return true
}

// status replaces a status that was not sent yet. One of a worker that has nothing
// to do goes out when it says something new, or that the worker is still there.
func (s *session) status(st stream.Status) {
	if s == nil {
		return
	}
	if idle := len(st.Running) == 0 && st.Queued == 0; idle && s.told != nil && s.alike < idleStatus-1 && reflect.DeepEqual(st, *s.told) {
		s.alike++
		return
	}
	s.latest, s.told, s.alike = &st, &st, 0
}

// announce queues the result of ref for sending.
func (s *session) announce(ref job.Attempt) {
	if s != nil {
		s.unsent = append(s.unsent, ref)
	}
}

// next returns what to send now, without taking it.
func (s *session) next(o *outbox.Outbox) (stream.Frame, bool) {
	if s == nil {
		return stream.Frame{}, false
	}
	if len(s.replies) > 0 {
		s.offered = fromReplies
		return s.replies[0], true
	}
	if s.latest != nil {
		s.offered = fromStatus
		return stream.Frame{Status: s.latest}, true
	}
	for len(s.unsent) > 0 {
		if res, ok := o.Get(s.unsent[0]); ok {
			s.offered = fromUnsent
			return stream.Frame{Result: &res}, true
		}
		s.unsent = s.unsent[1:] // its fate became known meanwhile
	}
	return stream.Frame{}, false
}

// sent takes what next returned.
func (s *session) sent() {
	switch s.offered {
	case fromReplies:
		s.replies = s.replies[1:]
	case fromStatus:
		s.latest = nil
	case fromUnsent:
		s.unsent = s.unsent[1:]
	}
}

// pending reports that frames wait.
func (s *session) pending(o *outbox.Outbox) bool {
	_, ok := s.next(o)
	return ok
}

// refuse ends s; the holder is told why if it still reads.
func (s *session) refuse(r stream.Refused) {
	select {
	case s.out <- stream.Frame{Refused: &r}: // the writer ends the stream after it
	default:
		s.end()
	}
}

func (l *loop) closeSession(why string) {
	if l.sess != nil {
		l.sess.refuse(stream.Refused{MaxTerm: l.term, Reason: why})
		l.sess = nil
	}
}

// onAttach decides about a new stream; nil accepts it.
func (l *loop) onAttach(s *session) *stream.Refused {
	refused := func(label, format string, args ...any) *stream.Refused {
		l.m.refused.WithLabelValues(label).Inc()
		return &stream.Refused{MaxTerm: max(l.term, l.opts.MinTerm()), Reason: fmt.Sprintf(format, args...)}
	}
	switch known := max(l.term, l.opts.MinTerm()); {
	case l.stopping:
		return refused("stopping", "worker stops")
	case s.term < known:
		return refused("stale_term", "term %d is over, term %d is known", s.term, known)
	case s.term == l.term && s.from != l.holder:
		return refused("other_holder", "term %d belongs to %s", s.term, l.holder)
	}
	l.closeSession("replaced by a newer stream")
	l.term, l.holder, l.sess = s.term, s.from, s
	l.heard = l.opts.Now()
	assigned, accept := l.assigned(), l.accept
	s.reply(stream.Frame{Welcome: &stream.Welcome{
		Slots: l.opts.Slots, Executors: l.needs(), Assigned: assigned, Room: min(l.room(), stream.MaxRefs), Draining: l.drained,
		MemoryBytes: l.opts.MemoryBytes, Accept: &accept, Crew: l.opts.Crew != nil && l.opts.Crew(s.from), Features: l.features(),
	}})
	s.unsent = l.outbox.Refs()
	l.m.streams.Inc()
	l.log.Info().Str("peer", string(s.from)).Uint64("term", uint64(s.term)).Int("assigned", len(assigned)).
		Int("kept", len(s.unsent)).Msg("serving a holder")
	return nil
}

// features are what this worker knows beyond what all do.
func (l *loop) features() (out []string) {
	if l.opts.OutputRoom != nil {
		out = append(out, stream.FeatureFiles)
	}
	return out
}

// onFrame handles a frame of the open session.
func (l *loop) onFrame(f stream.Frame) {
	s := l.sess
	l.heard = l.opts.Now()
	if known := l.opts.MinTerm(); known > s.term {
		l.m.refused.WithLabelValues("stale_term").Inc()
		s.refuse(stream.Refused{MaxTerm: known, Reason: fmt.Sprintf("term %d is over, term %d is known", s.term, known)})
		l.sess = nil
		return
	}
	var ok bool
	switch {
	case f.Assign != nil:
		ok = f.Assign.Term == s.term && l.assign(*f.Assign)
	case f.Cancel != nil:
		if ok = f.Cancel.Term == s.term; ok {
			l.cancel(*f.Cancel)
		}
	case f.Accepted != nil:
		if ok = f.Accepted.Term == s.term; ok {
			_, err := l.outbox.Drop(f.Accepted.Refs...)
			l.journal(err)
		}
	case f.Query != nil:
		if ok = f.Query.Term == s.term; ok {
			ok = s.reply(l.have(f.Query.Nonce))
		}
	case f.Ping != nil:
		ok = s.reply(stream.Frame{Pong: &stream.Ping{Term: s.term, Nonce: f.Ping.Nonce}})
	}
	if !ok && l.sess == s {
		l.m.refused.WithLabelValues("protocol").Inc()
		l.log.Warn().Str("peer", string(s.from)).Uint64("term", uint64(s.term)).Msg("holder broke the protocol, stream ended")
		l.closeSession("frame out of place")
	}
}
