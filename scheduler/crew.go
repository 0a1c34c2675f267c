package scheduler

import (
	"context"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler/link"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/seats"
	"github.com/skein-project/skein/scheduler/stream"
)

// enrolled says what a log knows of an outside worker.
func enrolled(log Log) func(cluster.NodeID) (seats.Enrolled, bool) {
	return func(n cluster.NodeID) (out seats.Enrolled, ok bool) {
		log.View(func(st *state.State) {
			w, known := st.Outside().Worker(n)
			out = seats.Enrolled{Owner: w.Owner, Zone: w.Zone, Trusted: w.Trusted, Revoked: st.Outside().Revoked(n) || st.Barred(w.Owner)}
			ok = known || out.Revoked
		})
		return out, ok
	}
}

// reviewOf holds all outside workers of an owner against the log.
func (ls *links) reviewOf(owner string) {
	for n := range ls.seats.All() {
		if is, _ := enrolled(ls.o.Log)(n); is.Owner == owner {
			ls.review = append(ls.review, n)
		}
	}
}

// followCrew opens the stream to a host's outside workers, or ends it, as the host's
// welcome says.
func (ls *links) followCrew(ctx context.Context, h *host, tell func(step.Event)) {
	switch n := h.sess.Node; {
	case !h.sess.Begin.Crew || ls.o.DialCrew == nil:
		ls.endCrew(h, n, tell)
	case h.crew == nil:
		h.crew = ls.open(ctx, n, true)
	}
}

// endCrew ends the stream to a host's outside workers.
func (ls *links) endCrew(h *host, n cluster.NodeID, tell func(step.Event)) {
	if h.crew != nil {
		h.crew.Stop()
		h.crew, h.crewSess = nil, nil
		ls.seats.Lost(n, tell)
	}
}

// drop tells hosts whom to detach.
func (ls *links) drop(list []seats.Drop) {
	for _, d := range list {
		ls.m.crewDrops.WithLabelValues(string(d.Reason)).Inc()
		if h := ls.byNode[d.From]; h != nil && h.crewSess != nil {
			h.crewSess.Send(stream.Frame{Worker: d.Worker, Drop: &stream.Drop{Term: ls.term, Session: d.Session, Reason: d.Reason}})
		}
	}
}

// putOff keeps an event for the plan until what it decided is carried out.
func (ls *links) putOff(e step.Event) { ls.later = append(ls.later, e) }

// tellLater tells the plan what was put off, and holds against the log of whom it says
// something else.
func (ls *links) tellLater(tell func(step.Event)) {
	later, review := ls.later, ls.review
	ls.later, ls.review = nil, nil
	for _, e := range later {
		tell(e)
	}
	for _, n := range review {
		ls.drop(ls.seats.Review(n, tell))
	}
}

// hear handles what a host tells of its outside workers, and reports that e is what one
// of them says. What comes from a stream that was replaced is void, as is what a host
// says of a worker that it does not carry.
func (ls *links) hear(h *host, e link.Event, tell func(step.Event)) bool {
	at, now := e.Sess.Node, ls.o.Now()
	switch {
	case h.crew == nil:
	case e.Up:
		if h.crewSess != nil {
			ls.seats.Lost(at, tell)
		}
		h.crewSess = e.Sess
		ls.log.Debug().Str("peer", string(at)).Msg("stream to outside workers opened")
	case h.crewSess != e.Sess:
	case e.Down != nil:
		h.crewSess = nil
		ls.seats.Lost(at, tell)
	case e.Join != nil:
		ls.drop(ls.seats.Join(at, e.Worker, *e.Join, now, tell))
	case e.Part != nil:
		ls.seats.Part(at, e.Worker, *e.Part, tell)
	default:
		return ls.seats.Hear(at, e.Worker, now, tell)
	}
	return false
}

// expel has an outside worker detached for what it did.
func (ls *links) expel(a step.Offence) {
	why := stream.DropOffence
	if a.Flood {
		why = stream.DropFlood
	}
	ls.drop(ls.seats.Expel(a.Worker, why, ls.putOff))
}
