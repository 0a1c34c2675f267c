package backend

import (
	"context"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/forward"
)

// positionLog is where a log is.
type positionLog interface {
	View(func(*state.State))
	Heads() []event.Head
}

// authority says whether this host may use a term now.
type authority interface {
	MayAct(term cluster.Term) bool
}

// positions says where in the log this host and the holder are.
type positions struct {
	self   cluster.NodeID
	view   func() *coord.View
	log    positionLog
	coord  authority
	remote *forward.Router
}

// Cursor implements status.Positions.
func (p *positions) Cursor() api.Cursor {
	at := api.Cursor{}
	for _, h := range p.log.Heads() {
		at.Advance(h.Source, h.Seq)
	}
	return at
}

// Has implements status.Positions.
func (p *positions) Has(at api.Cursor) (has bool) {
	p.log.View(func(s *state.State) { has = s.Covers(at) })
	return has
}

// Agreed implements status.Positions. The holder reads where its log is, and then
// makes sure that it may still act: whatever was acknowledged before the question
// stands before that, since nobody else could acknowledge anything.
func (p *positions) Agreed(ctx context.Context) (api.Cursor, error) {
	out, err := forward.AskHolder(ctx, p.remote, forward.Position, "", forward.None{})
	if err != nil {
		return nil, err
	}
	return event.ParseCursor(out.Cursor)
}

// positionHere is that of a host that holds.
func (p *positions) positionHere(context.Context, forward.Asker, forward.None) (forward.LogPosition, error) {
	l := p.view().Lease
	if l.Config.Split() {
		return forward.LogPosition{}, api.Errorf(api.CodeConflict, "hosts that do not hear each other may each hold, so none knows all that was acknowledged").
			WithHint("read without consistency=strong, or see `skein lease voters` for the mode quorum")
	}
	if l.Holder != p.self || !l.Ready {
		return forward.LogPosition{}, api.Errorf(api.CodeNoHolder, "%s does not hold the lease", p.self)
	}
	at := p.Cursor()
	if !p.coord.MayAct(l.Term) {
		return forward.LogPosition{}, api.Errorf(api.CodeNoHolder, "%s held term %d and does no longer", p.self, l.Term)
	}
	return forward.LogPosition{Cursor: at.String()}, nil
}
