package membership

import (
	"context"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/internal/wait"
)

const (
	// departTime is how long the holder leaves out a voter that announced its
	// departure, and how long it waits for the others to agree.
	departTime = 15 * time.Second
	// departPause is the time between two looks at the voters.
	departPause = 50 * time.Millisecond
)

// Lease is what a departure needs of the coordination service.
type Lease interface {
	View() *coord.View
	StepDown(ctx context.Context, to cluster.NodeID, reason string, leaving bool) error
	Depart(ctx context.Context, node cluster.NodeID, d time.Duration) error
}

// Departures is the holder's part when a voter goes.
type Departures struct {
	self  cluster.NodeID
	lease Lease
}

// NewDepartures returns the Departures of host self.
func NewDepartures(self cluster.NodeID, l Lease) *Departures {
	return &Departures{self: self, lease: l}
}

// Depart removes a voter from the configuration while that host can still agree,
// and answers once the others have agreed. A host asks this for itself, a
// sponsor for a host that it is about to remove.
func (d *Departures) Depart(ctx context.Context, by forward.Asker, req forward.DepartNode) (done forward.None, err error) {
	ctx, cancel := context.WithTimeout(ctx, departTime)
	defer cancel()
	node := req.Node
	if p := d.mayDepart(node); p != nil {
		return done, p
	}
	if err := by.Spend(); err != nil {
		return done, err
	}
	if node == d.self {
		if err := d.lease.StepDown(ctx, "", "leaves the cluster", false); err != nil {
			return done, api.Errorf(api.CodeConflict, "%v", err)
		}
		return done, api.Errorf(api.CodeNoHolder, "%s handed over", node) // the asker follows the lease
	}
	if err := d.lease.Depart(ctx, node, departTime); err != nil {
		return done, api.Errorf(api.CodeConflict, "%v", err)
	}
	for {
		l := d.lease.View().Lease
		switch {
		case l.Role != cluster.RoleHolder:
			return done, api.Errorf(api.CodeNoHolder, "%s no longer holds the lease", d.self)
		case !l.Pending && !l.Config.Has(node):
			return done, nil
		}
		if err := wait.For(ctx, departPause); err != nil {
			return done, api.Errorf(api.CodeTimeout, "voters without %s not agreed upon: %v", node, err)
		}
	}
}

// mayDepart refuses to shrink the voters to a set that has no majority alive:
// the lease would be lost, and nobody could repair that.
func (d *Departures) mayDepart(node cluster.NodeID) *api.Problem {
	v := d.lease.View()
	if !v.Lease.Config.Has(node) {
		return nil
	}
	rest, alive := 0, 0
	var down []cluster.NodeID
	for _, voter := range v.Lease.Config.Voters {
		if voter == node {
			continue
		}
		rest++
		if m, ok := v.Member(voter); ok && m.Health == cluster.Alive {
			alive++
		} else {
			down = append(down, voter)
		}
	}
	switch {
	case rest == 0:
		return api.Errorf(api.CodeNotReady, "%s is still the only voter", node)
	case alive >= rest/2+1:
		return nil
	}
	return api.Errorf(api.CodeConflict, "without %s only %d of %d voters would be alive, which is no majority", node, alive, rest).
		WithHint("start what is down, or remove it first: `skein remove %s`", down[0])
}
