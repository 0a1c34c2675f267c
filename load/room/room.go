package room

import (
	"fmt"
	"math"
	"net/netip"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/pace"
)

// spare is how many files a process has open beside connections.
const spare = 64

// Limits are those of a process; 0: not known.
type Limits struct {
	Files uint64 // that may be open
	Ports uint64 // from which connections to one address are made
}

// Check refuses a plan of which this process carries a part, of 1, and whose users need
// more connections at a time than there may be. What a rate needs shows only when answers
// come: it may turn out to be too much while the run goes on, and is counted then.
func Check(p *load.Plan, part float64, l Limits) error {
	if p.HTTP.Connections != "user" {
		return nil
	}
	_, users := pace.Peak(p)
	for _, t := range p.Traffics {
		if t.Open {
			users -= t.MaxUsers
		}
	}
	need := uint64(math.Ceil(float64(max(0, users)) * part))
	switch {
	case l.Files > 0 && need+spare > l.Files:
		return fmt.Errorf("the plan comes to %d users with a connection each, this process may have %d files open", need, l.Files)
	case l.Ports > 0 && need > l.Ports && one(p):
		return fmt.Errorf("the plan comes to %d users with a connection each to one address, this machine has %d ports for them", need, l.Ports)
	}
	return nil
}

// one reports that all requests go to one port of one address.
func one(p *load.Plan) bool {
	for _, st := range p.Steps {
		if st.Dynamic || st.Origin != p.Steps[0].Origin {
			return false
		}
	}
	_, err := netip.ParseAddr(p.Steps[0].Origin.Name)
	return err == nil
}
