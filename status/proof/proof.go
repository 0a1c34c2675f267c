package proof

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/status/door"
)

// Log is what has proofs.
type Log interface {
	// Proof has the events of a chain from one on, as they were written, and what proves
	// them. One that is not there is refused with code not_found, or compacted where it
	// is no longer kept.
	Proof(ctx context.Context, src event.SourceID, seq uint64) (api.EventProof, error)
}

// Of answers GET /v1/events/{node}/{inc}/{seq}. Own tells which events are a user's, for
// those who see no others.
func Of(log Log, own func(who string) func(event.Event) bool) func(*http.Request) (api.EventProof, error) {
	return func(r *http.Request) (api.EventProof, error) {
		src, seq, err := asked(r)
		if err != nil {
			return api.EventProof{}, err
		}
		out, err := log.Proof(r.Context(), src, seq)
		if who := door.Of(r.Context()).Only; who != "" && err == nil {
			return keep(out, own(who))
		}
		return out, err
	}
}

// keep leaves of a proof the events up to the first one that is another's.
func keep(out api.EventProof, own func(event.Event) bool) (api.EventProof, error) {
	foreign := slices.IndexFunc(out.Events, func(e api.RawEvent) bool {
		d, err := record.DecodeEvent(e.Raw)
		return err != nil || !own(d)
	})
	switch {
	case foreign == 0:
		return api.EventProof{}, api.Errorf(api.CodeNotFound, "no event %d of %s that is about you", out.Events[0].Seq, out.Events[0].Source)
	case foreign > 0:
		out.Events, out.Withheld = out.Events[:foreign], true
	}
	return out, nil
}

// asked reads which event a path names.
func asked(r *http.Request) (src event.SourceID, seq uint64, err error) {
	if src.Node, err = cluster.ParseNodeID(r.PathValue("node")); err != nil {
		return src, 0, api.Errorf(api.CodeInvalidRequest, "node: %s", err)
	}
	for name, into := range map[string]*uint64{"inc": &src.Inc, "seq": &seq} {
		text := r.PathValue(name)
		if *into, err = strconv.ParseUint(text, 10, 64); err != nil || *into == 0 {
			return src, 0, api.Errorf(api.CodeInvalidRequest, "%s: %.32q is not a number from 1 on", name, text)
		}
	}
	return src, seq, nil
}
