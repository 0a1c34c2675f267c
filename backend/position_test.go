package backend

import (
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/forward"
)

// heldLog notes when it is read, and heldLease whether that was before the check.
type heldLog struct{ read bool }

func (l *heldLog) View(f func(*state.State)) { f(state.New()) }

func (l *heldLog) Heads() []event.Head {
	l.read = true
	return []event.Head{{Source: event.SourceID{Node: "n1", Inc: 2}, Seq: 7}}
}

type heldLease struct {
	log   *heldLog
	may   cluster.Term
	early bool
}

func (h *heldLease) MayAct(term cluster.Term) bool {
	h.early = h.early || !h.log.read
	return term == h.may
}

// TestPositionOfHolder: the holder reads first and then makes sure that it may act,
// and nobody answers where each side of a cut may hold.
func TestPositionOfHolder(t *testing.T) {
	for name, c := range map[string]struct {
		holder cluster.NodeID
		mode   cluster.Mode
		ready  bool
		may    cluster.Term
		want   api.Code
	}{
		"holds":              {holder: "n1", mode: cluster.ModeQuorum, ready: true, may: 4},
		"lease ran out":      {holder: "n1", mode: cluster.ModeQuorum, ready: true, may: 0, want: api.CodeNoHolder},
		"not caught up yet":  {holder: "n1", mode: cluster.ModeQuorum, may: 4, want: api.CodeNoHolder},
		"another holds":      {holder: "n2", mode: cluster.ModeQuorum, ready: true, may: 4, want: api.CodeNoHolder},
		"each side may hold": {holder: "n1", mode: cluster.ModeAvailable, ready: true, may: 4, want: api.CodeConflict},
	} {
		v := &coord.View{}
		v.Lease.Holder, v.Lease.Term, v.Lease.Ready = c.holder, 4, c.ready
		v.Lease.Config.Mode = c.mode
		log := &heldLog{}
		lease := &heldLease{log: log, may: c.may}
		p := &positions{self: "n1", view: func() *coord.View { return v }, log: log, coord: lease}
		got, err := p.positionHere(t.Context(), forward.Asker{}, forward.None{})
		switch {
		case c.want != "" && !api.IsCode(err, c.want), c.want == "" && (err != nil || got.Cursor != "n1/2:7"):
			t.Errorf("%s: %+v %v, want %q", name, got, err, c.want)
		case lease.early:
			t.Errorf("%s: checked before it read", name)
		}
		if p.Has(api.Cursor{{Node: "n1", Inc: 2}: 1}) || !p.Has(nil) {
			t.Errorf("%s: an empty state has something", name)
		}
	}
}
