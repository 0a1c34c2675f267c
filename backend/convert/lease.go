package convert

import (
	"slices"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/state"
)

// LeaseConfig converts a configuration of voters.
func LeaseConfig(c cluster.VoterConfig) api.LeaseConfig {
	return api.LeaseConfig{Epoch: c.Epoch, Term: c.Term, Voters: append([]cluster.NodeID{}, c.Voters...), Mode: c.Mode}
}

// formerlyExpired is what holders wrote whose skein is older.
const formerlyExpired = "lease expired"

// Terms converts the history of the lease, the lowest term first, to the form that
// begins with the newest.
func Terms(terms []state.Term) []api.TermRecord {
	out := make([]api.TermRecord, 0, len(terms))
	var fence cluster.HLC // when the lowest higher term began that waited for the end of all before; 0: none did
	for i, t := range slices.Backward(terms) {
		r := api.TermRecord{
			Term: t.Term, Holder: t.Holder, StartedAt: t.Started.Time(), Cause: t.Reason, Successor: t.Successor,
			Previous: t.Previous, Grants: append([]cluster.NodeID{}, t.Grants...), Voters: append([]cluster.NodeID{}, t.Voters...),
		}
		if t.Released == 0 && i+1 < len(terms) || t.Reason == formerlyExpired { // without a reason its holder said nothing: it died
			r.Cause = api.CauseExpired
		}
		fenced := fence > t.Started
		switch {
		case t.Released != 0 && (!fenced || t.Released <= fence):
			r.EndedAt = new(t.Released.Time())
		case t.Released != 0:
			r.EndedAt, r.ToldAt = new(fence.Time()), new(t.Released.Time())
		case fenced:
			r.EndedAt = new(fence.Time())
		}
		if (t.Released == 0 || r.ToldAt != nil) && r.Successor == "" && i+1 < len(terms) {
			r.Successor = terms[i+1].Holder
		}
		if !t.Split {
			fence = t.Started
		}
		out = append(out, r)
	}
	return out
}
